"""BERT behind our contract is BERT, and what a config says of its training holds."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertForMaskedLM, BertForPreTraining, BertModel, BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.encoders.bert import BertEncoderConfig, load_bert_weights
from seq2attn.errors import DataError
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from seq2attn.training.optimizers import parameter_groups
from tests.small_bert import make_bert

WORDS = [*"abcdefghij", "##a", "##b", "house", "."]
LINES = ["a house .", "aab", "j i h g f e d c b a . house", "c"]
NEAR = {"rtol": 0, "atol": 1e-5}


@pytest.fixture
def folder(tmp_path):
    return make_bert(tmp_path / "bert", WORDS)


def loaded(folder, **options):
    """Our two parts with the weights in `folder`, and the tokeniser."""
    config = BertEncoderConfig(kind="bert", path=folder, **options)
    embedding, encoder = config.build_embedding().eval(), config.build(7).eval()
    tokenizer = WordPieceTokenizerConfig(path=folder).train([])
    load_bert_weights(folder, embedding, encoder, tokenizer.bert_ids)
    return tokenizer, embedding, encoder


def reference(folder, lines, **options):
    """What `transformers` makes of the same lines, and of pairs of them."""
    own = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = BertTokenizerFast.from_pretrained(folder)(lines, padding=True, return_tensors="pt", **options)
    with torch.no_grad():
        return own(**batch, output_attentions=True)


@torch.no_grad()
def ours(folder, lines, **options):
    tokenizer, embedding, encoder = loaded(folder, **options)
    ids, mask = collate_source([tokenizer.encode(line) for line in lines])
    vectors = embedding(ids)
    return encoder(vectors, mask), encoder.forward_with_weights(vectors, mask)[1]


@pytest.mark.parametrize("shape", [{}, {"hidden_act": "relu", "layer_norm_eps": 0.1}, {"num_hidden_layers": 1}])
def test_outputs_are_berts_own(tmp_path, shape):
    folder = make_bert(tmp_path, WORDS, **shape)
    (found, weights), expected = ours(folder, LINES), reference(folder, LINES)
    assert not found.mask.all()
    torch.testing.assert_close(found.keys[found.mask], expected.last_hidden_state[found.mask], **NEAR)
    assert found.values is found.keys
    rows = found.mask[:, None, None, :, None].expand_as(weights)
    torch.testing.assert_close(weights[rows], torch.stack(expected.attentions, 1)[rows], **NEAR)
    for row, words in enumerate(found.mask):
        torch.testing.assert_close(found.final_state[0][row, 0], expected.last_hidden_state[row, words].mean(0), **NEAR)


def test_what_follows_a_separator_is_the_second_segment(folder):
    pairs = [("a b", "c house"), ("j", "e f g h"), ("a house", "b")]
    found, _ = ours(folder, [" [SEP] ".join(pair) for pair in pairs])
    expected = reference(folder, [a for a, _ in pairs], text_pair=[b for _, b in pairs])
    torch.testing.assert_close(found.keys[found.mask], expected.last_hidden_state[found.mask], **NEAR)


@pytest.mark.parametrize("kind", [BertForMaskedLM, BertForPreTraining])
@pytest.mark.parametrize("shard", ["1GB", "4KB"])
def test_checkpoints_with_heads_and_in_several_files(tmp_path, kind, shard, capfd):
    folder = make_bert(tmp_path, WORDS, kind=kind, shard=shard)
    assert (len([*folder.glob("*.safetensors")]) > 1) == (shard != "1GB")
    capfd.readouterr()
    found, _ = ours(folder, LINES)
    assert capfd.readouterr() == ("", "")  # `transformers` would tell at length what it left out
    torch.testing.assert_close(found.keys[found.mask], reference(folder, LINES).last_hidden_state[found.mask], **NEAR)


def test_checkpoints_as_they_were_named_first(tmp_path):
    # Those that Google made call the layer norms' weights gamma and beta.
    folder = make_bert(tmp_path, WORDS, kind=BertForPreTraining)
    expected = reference(folder, LINES).last_hidden_state
    weights = load_file(folder / "model.safetensors")
    for old, new in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        weights = {name.replace(old, new): 1.5 * weight if old in name else weight for name, weight in weights.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    found, _ = ours(folder, LINES)
    assert (found.keys - expected)[found.mask].abs().max() > 0.1
    expected = reference(folder, LINES).last_hidden_state
    torch.testing.assert_close(found.keys[found.mask], expected[found.mask], **NEAR)


def test_rows_for_no_word_do_no_harm(tmp_path):
    folder = make_bert(tmp_path, WORDS, vocab_size=40)
    found, _ = ours(folder, LINES)
    expected = reference(folder, LINES).last_hidden_state
    torch.testing.assert_close(found.keys[found.mask], expected[found.mask], **NEAR)


def test_long_sources_share_the_last_position(folder):
    line = "a b c d e " * 20
    tokenizer, embedding, encoder = loaded(folder)
    ids, mask = collate_source([tokenizer.encode(line)])
    vectors = embedding(ids)
    torch.testing.assert_close(vectors[0, 31:36], vectors[0, 41:46])  # the same words
    assert (vectors[0, 1:6] - vectors[0, 6:11]).abs().max() > 0.1
    assert encoder(vectors, mask).keys.isfinite().all()
    upto = reference(folder, [line], truncation=True, max_length=24).last_hidden_state.size(1)
    short, _ = ours(folder, ["a b c d e " * 4 + "a b"])
    assert short.keys.size(1) == upto == 24
    expected = reference(folder, ["a b c d e " * 4 + "a b"]).last_hidden_state
    torch.testing.assert_close(short.keys, expected, **NEAR)


# ---------------------------------------------------------------------- frozen parts, and rates


def learning(module):
    return {name for name, parameter in module.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("frozen", "embeds", "layers"),
    [("none", True, {0, 1}), (0, False, {0, 1}), (1, False, {1}), (2, False, set()), ("all", False, set())],
)
def test_what_is_frozen_neither_learns_nor_drops(tmp_path, frozen, embeds, layers):
    folder = make_bert(tmp_path, WORDS, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.0)
    tokenizer, embedding, encoder = loaded(folder, frozen=frozen)
    both = nn.ModuleList([embedding, encoder]).train()
    assert (learning(embedding) != set()) == embeds
    assert {int(name.split(".")[3]) for name in learning(encoder)} == layers
    ids, _ = collate_source([tokenizer.encode(line) for line in LINES])
    torch.manual_seed(0)
    once, twice = embedding(ids), embedding(ids)
    assert torch.equal(once, twice) != embeds
    hidden = [encoder.bert(inputs_embeds=once, output_hidden_states=True).hidden_states for _ in range(2)]
    same = [torch.equal(a, b) for a, b in zip(*hidden, strict=True)]
    assert same == [layer - 1 < min(layers, default=2) for layer in range(3)]
    groups = [parameter for group in parameter_groups(both) for parameter in group["params"]]
    assert {*groups} == {parameter for parameter in both.parameters() if parameter.requires_grad}


def test_a_rate_of_its_own(folder):
    _, embedding, encoder = loaded(folder, lr_scale=0.25, frozen=1)
    head = nn.Linear(16, 3)
    model = nn.ModuleDict({"embedding": embedding, "encoder": encoder, "head": head})
    first, second = parameter_groups(model)
    assert (first["lr_scale"], {*first["params"]}) == (1.0, {*head.parameters()})
    assert (second["lr_scale"], {*second["params"]}) == (
        0.25,
        {p for p in encoder.parameters() if p.requires_grad},
    )
    plain = nn.Linear(2, 2)
    (only,) = parameter_groups(plain)
    assert (only["lr_scale"], only["params"]) == (1.0, [*plain.parameters()])


# ---------------------------------------------------------------------- weights that cannot be had


def test_weights_that_are_not_all_there(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match=r"bert: its weights lack `.*encoder\.layer\.1\.output\.dense\.weight`"):
        loaded(folder)


def test_a_vocabulary_with_more_words_than_weights(folder):
    with (folder / "vocab.txt").open("a") as file:
        file.write("new\nnewer\n")
    with pytest.raises(DataError, match=r"bert: its vocabulary has 22 entries, and its weights 20$"):
        loaded(folder)


def test_weights_of_another_shape_than_the_config_says(folder, tmp_path):
    config = BertEncoderConfig(kind="bert", path=folder)
    other = make_bert(tmp_path / "other", WORDS, intermediate_size=24)
    with pytest.raises(DataError, match="other: its weights are not of the config's `architecture`"):
        load_bert_weights(other, config.build_embedding(), config.build(7), range(20))


def test_a_shape_that_was_read_needs_no_folder(folder):
    config = BertEncoderConfig(kind="bert", path=folder, frozen=1)
    shutil.rmtree(folder)
    again = BertEncoderConfig.model_validate(json.loads(config.model_dump_json()))
    assert again == config
    embedding, encoder = again.build_embedding(), again.build(7)
    assert encoder.key_dim == 16
    with pytest.raises(DataError, match=r"there is no folder .*bert; expected that of a BERT"):
        load_bert_weights(folder, embedding, encoder, range(20))

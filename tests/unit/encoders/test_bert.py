"""The BERT encoder against `transformers`, its frozen parts, and checkpoints that cannot be loaded."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import BertForPreTraining, BertModel, BertTokenizerFast

from seq2attn.data.collate import collate_source
from seq2attn.encoders.bert import BertEncoderConfig, load_bert_weights
from seq2attn.errors import DataError
from seq2attn.optim.optimizers import parameter_groups
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from tests.support.bert import make_bert

WORDS = [*"abcdefghij", "##a", "##b", "house", "."]
LINES = ["a house .", "aab", "j i h g f e d c b a . house", "c"]
NEAR = {"rtol": 0, "atol": 1e-5}


@pytest.fixture
def folder(tmp_path):
    return make_bert(tmp_path / "bert", WORDS)


def load_parts(folder, **options):
    """The tokenizer, the embedding and the encoder with the weights in `folder`."""
    config = BertEncoderConfig(path=folder, **options)
    embedding, encoder = config.build_embedding().eval(), config.build(7).eval()
    tokenizer = WordPieceTokenizerConfig(path=folder).train([])
    load_bert_weights(folder, embedding, encoder, tokenizer.bert_ids)
    return tokenizer, embedding, encoder


@torch.no_grad()
def assert_equals_transformers(folder, lines, **options):
    """Compares keys and weights with those of `BertModel`, and returns both outputs."""
    bert = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = BertTokenizerFast.from_pretrained(folder)(
        [*(line.split(" [SEP] ")[0] for line in lines)], padding=True, return_tensors="pt", **options
    )
    expected = bert(**batch, output_attentions=True)
    tokenizer, embedding, encoder = load_parts(folder)
    ids, sequences = collate_source([tokenizer.encode(line) for line in lines])
    mask = sequences.mask
    vectors = embedding(ids)
    output = encoder(vectors, sequences, need_weights=True)
    weights = output.weights
    torch.testing.assert_close(output.keys[mask], expected.last_hidden_state[mask], **NEAR)
    torch.testing.assert_close(encoder(vectors, sequences).keys[mask], output.keys[mask])
    rows = mask[:, None, None, :, None].expand_as(weights)
    torch.testing.assert_close(weights[rows], torch.stack(expected.attentions, 1)[rows], **NEAR)
    return output, expected


@pytest.mark.parametrize("shape", [{}, {"hidden_act": "relu", "layer_norm_eps": 0.1, "num_hidden_layers": 1}])
def test_outputs_are_those_of_transformers(tmp_path, shape):
    output, expected = assert_equals_transformers(make_bert(tmp_path, WORDS, **shape), LINES)
    assert output.values is output.keys
    for row, mask in enumerate(output.mask):
        torch.testing.assert_close(output.final_state[0][row, 0], expected.last_hidden_state[row, mask].mean(0), **NEAR)


def test_tokens_after_a_separator_are_the_second_segment(folder):
    pairs = [("a b", "c house"), ("j", "e f g h"), ("a house", "b")]
    assert_equals_transformers(folder, [" [SEP] ".join(pair) for pair in pairs], text_pair=[b for _, b in pairs])


@pytest.mark.parametrize(("shard", "vocab_size"), [("1GB", 40), ("4KB", None)])
def test_checkpoints_with_heads_unused_rows_and_several_files(tmp_path, shard, vocab_size, capfd):
    shape = {"vocab_size": vocab_size} if vocab_size else {}
    folder = make_bert(tmp_path, WORDS, kind=BertForPreTraining, shard=shard, **shape)
    assert (len([*folder.glob("*.safetensors")]) > 1) == (shard != "1GB")
    capfd.readouterr()
    load_parts(folder)
    assert capfd.readouterr() == ("", "")  # `transformers` would report the heads as unused
    assert_equals_transformers(folder, LINES)


def test_layer_norms_may_have_the_names_of_googles_checkpoints(tmp_path):
    folder = make_bert(tmp_path, WORDS, kind=BertForPreTraining)
    weights = load_file(folder / "model.safetensors")
    for old, new in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        weights = {name.replace(old, new): 1.5 * weight if old in name else weight for name, weight in weights.items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert_equals_transformers(folder, LINES)


def test_tokens_of_long_sources_share_the_last_position(folder):
    tokenizer, embedding, encoder = load_parts(folder)
    ids, sequences = collate_source([tokenizer.encode("a b c d e " * 20)])
    vectors = embedding(ids)
    torch.testing.assert_close(vectors[0, 31:36], vectors[0, 41:46])  # the same tokens
    assert (vectors[0, 1:6] - vectors[0, 6:11]).abs().max() > 0.1
    assert encoder(vectors, sequences).keys.isfinite().all()
    output, _ = assert_equals_transformers(folder, ["a b c d e " * 4 + "a b"])
    assert output.keys.size(1) == 24


@pytest.mark.parametrize(
    ("frozen", "embeds", "layers"), [("none", True, {0, 1}), (0, False, {0, 1}), (1, False, {1}), ("all", False, set())]
)
def test_frozen_parts_have_no_gradient_and_no_dropout(tmp_path, frozen, embeds, layers):
    folder = make_bert(tmp_path, WORDS, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.0)
    tokenizer, embedding, encoder = load_parts(folder, frozen=frozen)
    both = nn.ModuleList([embedding, encoder]).train()
    assert any(p.requires_grad for p in embedding.parameters()) == embeds
    assert {int(name.split(".")[3]) for name, p in encoder.named_parameters() if p.requires_grad} == layers
    ids, _ = collate_source([tokenizer.encode(line) for line in LINES])
    torch.manual_seed(0)
    once, twice = embedding(ids), embedding(ids)
    assert torch.equal(once, twice) != embeds
    hidden = [encoder.bert(inputs_embeds=once, output_hidden_states=True).hidden_states for _ in range(2)]
    same = [torch.equal(a, b) for a, b in zip(*hidden, strict=True)]
    assert same == [layer - 1 < min(layers, default=2) for layer in range(3)]
    groups = [parameter for group in parameter_groups(both, {}) for parameter in group["params"]]
    assert {*groups} == {parameter for parameter in both.parameters() if parameter.requires_grad}


def test_missing_weights(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match=r"bert: its weights lack `.*encoder\.layer\.1\.output\.dense\.weight`"):
        load_parts(folder)


def test_a_vocabulary_larger_than_the_embeddings(folder):
    with (folder / "vocab.txt").open("a") as file:
        file.write("new\nnewer\n")
    with pytest.raises(DataError, match=r"bert: its vocabulary has 22 entries, and its weights 20$"):
        load_parts(folder)


def test_a_config_with_an_architecture_needs_no_folder_until_weights_are_loaded(folder, tmp_path):
    config = BertEncoderConfig(path=folder, frozen=1)
    shutil.rmtree(folder)
    again = BertEncoderConfig.model_validate(json.loads(config.model_dump_json()))
    assert again == config
    parts = again.build_embedding(), again.build(7)
    assert parts[1].key_dim == 16
    with pytest.raises(DataError, match=r"there is no folder .*bert; expected that of a BERT"):
        load_bert_weights(folder, *parts, range(20))
    other = make_bert(tmp_path / "other", WORDS, intermediate_size=24)
    with pytest.raises(DataError, match="other: its weights are not of the config's `architecture`"):
        load_bert_weights(other, *parts, range(20))

"""Links from attention: how they are scored, where they come from, and which head is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from seq2attn.alignment.alignment_error import AlignmentErrorRate
from seq2attn.alignment.head_selection import (
    AttentionHead,
    all_heads,
    default_head,
    load_selected_head,
    save_selected_head,
    score_heads,
)
from seq2attn.alignment.word_attention import WordAttention, argmax_links, word_attention_weights
from seq2attn.data.collate import collate
from seq2attn.data.word_alignment import WordAlignment
from seq2attn.decoders import FixedContextDecoderConfig, LuongDecoderConfig, TransformerDecoderConfig
from seq2attn.encoders import RecurrentEncoderConfig
from seq2attn.errors import RunError
from seq2attn.io.weights import save_tensors
from seq2attn.models import Seq2Seq, build_model
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.models.config import EmbeddingsConfig, ModelConfig
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from seq2attn.training.guided_alignment import GuidedAlignmentConfig

# ---------------------------------------------------------------------- the score

SURE = frozenset({(0, 0), (1, 1), (2, 3)})
GOLD = WordAlignment(SURE, SURE | {(1, 2), (3, 2)})


def test_the_error_rate_of_an_example() -> None:
    # A has four links: two sure, one only possible, one wrong. S has three.
    found = AlignmentErrorRate.from_links([(0, 0), (1, 1), (1, 2), (0, 3)], GOLD)
    assert found.precision == 3 / 4
    assert found.recall == 2 / 3
    assert found.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert str(found) == "precision 75.0%  recall 66.7%  AER 28.6%"


def test_sentences_are_counted_together() -> None:
    both = AlignmentErrorRate.from_links([(0, 0)], GOLD) + AlignmentErrorRate.from_links([(4, 4), (4, 5)], GOLD)
    assert (both.precision, both.recall) == (1 / 3, 1 / 6)
    assert both.error_rate == pytest.approx(1 - (1 + 1) / (3 + 6))


def test_perfect_and_empty() -> None:
    assert (
        AlignmentErrorRate.from_links(SURE, GOLD).error_rate
        == AlignmentErrorRate.from_links(GOLD.possible, GOLD).error_rate
        == 0
    )
    assert (
        AlignmentErrorRate.from_links([], GOLD).error_rate
        == AlignmentErrorRate.from_links([(9, 9)], GOLD).error_rate
        == 1
    )
    nothing = AlignmentErrorRate.from_links([], WordAlignment(frozenset(), frozenset()))
    assert (nothing.precision, nothing.recall, nothing.error_rate) == (1, 1, 0)


def test_without_possible_links_it_is_one_minus_f() -> None:
    gold = WordAlignment(SURE, SURE)
    found = AlignmentErrorRate.from_links([(0, 0), (1, 1), (5, 5), (6, 6)], gold)
    f = 2 * found.precision * found.recall / (found.precision + found.recall)
    assert found.error_rate == pytest.approx(1 - f)


# ---------------------------------------------------------------------- words

DECODERS = {
    "luong": LuongDecoderConfig(kind="luong", dim=16),
    "transformer": TransformerDecoderConfig(kind="transformer", layers=2),
}
PAIRS = [
    ("the lantern, slowly", "a wandering river"),
    ("", "nothing"),
    ("boat", "the mountain  and the paper boat"),
    ("thunder", " "),
    ("red boat the river the lantern", "thunder xyzzy"),
]
TEXT = [f"the {a} {b}" for a in ("red", "green", "paper") for b in ("boat", "river", "lantern", "thunder")]
TOKENIZERS: dict[str, Tokenizer] = {
    "bpe": BPETokenizerConfig(vocab_size=290).train(TEXT),
    "words": WordTokenizerConfig().train([*TEXT, "slowly, a wandering mountain and"]),
}


def net(decoder: str, tokenizer: Tokenizer) -> Seq2Seq:
    torch.manual_seed(3)
    config = ModelConfig(
        embeddings=EmbeddingsConfig(dim=16),
        encoder=RecurrentEncoderConfig(kind="gru", dim=16),
        decoder=DECODERS.get(decoder, FixedContextDecoderConfig(kind="fixed-context", dim=16)),
    )
    return build_model(config, len(tokenizer.vocabulary), len(tokenizer.vocabulary)).eval()


@pytest.mark.parametrize("cut", TOKENIZERS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_weights_are_those_of_reading_the_pair_alone(decoder: str, cut: str) -> None:
    tokenizer = TOKENIZERS[cut]
    model = net(decoder, tokenizer)
    together = word_attention_weights(model, (tokenizer, tokenizer), PAIRS)
    assert [weights is None for weights in together] == [False, True, False, True, False]
    for budget in (1, 20):
        other = word_attention_weights(model, (tokenizer, tokenizer), PAIRS, budget=budget)
        for one, two in zip(together, other, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6) if one is not None else None
    for (source, target), found in zip(PAIRS, together, strict=True):
        if found is None:
            continue
        ids = [tokenizer.encode(side) for side in (source, target)]
        # A space begins each word of these lines, so that pieces can be counted word by word.
        sizes = [[len(tokenizer.encode(word)) for word in side.split()] for side in (source, target)]
        batch = collate([(ids[0], ids[1])])
        seen = model(batch.source, batch.source_mask, batch.target, need_weights=True).cross_attention[0].detach()
        for step, shift in enumerate((0, 1)):
            rows = seen[:, :, shift:].split([*sizes[1], seen.size(2) - shift - sum(sizes[1])], dim=2)
            for word, row in enumerate(rows[:-1]):
                columns = row.mean(2).split([*sizes[0], 1], dim=-1)
                expected = torch.stack([column.sum(-1) for column in columns[:-1]], -1)
                np.testing.assert_allclose(found[step, :, :, word], expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("decoder", DECODERS)
def test_weights_of_empty_sides_are_those_of_their_ends(decoder: str) -> None:
    pairs = [([4, 5, 6], [7]), ([], [4, 5]), ([4], []), ([], [])]
    model = net(decoder, TOKENIZERS["words"])
    for budget in (1, 100):
        found = cross_attention_weights(model, pairs, budget=budget)
        for (source, target), weights in zip(pairs, found, strict=True):
            assert weights is not None and weights.shape[2:] == (len(target) + 1, len(source) + 1)
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_a_model_without_attention_has_no_weights() -> None:
    words = TOKENIZERS["words"]
    assert word_attention_weights(net("fixed-context", words), (words, words), PAIRS) == [None] * len(PAIRS)


def test_words_that_become_nothing_have_no_link() -> None:
    words = TOKENIZERS["words"]
    (found,) = word_attention_weights(net("luong", words), (words, words), [("the ▁ boat", "▁ river ▁")])
    assert found is not None and found.shape[-2:] == (3, 3)
    assert [target for _, target in argmax_links(found[0, 0, 0])] == [1]
    assert not found[..., 1].any()


def test_each_target_word_is_linked_to_where_it_looks_most() -> None:
    weights = np.array([[0.1, 0.6, 0.2], [0.3, 0.3, 0.1], [0, 0, 0]], dtype=np.float32)
    assert argmax_links(weights) == [(1, 0), (0, 1)]


# ---------------------------------------------------------------------- heads


def planted(right: AttentionHead, gold: WordAlignment, layers: int = 2, heads: int = 3) -> WordAttention:
    """Weights [2, L, H, 4, 4] of which one head looks where it should, and the others at word 3."""
    weights = np.zeros((2, layers, heads, 4, 4), dtype=np.float32)
    weights[..., 3] = 0.6
    assert isinstance(right.head, int)
    where = weights[["output", "input"].index(right.step), right.layer - 1, right.head - 1]
    where[:] = 0
    for source, target in gold.sure:
        where[target, source] = 1
    return weights


@pytest.mark.parametrize("right", [AttentionHead(1, 2), AttentionHead(2, 1, "input"), AttentionHead(2, 3)])
def test_the_best_head_is_found(right: AttentionHead) -> None:
    gold = WordAlignment(frozenset({(0, 1), (2, 0), (1, 3)}), frozenset({(0, 1), (2, 0), (1, 3)}))
    none = WordAlignment(frozenset({(0, 0)}), frozenset({(0, 0)}))
    compared = score_heads([(planted(right, gold), gold), (planted(right, gold), gold), (None, none)])
    assert len(compared) == 2 * 2 * (3 + 1)
    best, agreement = next(iter(compared.items()))
    assert best == right
    assert (agreement.precision, agreement.recall) == (1, 6 / 7)  # of the empty pair nothing is found
    rates = [own.error_rate for own in compared.values()]
    assert rates == sorted(rates) and rates[0] < rates[1]


def test_the_mean_is_that_of_the_heads() -> None:
    weights = np.random.default_rng(0).random((2, 2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(
        AttentionHead(2, "mean").select(weights),
        sum(AttentionHead(2, h).select(weights) for h in (1, 2, 3)) / 3,
    )
    assert AttentionHead(1, "mean") not in all_heads(weights[:, :, :1])
    assert score_heads([(None, GOLD)]) == {}


def test_what_links_are_taken_from_unless_chosen() -> None:
    weights = np.zeros((2, 3, 4, 1, 1), dtype=np.float32)
    assert default_head(weights, None) == AttentionHead(3, "mean")
    assert default_head(weights[:, :, :1], None) == AttentionHead(3, 1)
    assert default_head(weights, GuidedAlignmentConfig()) == AttentionHead(2, 1)
    assert default_head(weights, GuidedAlignmentConfig(layer=3, head="mean")) == AttentionHead(3, "mean")


def run_of(folder: Path, origin: str = "00000001") -> RunDirectory:
    save_tensors({}, folder / "model.safetensors", {"origin": {"checkpoints": [origin]}})
    return RunDirectory(folder)


@pytest.mark.parametrize("head", [AttentionHead(2, 3), AttentionHead(1, "mean", "input")])
def test_a_choice_is_remembered_with_the_weights_it_was_for(tmp_path: Path, head: AttentionHead) -> None:
    run = run_of(tmp_path)
    assert load_selected_head(run) is None
    save_selected_head(
        run,
        {
            head: AlignmentErrorRate.from_links(SURE, GOLD),
            AttentionHead(1, 1): AlignmentErrorRate.from_links([], GOLD),
        },
    )
    assert load_selected_head(run) == (head, True)
    content = json.loads((tmp_path / "alignment.json").read_text())
    assert content["error_rate"] == 0 and len(content["candidates"]) == 2
    assert load_selected_head(run_of(tmp_path, "00000002")) == (head, False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"layer": 0, "head": 1, "step": "output"}', "names no layer, head and step"),
        ('{"layer": 1, "head": "all", "step": "output"}', "names no layer, head and step"),
        ('{"layer": 1, "head": 1}', "names no layer, head and step"),
    ],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "alignment.json").write_text(content)
    with pytest.raises(RunError) as error:
        load_selected_head(run_of(tmp_path))
    assert str(error.value).startswith(f"{tmp_path / 'alignment.json'}: {message}")
    assert "select again" in str(error.value)

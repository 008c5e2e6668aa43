"""Word alignment: error rates, attention weights between words, and head selection."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from seq2attn.data.collate import collate
from seq2attn.data.word_alignment import WordAlignment
from seq2attn.errors import RunError
from seq2attn.evaluation.head_selection import (
    AlignmentErrorRate,
    AttentionHead,
    WordAttention,
    all_heads,
    default_head,
    load_selected_head,
    save_selected_head,
    score_heads,
    word_attention_weights,
)
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import save_tensors
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig
from seq2attn.models import Seq2Seq, attention_weights
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.bert import make_bert
from tests.support.models import model

SURE = frozenset({(0, 0), (1, 1), (2, 3)})
GOLD = WordAlignment(SURE, SURE | {(1, 2), (3, 2)})


def rate(links, gold=GOLD) -> AlignmentErrorRate:
    return AlignmentErrorRate.from_links(links, gold)


def test_error_rates() -> None:
    # A has four links: two sure, one only possible, one wrong. S has three.
    example = rate([(0, 0), (1, 1), (1, 2), (0, 3)])
    assert (example.precision, example.recall) == (3 / 4, 2 / 3)
    assert example.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert str(example) == "precision 75.0%  recall 66.7%  AER 28.6%"
    total = rate([(0, 0)]) + rate([(4, 4), (4, 5)])
    assert (total.precision, total.recall) == (1 / 3, 1 / 6)
    assert total.error_rate == pytest.approx(1 - (1 + 1) / (3 + 6))
    assert rate(SURE).error_rate == rate(GOLD.possible).error_rate == 0
    assert rate([]).error_rate == rate([(9, 9)]).error_rate == 1
    empty = rate([], WordAlignment(frozenset(), frozenset()))
    assert (empty.precision, empty.recall, empty.error_rate) == (1, 1, 0)


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


def build(decoder: str, tokenizer: Tokenizer) -> Seq2Seq:
    return model("gru", decoder, "multi-head", words=len(tokenizer.vocabulary)).float()


@pytest.mark.parametrize(("decoder", "name"), [("luong", "bpe"), ("transformer", "bpe"), ("transformer", "words")])
def test_weights_are_pooled_from_those_of_single_pairs(decoder: str, name: str) -> None:
    tokenizer = TOKENIZERS[name]
    net = build(decoder, tokenizer)
    batched = word_attention_weights(net, (tokenizer, tokenizer), PAIRS)
    assert [weights is None for weights in batched] == [False, True, False, True, False]
    for (source, target), weights in zip(PAIRS, batched, strict=True):
        if weights is None:
            continue
        ids = [tokenizer.encode(side) for side in (source, target)]
        sizes = [[len(tokenizer.encode(word)) for word in side.split()] for side in (source, target)]
        batch = collate([(ids[0], ids[1])])
        attention = net(batch.source, batch.sequences, batch.target, need_weights=True).cross_attention[0].detach()
        for step, shift in enumerate((0, 1)):
            rows = attention[:, :, shift:].split([*sizes[1], attention.size(2) - shift - sum(sizes[1])], dim=2)
            for word, row in enumerate(rows[:-1]):
                columns = row.mean(2).split([*sizes[0], 1], dim=-1)
                expected = torch.stack([column.sum(-1) for column in columns[:-1]], -1)
                np.testing.assert_allclose(weights[step, :, :, word], expected.numpy(), atol=1e-6)


def test_attention_to_a_token_without_text_is_of_no_word(tmp_path: Path) -> None:
    words, bert = TOKENIZERS["words"], make_bert(tmp_path, ["the", "boat"])
    source = WordPieceTokenizerConfig(path=bert).train([])  # `[CLS]` is before each line
    net = build("luong", words)
    for line in ("boat", "the boat"):
        (weights,) = word_attention_weights(net, (source, words), [(line, "river")])
        (tokens,) = cross_attention_weights(net, [(source.encode(line), words.encode("river"))])
        assert weights is not None and tokens is not None
        np.testing.assert_allclose(weights[0, :, :, 0], tokens[:, :, 0, 1:-1], atol=1e-6)


@pytest.mark.parametrize("decoder", ["luong", "transformer"])
def test_weights_of_empty_sides_are_those_of_eos(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [([4, 5, 6], [7]), ([], [4, 5]), ([4], []), ([], [])]
    net = build(decoder, TOKENIZERS["words"])
    for budget in (1, 100):
        monkeypatch.setattr(attention_weights, "BATCH_TOKENS", budget)
        output = cross_attention_weights(net, pairs)
        for (source, target), weights in zip(pairs, output, strict=True):
            assert weights is not None and weights.shape[2:] == (len(target) + 1, len(source) + 1)
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_a_model_without_attention_has_no_weights() -> None:
    words = TOKENIZERS["words"]
    assert word_attention_weights(build("fixed-gru", words), (words, words), PAIRS) == [None] * len(PAIRS)


def test_words_without_tokens_have_no_link() -> None:
    words = TOKENIZERS["words"]
    (weights,) = word_attention_weights(build("luong", words), (words, words), [("the ▁ boat", "▁ river ▁")])
    assert weights is not None and weights.shape[-2:] == (3, 3)
    assert [target for _, target in AttentionHead(1, 1).links(weights)] == [1]
    assert not weights[..., 1].any()


def test_links_are_the_largest_weights_of_target_words() -> None:
    weights = np.array([[0.1, 0.6, 0.2], [0.3, 0.3, 0.1], [0, 0, 0]], dtype=np.float32)
    assert AttentionHead(1, 1).links(np.broadcast_to(weights, (2, 1, 1, 3, 3))) == [(1, 0), (0, 1)]


def weights_with(right: AttentionHead, gold: WordAlignment) -> WordAttention:
    """Weights [2, L, H, 4, 4] with one correct head; the others attend to word 3."""
    weights = np.zeros((2, 2, 3, 4, 4), dtype=np.float32)
    weights[..., 3] = 0.6
    assert isinstance(right.head, int)
    head = weights[["output", "input"].index(right.step), right.layer - 1, right.head - 1]
    head[:] = 0
    for source, target in gold.sure:
        head[target, source] = 1
    return weights


@pytest.mark.parametrize("right", [AttentionHead(1, 2), AttentionHead(2, 1, "input"), AttentionHead(2, 3)])
def test_the_best_head_is_first(right: AttentionHead) -> None:
    gold, unaligned = (
        WordAlignment(links, links) for links in (frozenset({(0, 1), (2, 0), (1, 3)}), frozenset({(0, 0)}))
    )
    rates = score_heads([(weights_with(right, gold), gold)] * 2 + [(None, unaligned)])
    assert len(rates) == 2 * 2 * (3 + 1)
    best, best_rate = next(iter(rates.items()))
    assert best == right
    assert (best_rate.precision, best_rate.recall) == (1, 6 / 7)  # no links in the empty pair
    values = [one.error_rate for one in rates.values()]
    assert values == sorted(values) and values[0] < values[1]


def test_the_mean_is_that_of_the_heads() -> None:
    weights = np.random.default_rng(0).random((2, 2, 3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(
        AttentionHead(2, "mean").select(weights), sum(AttentionHead(2, h).select(weights) for h in (1, 2, 3)) / 3
    )
    assert AttentionHead(1, "mean") not in all_heads(weights[:, :, :1])
    assert score_heads([(None, GOLD)]) == {}


def test_the_default_head() -> None:
    weights = np.zeros((2, 3, 4, 1, 1), dtype=np.float32)
    assert default_head(weights, None) == AttentionHead(3, "mean")
    assert default_head(weights[:, :, :1], None) == AttentionHead(3, 1)
    assert default_head(weights, GuidedAlignmentConfig()) == AttentionHead(2, 1)
    assert default_head(weights, GuidedAlignmentConfig(layer=3, head="mean")) == AttentionHead(3, "mean")


def run_of(folder: Path, origin: str = "00000001") -> RunDirectory:
    save_tensors({}, folder / "model.safetensors", {"origin": {"checkpoints": [origin]}})
    return RunDirectory(folder)


@pytest.mark.parametrize("head", [AttentionHead(2, 3), AttentionHead(1, "mean", "input")])
def test_a_selection_is_saved_with_the_origin_of_the_weights(tmp_path: Path, head: AttentionHead) -> None:
    run = run_of(tmp_path)
    assert load_selected_head(run) is None
    save_selected_head(run, {head: rate(SURE), AttentionHead(1, 1): rate([])})
    assert load_selected_head(run) == (head, True)
    content = json.loads((tmp_path / "alignment.json").read_text())
    assert content["error_rate"] == 0 and len(content["candidates"]) == 2
    assert load_selected_head(run_of(tmp_path, "00000002")) == (head, False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"layer": 0, "head": 1, "step": "output"}', "has no valid layer, head and step"),
        ('{"layer": 1, "head": "all", "step": "output"}', "has no valid layer, head and step"),
        ('{"layer": 1, "head": 1}', "has no valid layer, head and step"),
    ],
)
def test_an_invalid_record_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "alignment.json").write_text(content)
    with pytest.raises(RunError) as error:
        load_selected_head(run_of(tmp_path))
    assert str(error.value).startswith(f"{tmp_path / 'alignment.json'}: {message}")
    assert "select again" in str(error.value)

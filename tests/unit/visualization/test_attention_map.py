"""Selection of attention weights: kind, layer and head, subword tokens or whole words."""

from pathlib import Path

import numpy as np
import pytest

from seq2attn.errors import UserError
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionSelection
from seq2attn.tokenizers.normalize import join_sentences
from seq2attn.tokenizers.subwords import BPETokenizerConfig
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.vocabulary import EOS
from seq2attn.tokenizers.words import CharacterTokenizerConfig
from seq2attn.visualization.attention import attention_text, draw_attention, select_all_maps, select_map
from seq2attn.visualization.attention_map import AttentionMap
from tests.support.attention_pages import SOURCE, TARGET, page_data, random_weights


@pytest.mark.parametrize("kind", ["cross", "encoder"])
def test_whole_words_have_sums_over_keys_and_means_over_queries(kind) -> None:
    attention = AttentionMap.from_weights(random_weights(), kind)
    whole = attention.whole_words()
    assert (whole.keys.tokens, whole.queries.tokens) == (attention.keys.words, attention.queries.words)
    expected = np.zeros(whole.weights.shape)
    for q, query in enumerate(attention.queries.word_ids):
        for k, key in enumerate(attention.keys.word_ids):
            expected[..., query, key] += attention.weights[..., q, k] / attention.queries.word_ids.count(query)
    np.testing.assert_allclose(whole.weights, expected, rtol=1e-5)
    np.testing.assert_allclose(whole.whole_words().weights, whole.weights, rtol=1e-5)


def test_a_selection_keeps_its_names() -> None:
    weights = random_weights()
    attention = AttentionMap.from_weights(weights, "cross")
    assert weights.cross_attention is not None
    assert (attention.queries, attention.keys) == (TARGET, SOURCE)
    one = attention.layer(2).head("3")
    np.testing.assert_array_equal(one.weights, weights.cross_attention[1:2, 2:3])
    assert (one.layers, one.heads, one.name(0, 0)) == (("2",), ("3",), "layer 2, head 3")
    mean = attention.layer("top").head("mean")
    np.testing.assert_allclose(mean.weights[0, 0], weights.cross_attention[1].mean(0))
    assert mean.name(0, 0) == "layer 2, mean of heads"
    assert attention.layer("all").head("all") is attention
    encoder = AttentionMap.from_weights(weights, "encoder")
    assert encoder.queries == encoder.keys == SOURCE
    np.testing.assert_array_equal(encoder.weights, weights.encoder_self_attention)


@pytest.mark.parametrize(
    ("selection", "options", "message"),
    [
        (AttentionSelection(layer=3), {}, "no layer `3`: the cross-attention has 2; use 1 to 2, top or all"),
        (
            AttentionSelection("encoder", head=4),
            {},
            "no head `4`: the encoder self-attention has 3; use 1 to 3, mean or",
        ),
        (AttentionSelection(head="-1"), {}, "there is no head `-1`"),
        (AttentionSelection(head="top"), {}, "there is no head `top`"),
        (AttentionSelection("other"), {}, "there is no kind of attention `other`; use cross, encoder, decoder"),
        (AttentionSelection("encoder"), {"encoder": False}, "has no encoder self-attention; it has cross-attention"),
    ],
)
def test_unknown_layers_heads_and_kinds_are_errors(selection: AttentionSelection, options, message: str) -> None:
    for show in (select_map, select_all_maps, attention_text):
        with pytest.raises(UserError) as error:
            show(random_weights(**options), selection)
        assert message in str(error.value)


def test_an_unknown_color_scale_is_an_error() -> None:
    with pytest.raises(UserError, match="there is no color scale `rows`; use max, row, 0-1"):
        AttentionSelection(color_scale="rows")  # type: ignore[arg-type]


def test_a_missing_kind_of_attention_is_an_error() -> None:
    with pytest.raises(UserError, match=r"the model has no cross-attention; it has encoder self-attention"):
        select_map(random_weights(decoder=False))
    with pytest.raises(UserError, match=r"the model has no cross-attention$"):
        select_all_maps(random_weights(decoder=False, encoder=False))


def test_defaults_depend_on_the_output_format() -> None:
    weights = random_weights()
    assert select_map(weights).weights.shape[:2] == (1, 3)

    def kinds(selection: AttentionSelection, **options: bool) -> list[tuple[str, int, int]]:
        return [(one.kind, *one.weights.shape[:2]) for one in select_all_maps(random_weights(**options), selection)]

    assert kinds(AttentionSelection()) == [("cross", 2, 3), ("encoder", 2, 3)]
    assert kinds(AttentionSelection(), decoder=False) == [("encoder", 2, 3)]
    assert kinds(AttentionSelection(), encoder=False) == [("cross", 2, 3)]
    assert kinds(AttentionSelection("encoder", layer=1, head="mean")) == [("encoder", 1, 1)]
    text = attention_text(weights)
    assert text.startswith("layer 2, mean of heads\n") and text.count("▁The") == 1
    every = attention_text(weights, AttentionSelection(layer="all", head="all", whole_words=True))
    titles = [line for line in every.splitlines() if line.startswith("layer")]
    assert titles == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)]
    assert every.count("weight: ") == 1 and "▁" not in every
    assert "layer" not in attention_text(random_weights(1, 1))


@pytest.mark.parametrize("right_to_left", [False, True])
@pytest.mark.parametrize("line", ["我用 Python 写 red12。", "two red boats"])
def test_titles_are_the_sentences(tmp_path: Path, line: str, right_to_left: bool) -> None:
    tokenizer = CharacterTokenizerConfig().train([line]).with_direction(right_to_left=right_to_left)
    text = TokenizedText.from_ids(tokenizer, [*tokenizer.encode(line), EOS])
    size = len(text.tokens)
    weights = AttentionWeights(text, text, text, np.ones((1, 1, size, size), np.float32), None, None)
    for selection in (AttentionSelection(), AttentionSelection(whole_words=True)):
        draw_attention([weights, AttentionWeights.concat([weights, weights])], tmp_path / "page.html", selection)
        one, both = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))["explorations"]
        assert one["hypotheses"][0]["text"] == one["text"] == line
        assert both["text"] == join_sentences([line, line])
    draw_attention(weights, tmp_path / "picture.svg", AttentionSelection(whole_words=True))
    assert f"<!-- {line} -->" in (tmp_path / "picture.svg").read_text(encoding="utf-8")


def test_a_picture_shows_one_sentence(tmp_path) -> None:
    weights = random_weights()
    with pytest.raises(UserError, match=r"a picture shows one sentence, not 2; use a page \(\.html\)"):
        draw_attention([weights, weights], tmp_path / "a.png")
    with pytest.raises(UserError, match=r"use one of \.png, \.svg, \.pdf, \.html"):
        draw_attention(weights, tmp_path / "a.bmp")
    assert not list(tmp_path.iterdir())
    for name in ("a.svg", "a.html"):
        with pytest.raises(UserError, match=r"new/a.* cannot be written: No such file or directory"):
            draw_attention(weights, tmp_path / "new" / name)
    draw_attention(weights, tmp_path / "a.svg", AttentionSelection("encoder", whole_words=True))
    draw_attention([None, weights, None], tmp_path / "a.html")
    for none in (None, [None]):  # such as translated without `attention=True`
        with pytest.raises(UserError, match="there is no attention to draw"):
            draw_attention(none, tmp_path / "b.html")
    with pytest.raises(UserError, match="there is no attention to draw"):
        attention_text(None)
    assert len(page_data((tmp_path / "a.html").read_text(encoding="utf-8"))["explorations"]) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"a.svg", "a.html"}


@pytest.mark.parametrize("whole_words", [False, True])
def test_marks_are_alone_and_the_bytes_of_a_letter_are_joined(whole_words: bool) -> None:
    """Attention to a full stop is not that to the word before it; sums over all columns stay."""
    tokenizer = BPETokenizerConfig(vocab_size=300).train(["a boat", "an old boat"] * 9)
    source, target = "“Old, boat” ب!", "A boat ب."
    sides = [TokenizedText.from_ids(tokenizer, [*tokenizer.encode(line), EOS]) for line in (source, target)]
    values = np.random.default_rng(1).random((1, 2, len(sides[1].tokens), len(sides[0].tokens)), np.float32)
    drawn = select_map(
        AttentionWeights(*sides, sides[1], values, None, None), AttentionSelection(whole_words=whole_words)
    )
    assert "<0x" not in "".join((*drawn.keys.tokens, *drawn.queries.tokens))
    place = [token.strip("▁") for token in drawn.keys.tokens].index("ب")
    is_byte = [token.startswith("<0x") for token in sides[0].tokens]
    (first, *_, last) = [n for n, token in enumerate(sides[0].tokens) if token in ("<0xD8>", "<0xA8>") and is_byte[n]]
    if whole_words:
        assert drawn.keys.tokens == (*"“", "Old", *",", "boat", *"”", "ب", *"!", "</s>")
        assert drawn.queries.tokens == ("A", "boat", "ب", *".", "</s>")
    np.testing.assert_allclose(drawn.weights.sum(-1)[0, :, -1], values.sum(-1)[0, :, -1], rtol=1e-5)
    expected = values[0, :, -1, first : last + 1].sum(-1)
    if whole_words and sides[0].tokens[first - 1] == "▁":
        expected = values[0, :, -1, first - 1 : last + 1].sum(-1)
    np.testing.assert_allclose(drawn.weights[0, :, -1, place], expected, rtol=1e-5)

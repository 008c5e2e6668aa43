"""What of a model's attention is drawn: which part, layer and head, in pieces or in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.errors import UserError
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.tokenizers.unicode_scripts import is_of_unspaced_script
from seq2attn.tokenizers.vocabulary import BOS, EOS
from seq2attn.visualization.attention import AttentionSelection, attention_text, draw_attention
from seq2attn.visualization.attention_map import AttentionMap
from tests.unit.tokenizers.test_tokenizers import TEXT, TRAINED
from tests.unit.visualization.looks import SOURCE, TARGET, looked


@pytest.mark.parametrize("name", TRAINED)
@given(line=st.text() | st.sampled_from(TEXT))
def test_words_of_a_line_are_those_of_its_text(name: str, line: str) -> None:
    tokenizer = TRAINED[name]
    ids = tokenizer.encode(line)
    found = TokenizedText.from_ids(tokenizer, [BOS, *ids, EOS])
    assert found.tokens == tuple(tokenizer.convert_ids_to_tokens([BOS, *ids, EOS]))
    assert (found.words[0], found.words[-1]) == ("<s>", "</s>")
    if ids:
        assert "".join(found.words[1:-1]) == "".join(tokenizer.decode(ids).split())
        if not any(map(is_of_unspaced_script, line)):
            assert list(found.words[1:-1]) == tokenizer.decode(ids).split()
    assert list(found.word_ids) == sorted(found.word_ids)
    assert set(found.word_ids) == set(range(len(found.words)))


@pytest.mark.parametrize("kind", ["cross", "encoder"])
def test_whole_words_add_up_and_average(kind) -> None:
    one = AttentionMap.from_weights(looked(), kind)
    whole = one.whole_words()
    assert (whole.keys.tokens, whole.queries.tokens) == (one.keys.words, one.queries.words)
    expected = np.zeros(whole.weights.shape)
    for q, query in enumerate(one.queries.word_ids):
        for k, key in enumerate(one.keys.word_ids):
            expected[..., query, key] += one.weights[..., q, k] / one.queries.word_ids.count(query)
    np.testing.assert_allclose(whole.weights, expected, rtol=1e-5)
    np.testing.assert_allclose(whole.weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(whole.whole_words().weights, whole.weights, rtol=1e-5)


def test_what_is_chosen_keeps_its_name() -> None:
    seen = looked()
    whole = AttentionMap.from_weights(seen, "cross")
    assert seen.cross_attention is not None and seen.encoder_self_attention is not None
    assert (whole.queries, whole.keys) == (TARGET, SOURCE)
    one = whole.layer(2).head("3")
    np.testing.assert_array_equal(one.weights, seen.cross_attention[1:2, 2:3])
    assert (one.layers, one.heads, one.name(0, 0)) == (("2",), ("3",), "layer 2, head 3")
    mean = whole.layer("top").head("mean")
    np.testing.assert_allclose(mean.weights[0, 0], seen.cross_attention[1].mean(0))
    assert mean.name(0, 0) == "layer 2, mean of heads"
    assert whole.layer("all").head("all") is whole
    within = AttentionMap.from_weights(seen, "encoder")
    assert within.queries == within.keys == SOURCE
    np.testing.assert_array_equal(within.weights, seen.encoder_self_attention)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (
            AttentionSelection(layer=3),
            "there is no layer `3`: its cross-attention has 2; use 1 to 2, top or all",
        ),
        (AttentionSelection(layer="0"), "there is no layer `0`: its cross-attention"),
        (
            AttentionSelection(kind="encoder", head=4),
            "there is no head `4`: its encoder self-attention has 3; use 1 to 3, mean",
        ),
        (AttentionSelection(head="-1"), "there is no head `-1`"),
        (AttentionSelection(head="top"), "there is no head `top`"),
    ],
)
def test_what_is_not_there_cannot_be_chosen(choice: AttentionSelection, said: str) -> None:
    for draw in (choice.select, choice.select_all, lambda seen: attention_text(seen, choice)):
        with pytest.raises(UserError) as raised:
            draw(looked())
        assert said in str(raised.value)


def test_a_missing_kind_of_attention_is_named() -> None:
    with pytest.raises(UserError, match=r"the model has no encoder self-attention; it has cross-attention"):
        AttentionSelection("encoder").select(looked(encoder=False))
    with pytest.raises(UserError, match=r"the model has no cross-attention; it has encoder self-attention"):
        AttentionSelection().select(looked(decoder=False))
    with pytest.raises(UserError, match=r"the model has no cross-attention$"):
        AttentionSelection().select_all(looked(decoder=False, encoder=False))


def test_what_is_left_open_depends_on_the_form() -> None:
    seen = looked()
    assert AttentionSelection().select(seen).weights.shape[:2] == (1, 3)
    assert [(one.kind, one.weights.shape[:2]) for one in AttentionSelection().select_all(seen)] == [
        ("cross", (2, 3)),
        ("encoder", (2, 3)),
    ]
    assert [one.kind for one in AttentionSelection().select_all(looked(decoder=False))] == ["encoder"]
    assert [one.kind for one in AttentionSelection("encoder", layer=1, head="mean").select_all(seen)] == ["encoder"]
    text = attention_text(seen)
    assert text.startswith("layer 2, mean of heads\n") and text.count("▁The") == 1
    every = attention_text(seen, AttentionSelection(layer="all", head="all", whole_words=True))
    titles = [line for line in every.splitlines() if line.startswith("layer")]
    assert titles == [f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3)]
    assert every.count("weight: ") == 1 and "▁" not in every
    assert "layer" not in attention_text(looked(1, 1))


def test_a_picture_is_of_one_sentence(tmp_path) -> None:
    with pytest.raises(UserError, match=r"a picture is of one sentence, not of 2; a page \(\.html\)"):
        draw_attention([looked(), looked()], tmp_path / "a.png")
    with pytest.raises(UserError, match=r"use one of \.png, \.svg, \.pdf, \.html"):
        draw_attention(looked(), tmp_path / "a.bmp")
    assert not list(tmp_path.iterdir())
    draw_attention(looked(), tmp_path / "new" / "a.svg", AttentionSelection("encoder", whole_words=True))
    draw_attention(looked(), tmp_path / "a.html")
    assert {path.name for path in tmp_path.iterdir()} == {"new", "a.html"}

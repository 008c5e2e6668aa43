"""Metrics follow the script of the references, and the settings; all scores equal those of sacreBLEU or a formula."""

from __future__ import annotations

import importlib.util
import random

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2attn.errors import UserError
from seq2attn.evaluation.config import ChrfConfig, EvaluationConfig, TerConfig
from seq2attn.evaluation.error_rate import edit_distance

TEXTS = {
    "13a": ["The dog sleeps.", "Собака спит.", "개가 잔다.", "كلب ينام", "12:30 24.12.", ""],
    "zh": ["今天天气很好。", "他说：“你好！” OK", "這是一本書の"],
    "char": ["きょうは晴れです。", "カタカナ", "ｶﾀｶﾅ", "วันนี้อากาศดี", "ខ្ញុំស្រលាញ់អ្នក", "ຂ້ອຍຮັກເຈົ້າ", "မင်္ဂလာပါ"],
}


@pytest.mark.parametrize(("tokenize", "text"), [(tok, text) for tok, texts in TEXTS.items() for text in texts])
def test_the_script_of_the_references_chooses_the_tokenizer(tokenize, text):
    # One kana in a Chinese sentence of five letters is above the threshold; in a text it is not.
    metrics = EvaluationConfig().build([text, *(["今天天气很好"] * 10 if tokenize == "zh" else [])])
    (score,) = metrics.scores([text], [[text]], ["bleu"])
    assert f"|tok:{tokenize}|" in score.signature
    assert (metrics.note is None) == (tokenize == "13a")
    assert metrics.note is None or f"tok:{tokenize}" in metrics.note


def test_text_without_spaces_has_no_ter_by_default():
    assert EvaluationConfig().build(["The dog."]).names == ("bleu", "chrf", "ter")
    assert EvaluationConfig().build(["今天"]).names == ("bleu", "chrf", "token-error-rate")
    assert EvaluationConfig(metrics=("ter",)).build(["今天"]).names == ("ter",)


def test_words_between_spaces_are_warned_about_where_there_are_none():
    def warnings(text, **settings):
        return EvaluationConfig(**settings).build([text]).warnings(["bleu", "ter"])

    assert warnings("The dog.", tokenize="13a") == []
    assert [line[:4] for line in warnings("こんにちは", tokenize="13a")] == ["BLEU", "TER "]
    assert [line[:4] for line in warnings("今天天气", tokenize="intl")] == ["BLEU", "TER "]
    assert [line[:4] for line in warnings("วันนี้", tokenize="zh")] == ["BLEU", "TER "]
    assert [line[:4] for line in warnings("今天天气", tokenize="zh")] == ["TER "]
    asian = TerConfig(normalized=True, asian_support=True)
    assert warnings("今天天气", ter=asian) == []
    assert EvaluationConfig(tokenize="13a").build(["今天天气"]).warnings(["chrf"]) == []


REFERENCES = [
    ["The small dog sleeps.", "we drink Tea, or?"],
    ["A little dog is asleep.", "We drink tea, right?"],
]
HYPOTHESES = ["the little dog sleeps.", "We drink tea."]


def test_settings_are_those_of_sacrebleu():
    config = EvaluationConfig(
        tokenize="intl",
        lowercase=True,
        chrf=ChrfConfig(char_order=4, word_order=1, beta=3, whitespace=True),
        ter=TerConfig(normalized=True, no_punct=True, asian_support=True),
    )
    common = {"lowercase": True, "char_order": 4, "beta": 3, "whitespace": True}
    expected = [
        BLEU(tokenize="intl", lowercase=True),
        CHRF(**common),
        CHRF(word_order=1, **common),
        TER(normalized=True, no_punct=True, asian_support=True),
    ]
    found = config.build(REFERENCES[0]).scores(HYPOTHESES, REFERENCES, ["bleu", "chrf", "chrf++", "ter"])
    for ours, theirs in zip(found, expected, strict=True):
        score = theirs.corpus_score(HYPOTHESES, REFERENCES)
        assert (ours.name, ours.value) == (score.name, score.score)
        assert ours.signature == str(theirs.get_signature())
        assert ours.value == pytest.approx(score.score)


def test_the_defaults_are_those_of_sacrebleu_and_case_counts():
    names = ["bleu", "chrf", "chrf++", "ter"]
    found = EvaluationConfig().build(REFERENCES[0]).scores(HYPOTHESES, REFERENCES[:1], names)
    expected = [
        sacrebleu.corpus_bleu(HYPOTHESES, REFERENCES[:1]),
        sacrebleu.corpus_chrf(HYPOTHESES, REFERENCES[:1]),
        sacrebleu.corpus_chrf(HYPOTHESES, REFERENCES[:1], word_order=2),
        sacrebleu.corpus_ter(HYPOTHESES, REFERENCES[:1], case_sensitive=True),
    ]
    assert [(s.name, s.value) for s in found] == [(e.name, e.score) for e in expected]


def test_exact_match_counts_equal_sentences():
    metrics = EvaluationConfig().build(["a"])
    references = [["a b", "c", "d", "E"], ["x", "y", "z  z", "w"]]
    (score,) = metrics.scores([" a  b", "C", "z z", "e"], references, ["exact"])
    assert score.value == pytest.approx(50)
    assert score.signature.startswith("nrefs:2|case:mixed|")
    (score,) = EvaluationConfig(lowercase=True).build(["a"]).scores(["a b", "C", "z", "e"], references, ["exact"])
    assert score.value == pytest.approx(75)
    assert "case:lc" in score.signature


def test_the_token_error_rate_is_edits_over_tokens_of_the_reference():
    words = EvaluationConfig().build(["a"])
    (score,) = words.scores(["a x c", "", "g h"], [["a b c d", "e f", "g h"]], ["token-error-rate"])
    assert score.value == pytest.approx(100 * (2 + 2 + 0) / (4 + 2 + 2))
    assert "|tok:words|" in score.signature
    characters = EvaluationConfig().build(["今天"])
    (score,) = characters.scores(["今日 晴"], [["今天晴れ"]], ["token-error-rate"])
    assert score.value == pytest.approx(100 * 2 / 4)
    assert "|tok:char|" in score.signature
    # Of several references the nearest counts, by the mean length of all.
    (score,) = words.scores(["a b"], [["a b c d"], ["a c"]], ["token-error-rate"])
    assert score.value == pytest.approx(100 * 1 / 3)
    assert words.scores(["a"], [[""]], ["token-error-rate"])[0].value == 100
    (score,) = (
        EvaluationConfig(error_rate_tokens="char")
        .build(["a"])
        .scores(["2024-03-06"], [["2024-03-05"]], ["token-error-rate"])
    )
    assert score.value == pytest.approx(10)


def test_case_counts_in_the_token_error_rate_unless_it_is_to_be_ignored():
    for lowercase, expected in ((False, 50), (True, 0)):
        metrics = EvaluationConfig(lowercase=lowercase).build(["a"])
        assert metrics.scores(["a B"], [["a b"]], ["token-error-rate"])[0].value == pytest.approx(expected)


def test_the_edit_distance_is_that_of_its_recursion():
    def slow(left: str, right: str) -> int:
        if not left or not right:
            return len(left) + len(right)
        if left[0] == right[0]:
            return slow(left[1:], right[1:])
        return 1 + min(slow(left[1:], right), slow(left, right[1:]), slow(left[1:], right[1:]))

    rng = random.Random(1)
    for _ in range(200):
        left, right = ("".join(rng.choices("abc", k=rng.randint(0, 5))) for _ in range(2))
        assert edit_distance(left, right) == slow(left, right), (left, right)


@pytest.mark.parametrize(("tokenize", "module"), [("ja-mecab", "MeCab"), ("ko-mecab", "mecab_ko")])
def test_a_missing_extra_is_named(tokenize, module):
    if importlib.util.find_spec(module):
        pytest.skip(f"{module} is installed")
    with pytest.raises(UserError, match=rf"pip install 'sacrebleu\[{tokenize[:2]}\]'") as error:
        EvaluationConfig(tokenize=tokenize).build(["a"])
    assert "\n" not in str(error.value)


def test_asian_support_without_effect_is_a_mistake():
    with pytest.raises(ValueError, match="needs `normalized: true` or `no_punct: true`"):
        TerConfig(asian_support=True)

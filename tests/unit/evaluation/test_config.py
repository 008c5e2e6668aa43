"""Choice of metrics and tokenizers; scores compared with sacreBLEU or a formula."""

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
def test_the_tokenizer_depends_on_the_script_of_the_references(tokenize, text):
    # One kana in five Han characters is above the threshold, in a longer text it is not.
    metrics = EvaluationConfig().build([text, *(["今天天气很好"] * 10 if tokenize == "zh" else [])])
    (score,) = metrics.scores([text], [[text]], ["bleu"])
    assert f"|tok:{tokenize}|" in score.signature
    assert (metrics.note is None) == (tokenize == "13a")
    assert metrics.note is None or f"tok:{tokenize}" in metrics.note


def test_text_without_spaces_has_no_ter_by_default():
    assert EvaluationConfig().build(["The dog."]).names == ("bleu", "chrf", "ter")
    assert EvaluationConfig().build(["今天"]).names == ("bleu", "chrf", "token-error-rate")
    assert EvaluationConfig(metrics=("ter",)).build(["今天"]).names == ("ter",)


def test_warnings_about_words_in_text_without_spaces():
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


def test_scores_are_those_of_sacrebleu():
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
    names = ["bleu", "chrf", "chrf++", "ter"]
    for ours, metric in zip(config.build(REFERENCES[0]).scores(HYPOTHESES, REFERENCES, names), expected, strict=True):
        score = metric.corpus_score(HYPOTHESES, REFERENCES)
        assert (ours.name, ours.value, ours.signature) == (score.name, score.score, str(metric.get_signature()))
    defaults = [
        sacrebleu.corpus_bleu(HYPOTHESES, REFERENCES[:1]),
        sacrebleu.corpus_chrf(HYPOTHESES, REFERENCES[:1]),
        sacrebleu.corpus_chrf(HYPOTHESES, REFERENCES[:1], word_order=2),
        sacrebleu.corpus_ter(HYPOTHESES, REFERENCES[:1], case_sensitive=True),
    ]
    scores = EvaluationConfig().build(REFERENCES[0]).scores(HYPOTHESES, REFERENCES[:1], names)
    assert [(one.name, one.value) for one in scores] == [(one.name, one.score) for one in defaults]


def score_of(metric, hypotheses, references, text="a", **settings):
    (score,) = EvaluationConfig(**settings).build([text]).scores(hypotheses, references, [metric])
    return score.value, score.signature


def test_exact_match():
    references = [["a b", "c", "d", "E"], ["x", "y", "z  z", "w"]]
    value, signature = score_of("exact", [" a  b", "C", "z z", "e"], references)
    assert value == pytest.approx(50) and signature.startswith("nrefs:2|case:mixed|")
    value, signature = score_of("exact", ["a b", "C", "z", "e"], references, lowercase=True)
    assert value == pytest.approx(75) and "case:lc" in signature


@pytest.mark.parametrize(
    ("hypotheses", "references", "settings", "expected"),
    [
        (["a x c", "", "g h"], [["a b c d", "e f", "g h"]], {}, (2 + 2 + 0) / (4 + 2 + 2)),
        (["今日 晴"], [["今天晴れ"]], {"text": "今天"}, 2 / 4),
        (["a b"], [["a b c d"], ["a c"]], {}, 1 / 3),  # the nearest reference, and the mean length
        (["a"], [[""]], {}, 1),
        (["2024-03-06"], [["2024-03-05"]], {"error_rate_tokens": "char"}, 1 / 10),
        (["a B"], [["a b"]], {}, 1 / 2),
        (["a B"], [["a b"]], {"lowercase": True}, 0),
    ],
)
def test_the_token_error_rate_is_edits_per_reference_token(hypotheses, references, settings, expected):
    value, signature = score_of("token-error-rate", hypotheses, references, **settings)
    assert value == pytest.approx(100 * expected)
    assert f"|tok:{'char' if {'text', 'error_rate_tokens'} & {*settings} else 'words'}|" in signature


def test_the_edit_distance_equals_its_recursion():
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
def test_a_missing_extra_is_an_error(tokenize, module):
    if importlib.util.find_spec(module):
        pytest.skip(f"{module} is installed")
    with pytest.raises(UserError, match=rf"pip install 'sacrebleu\[{tokenize[:2]}\]'") as error:
        EvaluationConfig(tokenize=tokenize).build(["a"])
    assert "\n" not in str(error.value)


def test_asian_support_without_effect_is_an_error():
    with pytest.raises(ValueError, match="needs `normalized: true` or `no_punct: true`"):
        TerConfig(asian_support=True)

"""Choice of metrics and tokenizers; scores compared with sacreBLEU or a formula; length buckets and tables."""

import importlib.util
import random
import unicodedata
from itertools import pairwise

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2attn.errors import DataError, UserError
from seq2attn.experiment.evaluation_config import ChrfConfig, EvaluationConfig, TerConfig
from seq2attn.metrics.error_rate import edit_distance
from seq2attn.metrics.sacrebleu_metrics import Score, bleu_by_length, length_table, score_table

TEXTS = {
    "13a": ["The dog sleeps.", "Собака спит.", "개가 잔다.", "كلب ينام", "12:30 24.12.", ""],
    "zh": ["今天天气很好。", "他说：“你好！” OK", "這是一本書の"],
    "char": ["きょうは晴れです。", "カタカナ", "ｶﾀｶﾅ", "วันนี้อากาศดี", "ខ្ញុំស្រលាញ់អ្នក", "ຂ້ອຍຮັກເຈົ້າ", "မင်္ဂလာပါ", "བོད་ཡིག"],
}
REFERENCES = [["The small dog sleeps.", "we drink Tea, or?"], ["A little dog is asleep.", "We drink tea, right?"]]
HYPOTHESES = ["the little dog sleeps.", "We drink tea."]
SENTENCES = ["The little dog sleeps under the table.", "We drank tea.", "Nobody has seen Anna since Monday, right?"]
SCORERS = EvaluationConfig().build(SENTENCES)


@pytest.mark.parametrize(("tokenize", "text"), [(tok, text) for tok, texts in TEXTS.items() for text in texts])
def test_the_tokenizer_depends_on_the_script_of_the_references(tokenize, text):
    # One kana in five Han characters is above the threshold, in a longer text it is not.
    metrics = EvaluationConfig().build([text, *(["今天天气很好"] * 10 if tokenize == "zh" else [])])
    (score,) = metrics.scores([text], [[text]], ["bleu"])
    assert f"|tok:{tokenize}|" in score.signature
    assert (metrics.note is None) == (tokenize == "13a")
    assert metrics.note is None or f"tok:{tokenize}" in metrics.note


def test_references_in_another_normal_form_are_noted():
    """Also letters that NFC decomposes, such as those of Bengali."""
    for text in ("Tiếng Việt", "한국어", "প\u09dc"):
        other = text if "\u09dc" in text else unicodedata.normalize("NFD", text)
        assert EvaluationConfig().build([unicodedata.normalize("NFC", text)]).note is None
        assert EvaluationConfig().build([other, "a", other]).note.startswith("2 of 3 references are not in Unicode NFC")
    assert "; 1 of 2 references" in EvaluationConfig().build(["今天天气" * 9, unicodedata.normalize("NFD", "é")]).note


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


def sentences(count: int, longest: int = 30) -> list[str]:
    rng = random.Random(count)
    return [" ".join(rng.choices("abcdefgh", k=rng.randint(1, longest))) for _ in range(count)]


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(DataError, match="3 hypotheses but 2 references"):
        SCORERS.scores(SENTENCES, [SENTENCES[:2]])
    with pytest.raises(DataError, match="no hypotheses and no references"):
        SCORERS.scores([], [[]])
    with pytest.raises(DataError, match="2 sources"):
        bleu_by_length(SCORERS, SENTENCES[:2], SENTENCES, [SENTENCES])


@pytest.mark.parametrize("count", [1, 19, 21, 150])
def test_buckets_and_rows_of_the_table_cover_every_sentence_once(count: int):
    sources = sentences(count)
    buckets = bleu_by_length(SCORERS, sources, sources, [sources])
    lengths = [len(source.split()) for source in sources]
    assert sum(bucket.sentences for bucket in buckets) == count
    assert all(low.highest < high.lowest for low, high in pairwise(buckets))
    assert all(bucket.sentences >= min(20, count) for bucket in buckets)
    assert sum(b.mean_length * b.sentences for b in buckets) == pytest.approx(sum(lengths))
    for bucket in buckets:
        assert bucket.sentences == sum(bucket.lowest <= n <= bucket.highest for n in lengths)
        assert bucket.lowest <= bucket.mean_length <= bucket.highest
    head, *rows = length_table({"one": buckets, "two": buckets}).splitlines()
    assert head.split() == ["words", "sentences", "one", "two"] and len(rows) == len(buckets)
    score, first = f"{buckets[0].score.value:.2f}", buckets[0]
    assert rows[0].split() == [f"{first.lowest}-{first.highest}", str(first.sentences), score, score]


def test_a_bucket_has_the_score_of_its_sentences():
    sources = ["a b"] * 30 + ["a b c d e f"] * 30 + [""] * 10
    references = ["yes it is so ."] * 30 + ["no it is not so ."] * 30 + ["yes it is so ."] * 10
    hypotheses = references[:30] + ["something else in every place"] * 30 + references[60:]
    short, long = bleu_by_length(SCORERS, sources, hypotheses, [references])
    assert (short.lowest, short.highest, short.sentences) == (0, 2, 40)
    assert (long.lowest, long.highest, long.sentences) == (6, 6, 30)
    assert short.score.value == pytest.approx(100)
    assert long.score == SCORERS.scores(hypotheses[30:60], [references[30:60]])[0]
    # All references count.
    streams = [["other"] * 70, references]
    short, long = bleu_by_length(SCORERS, sources, references, streams)
    assert (short.score.value, long.score.value) == pytest.approx((100, 100))


def test_lengths_of_text_without_spaces_are_in_characters():
    sources = ["今 天"] * 20 + ["今天天气很好，我们去公园散步"] * 20
    (short, long) = buckets = bleu_by_length(SCORERS, sources, sources, [sources])
    assert (short.highest, long.lowest, long.mean_length) == (2, 14, 14)
    assert length_table({"one": buckets}).split()[:2] == ["characters", "sentences"]
    lines = ["今" * length for length in (6, 10, 11)] * 20  # maximum lengths are in words, each of two characters
    buckets = bleu_by_length(SCORERS, lines, lines, [lines])
    assert [(bucket.lowest, bucket.highest) for bucket in buckets] == [(6, 10), (11, 11)]
    # The script of the source counts: this is BLEU by length of English words.
    (bucket,) = bleu_by_length(SCORERS, ["a b"] * 40, sources, [sources])
    assert (bucket.unit, bucket.highest) == ("words", 2)


def test_tables_of_scores_have_signatures():
    systems = {"a": [Score("BLEU", 9.5, "tok:13a")], "a longer name": [Score("BLEU", 31.257, "tok:13a")]}
    assert score_table(systems).splitlines() == [
        "system          BLEU",
        "a               9.50",
        "a longer name  31.26",
        "",
        "BLEU: tok:13a",
    ]
    systems["b"] = [Score("BLEU", 2.0, "tok:zh"), Score("TER", 3.0, "t")]
    head, _, _, last, _, *signatures = [line.split() for line in score_table(systems).splitlines()]
    assert (head, last) == (["system", "BLEU", "BLEU", "TER"], ["b", "2.00", "3.00"])
    assert signatures == [["BLEU:", "tok:13a"], ["BLEU:", "tok:zh"], ["TER:", "t"]]

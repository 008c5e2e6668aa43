"""Scores are sacreBLEU's own; length buckets cover every sentence once."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from seq2attn.errors import DataError
from seq2attn.evaluation.config import EvaluationConfig
from seq2attn.evaluation.metrics import Score, bleu_by_length, length_table, score_table
from seq2attn.sweep.significance import RESAMPLES, compare_systems

REFERENCES = [
    "The little dog sleeps under the table.",
    "We drank tea.",
    "Nobody has seen Anna since Monday, right?",
]
HYPOTHESES = ["The small dog sleeps under a table.", "we drank tea.", "Nobody saw Anna since Monday, right?"]


METRICS = EvaluationConfig().build(REFERENCES)


def scores(hypotheses: list[str], references: list[str]) -> list[Score]:
    return METRICS.scores(hypotheses, [references])


def sentences(count: int, longest: int = 30) -> list[str]:
    rng = random.Random(count)
    return [" ".join(rng.choices("abcdefgh", k=rng.randint(1, longest))) for _ in range(count)]


def test_what_does_not_pair_up_is_refused():
    with pytest.raises(DataError, match="3 hypotheses but 2 references"):
        scores(HYPOTHESES, REFERENCES[:2])
    with pytest.raises(DataError, match="nothing to score"):
        scores([], [])
    with pytest.raises(DataError, match="2 sources"):
        bleu_by_length(METRICS, HYPOTHESES[:2], HYPOTHESES, [REFERENCES])


@pytest.mark.parametrize("count", [1, 19, 20, 21, 150, 400])
def test_buckets_cover_every_sentence_once(count: int):
    sources = sentences(count)
    buckets = bleu_by_length(METRICS, sources, sources, [sources])
    lengths = [len(source.split()) for source in sources]
    assert sum(bucket.sentences for bucket in buckets) == count
    assert all(low.highest < high.lowest for low, high in pairwise(buckets))
    assert all(bucket.sentences >= min(20, count) for bucket in buckets)
    assert sum(b.mean_length * b.sentences for b in buckets) == pytest.approx(sum(lengths))
    for bucket in buckets:
        assert bucket.sentences == sum(bucket.lowest <= n <= bucket.highest for n in lengths)
        assert bucket.lowest <= bucket.mean_length <= bucket.highest


def test_a_bucket_is_scored_on_its_own_sentences():
    sources = ["a b"] * 3 + ["a b c d e f"] * 3 + [""]
    references = ["yes it is so ."] * 3 + ["no it is not so ."] * 3 + ["yes it is so ."]
    hypotheses = references[:3] + ["something else in every place"] * 3 + references[6:]
    short, long = bleu_by_length(METRICS, sources, hypotheses, [references], (5, 10), fewest=1)
    assert (short.lowest, short.highest, short.sentences) == (0, 2, 4)
    assert (long.lowest, long.highest, long.sentences) == (6, 6, 3)
    assert short.score.value == pytest.approx(100)
    assert long.score == scores(hypotheses[3:6], references[3:6])[0]
    # All references count, each of its own sentence.
    streams = [["other"] * 7, references]
    short, long = bleu_by_length(METRICS, sources, references, streams, (5, 10), fewest=1)
    assert (short.score.value, long.score.value) == pytest.approx((100, 100))


def test_lengths_of_text_without_spaces_are_in_characters():
    sources = ["今 天"] * 3 + ["今天天气很好，我们去公园散步"] * 3
    (short, long) = buckets = bleu_by_length(METRICS, sources, sources, [sources], fewest=1)
    assert (short.highest, long.lowest, long.mean_length) == (2, 14, 14)
    assert length_table({"one": buckets}).split()[:2] == ["characters", "sentences"]
    lines = ["今" * length for length in (6, 10, 11)]  # edges are in words, each of two characters
    buckets = bleu_by_length(METRICS, lines, lines, [lines], (5,), fewest=1)
    assert [(bucket.lowest, bucket.highest) for bucket in buckets] == [(6, 10), (11, 11)]
    # The script of the source counts: this is BLEU by length of English words.
    (bucket,) = bleu_by_length(METRICS, ["a b"] * 6, sources, [sources])
    assert (bucket.unit, bucket.highest) == ("words", 2)


def test_tables_align_and_carry_signatures():
    systems = {"a": [Score("BLEU", 9.5, "tok:13a")], "a longer name": [Score("BLEU", 31.257, "tok:13a")]}
    assert score_table(systems).splitlines() == [
        "system          BLEU",
        "a               9.50",
        "a longer name  31.26",
        "",
        "BLEU: tok:13a",
    ]
    rows = [line.strip("|").split("|") for line in score_table(systems, markdown=True).splitlines()[:4]]
    assert [[cell.strip(" -") for cell in row] for row in rows] == [
        ["system", "BLEU"],
        [":", ":"],
        ["a", "9.50"],
        ["a longer name", "31.26"],
    ]


def test_systems_of_different_metrics_have_columns_of_their_own():
    systems = {
        "a": [Score("BLEU", 1.0, "tok:13a")],
        "b": [Score("BLEU", 2.0, "tok:zh"), Score("TER", 3.0, "t")],
    }
    assert [line.split() for line in score_table(systems).splitlines()] == [
        ["system", "BLEU", "BLEU", "TER"],
        ["a", "1.00"],
        ["b", "2.00", "3.00"],
        [],
        ["BLEU:", "tok:13a"],
        ["BLEU:", "tok:zh"],
        ["TER:", "t"],
    ]


def test_length_table_has_a_row_a_bucket():
    sources = sentences(100)
    buckets = bleu_by_length(METRICS, sources, sources, [sources])
    lines = length_table({"one": buckets, "two": buckets}).splitlines()
    assert len(lines) == 1 + len(buckets)
    assert lines[0].split() == ["words", "sentences", "one", "two"]


def test_all_references_count_in_the_paired_bootstrap():
    sources = sentences(50)
    references = [sources, [line.replace("a", "h") for line in sources]]
    systems = [(letter, [line.replace(letter, "h") for line in sources]) for letter in "ab"]
    found = compare_systems(1, systems[0][1], dict(systems[1:]), METRICS, references)["b"]
    _, expected = PairedTest(systems, {"BLEU": BLEU()}, references, test_type="bs", n_samples=RESAMPLES)()
    base, other = expected["BLEU"]
    assert (found.score, found.difference) == pytest.approx((other.score, other.score - base.score))
    assert (found.p_value, "nrefs:2|" in found.signature) == (other.p_value, True)


def test_the_paired_bootstrap_is_of_the_bleu_of_the_config():
    lines = sentences(20)
    systems = [[line.replace(letter, "h") for line in lines] for letter in "ab"]
    for settings in ({"lowercase": True}, {"tokenize": "char"}):
        metrics = EvaluationConfig(**settings).build(lines)
        upper = [line.upper() for line in lines]
        found = compare_systems(1, systems[0], {"b": systems[1]}, metrics, [upper])["b"]
        (expected,) = metrics.scores(systems[1], [upper], ["bleu"])
        assert found.score == pytest.approx(expected.value)
        assert ("case:lc" in found.signature, "tok:char" in found.signature) == (
            "lowercase" in settings,
            "tokenize" in settings,
        )

"""Length buckets and tables of scores."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from seq2attn.errors import DataError
from seq2attn.evaluation.config import EvaluationConfig
from seq2attn.evaluation.metrics import Score, bleu_by_length, length_table, score_table

LINES = ["The little dog sleeps under the table.", "We drank tea.", "Nobody has seen Anna since Monday, right?"]
METRICS = EvaluationConfig().build(LINES)


def sentences(count: int, longest: int = 30) -> list[str]:
    rng = random.Random(count)
    return [" ".join(rng.choices("abcdefgh", k=rng.randint(1, longest))) for _ in range(count)]


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(DataError, match="3 hypotheses but 2 references"):
        METRICS.scores(LINES, [LINES[:2]])
    with pytest.raises(DataError, match="no hypotheses and no references"):
        METRICS.scores([], [[]])
    with pytest.raises(DataError, match="2 sources"):
        bleu_by_length(METRICS, LINES[:2], LINES, [LINES])


@pytest.mark.parametrize("count", [1, 19, 21, 150])
def test_buckets_and_rows_of_the_table_cover_every_sentence_once(count: int):
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
    head, *rows = length_table({"one": buckets, "two": buckets}).splitlines()
    assert head.split() == ["words", "sentences", "one", "two"] and len(rows) == len(buckets)
    score, first = f"{buckets[0].score.value:.2f}", buckets[0]
    assert rows[0].split() == [f"{first.lowest}-{first.highest}", str(first.sentences), score, score]


def test_a_bucket_has_the_score_of_its_sentences():
    sources = ["a b"] * 3 + ["a b c d e f"] * 3 + [""]
    references = ["yes it is so ."] * 3 + ["no it is not so ."] * 3 + ["yes it is so ."]
    hypotheses = references[:3] + ["something else in every place"] * 3 + references[6:]
    short, long = bleu_by_length(METRICS, sources, hypotheses, [references], (5, 10), min_sentences=1)
    assert (short.lowest, short.highest, short.sentences) == (0, 2, 4)
    assert (long.lowest, long.highest, long.sentences) == (6, 6, 3)
    assert short.score.value == pytest.approx(100)
    assert long.score == METRICS.scores(hypotheses[3:6], [references[3:6]])[0]
    # All references count.
    streams = [["other"] * 7, references]
    short, long = bleu_by_length(METRICS, sources, references, streams, (5, 10), min_sentences=1)
    assert (short.score.value, long.score.value) == pytest.approx((100, 100))


def test_lengths_of_text_without_spaces_are_in_characters():
    sources = ["今 天"] * 3 + ["今天天气很好，我们去公园散步"] * 3
    (short, long) = buckets = bleu_by_length(METRICS, sources, sources, [sources], min_sentences=1)
    assert (short.highest, long.lowest, long.mean_length) == (2, 14, 14)
    assert length_table({"one": buckets}).split()[:2] == ["characters", "sentences"]
    lines = ["今" * length for length in (6, 10, 11)]  # edges are in words, each of two characters
    buckets = bleu_by_length(METRICS, lines, lines, [lines], (5,), min_sentences=1)
    assert [(bucket.lowest, bucket.highest) for bucket in buckets] == [(6, 10), (11, 11)]
    # The script of the source counts: this is BLEU by length of English words.
    (bucket,) = bleu_by_length(METRICS, ["a b"] * 6, sources, [sources])
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

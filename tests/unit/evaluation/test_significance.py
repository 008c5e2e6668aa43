"""Paired tests of two systems: equal scores, and the p-value of all exchanges of translations."""

from itertools import product

import pytest

from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.metrics.sacrebleu_metrics import paired_scores
from tests.support.marks import slow_but

REFERENCES = ["a b c d e f", "g h i j k l", "m n o p q r", "s t u v w x", "a c e g i k"]
METRICS = EvaluationConfig().build(REFERENCES)
FIRST = ["a b c d e", "g h i j k l", "m n o r", "s t u v w x", "a c e g i"]

NAMES = ("bleu", "chrf", "ter", "exact", "token-error-rate")


def p_values(second, test, names=("bleu", "chrf", "ter", "exact")):
    scores = paired_scores(METRICS, {"first": FIRST, "second": second}, [REFERENCES], names, test)
    return {name: systems["second"].p_value for name, systems in scores.items()}


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_the_p_value_of_different_translations_with_equal_scores_is_1(test):
    second = ["a b c d e f", "g h i j k", *FIRST[2:]]
    assert second != FIRST and set(p_values(second, test).values()) == {1.0}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("1", ""), *(pytest.param(*row, marks=pytest.mark.slow) for row in (("12", ""), ("1234", ""), ("135", "2")))],
)
def test_randomization_is_the_share_of_exchanges_with_as_large_a_difference(right, wrong):
    """Of few values, as of exact matches, many differences are as large."""
    triples = zip("12345", REFERENCES, FIRST, strict=True)
    second = [one if number in right else line[2 * (number in wrong) :] for number, one, line in triples]
    exchanged = [
        list(zip(*((a, b)[::step] for a, b, step in zip(FIRST, second, steps, strict=True)), strict=True))
        for steps in product((1, -1), repeat=len(FIRST))
    ]
    found = p_values(second, "randomization", NAMES)
    for name, p_value in zip(NAMES, found.values(), strict=True):
        scores = [[METRICS.scores(system, [REFERENCES], [name])[0].value for system in pair] for pair in exchanged]
        differences = [abs(one - other) for one, other in scores]
        expected = sum(difference >= differences[0] - 1e-9 for difference in differences) / len(differences)
        assert p_value == pytest.approx(expected, abs=0.02), name


@pytest.mark.parametrize("test", slow_but(["bootstrap"], ["bootstrap", "randomization"]))
def test_bleu_of_both_below_1_has_no_p_value(test):
    """Also that of papers; other metrics have one, and so has BLEU if one of both is better."""
    wrong, worse = ["x " * 40 + line[:1] for line in REFERENCES], ["x"] * 5
    names = ("bleu", "paper_bleu", "chrf", "ter")
    metrics = EvaluationConfig.model_validate({"paper_bleu": {}}).build(REFERENCES)
    for first, expected in ((worse, {"BLEU", "paper_bleu"}), (FIRST, set())):
        scores = paired_scores(metrics, {"first": first, "second": wrong}, [REFERENCES], names, test)
        assert 0 < scores["BLEU"]["second"].value < 1
        assert {name for name, systems in scores.items() if systems["second"].p_value is None} == expected


def test_randomization_of_a_single_sentence_has_no_other_exchange():
    systems = {"first": FIRST[:1], "second": REFERENCES[:1]}
    scores = paired_scores(METRICS, systems, [REFERENCES[:1]], NAMES[:2], "randomization")
    assert {name: one["second"].p_value for name, one in scores.items()} == {"BLEU": 1.0, "chrF2": 1.0}

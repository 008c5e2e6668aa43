"""Paired tests of two systems: equal scores, the p-value of all exchanges of translations, and several seeds."""

import random
from itertools import product

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.metrics.significance import SAMPLES, Comparison, combine_seeds, paired_scores
from tests.support.marks import slow_but

REFERENCES = ["a b c d e f", "g h i j k l", "m n o p q r", "s t u v w x", "a c e g i k"]
METRICS = EvaluationConfig().build(REFERENCES)
FIRST = ["a b c d e", "g h i j k l", "m n o r", "s t u v w x", "a c e g i"]

NAMES = ("bleu", "chrf", "ter", "exact", "token-error-rate")


def p_values(second, test, names=("bleu", "chrf", "ter", "exact")):
    scores = paired_scores(METRICS, {"first": FIRST, "second": second}, [REFERENCES], names, test)
    return {name: systems["second"].p_value for name, systems in scores.items()}


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_the_p_value_of_different_translations_with_equal_scores_is_1(monkeypatch, test):
    monkeypatch.setitem(SAMPLES, test, 100)
    second = ["a b c d e f", "g h i j k", *FIRST[2:]]
    assert second != FIRST and set(p_values(second, test).values()) == {1.0}


@pytest.mark.parametrize(
    ("right", "wrong", "names"),
    [
        ("1", "", ("bleu", "exact")),
        pytest.param("1", "", NAMES, marks=pytest.mark.slow),
        pytest.param("12", "", NAMES, marks=pytest.mark.slow),
        pytest.param("1234", "", NAMES, marks=pytest.mark.slow),
        pytest.param("135", "2", NAMES, marks=pytest.mark.slow),
    ],
)
def test_randomization_is_the_share_of_exchanges_with_as_large_a_difference(right, wrong, names):
    """Of few values, as of exact matches, many differences are as large."""
    triples = zip("12345", REFERENCES, FIRST, strict=True)
    second = [reference if number in right else line[2 * (number in wrong) :] for number, reference, line in triples]
    exchanged = [
        list(zip(*((a, b)[::step] for a, b, step in zip(FIRST, second, steps, strict=True)), strict=True))
        for steps in product((1, -1), repeat=len(FIRST))
    ]
    observed = p_values(second, "randomization", names)
    for name, p_value in zip(names, observed.values(), strict=True):
        scores = [[METRICS.scores(system, [REFERENCES], [name])[0].value for system in pair] for pair in exchanged]
        differences = [abs(left - right) for left, right in scores]
        expected = sum(difference >= differences[0] - 1e-9 for difference in differences) / len(differences)
        assert p_value == pytest.approx(expected, abs=0.02), name


@pytest.mark.parametrize("seed", slow_but((0, 1), range(5)))
def test_randomization_is_that_of_sacrebleu_and_counts_ties_too(monkeypatch, seed):
    """Of many sentences, an exchange has as large a difference in chrF by chance only, and in exact matches often."""
    monkeypatch.setitem(SAMPLES, "randomization", 200)
    rng = random.Random(seed)
    references = [[" ".join(rng.choices("abcdefgh", k=rng.randint(3, 9))) for _ in range(40)] for _ in range(2)]
    systems = {
        name: [" ".join(rng.choice("abx") if rng.random() < rate else word for word in line.split()) for line in lines]
        for name, rate, lines in (("first", 0.2, references[0]), ("second", 0.25, references[0]))
    }
    ours = paired_scores(METRICS, systems, references, NAMES, "randomization")
    metrics = {name: METRICS.by_name[name] for name in NAMES}
    signatures, theirs = PairedTest([*systems.items()], metrics, references, test_type="ar", n_samples=200)()
    for name, scores in ours.items():
        assert {score.signature for score in scores.values()} == {str(signatures[name])}
        assert [score.value for score in scores.values()] == [result.score for result in theirs[name]]
        p_value, without_ties = scores["second"].p_value, theirs[name][1].p_value
        assert p_value == without_ties if name == "chrF2" else p_value >= without_ties
    assert ours["exact match"]["second"].p_value > theirs["exact match"][1].p_value


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


def test_randomization_of_a_single_sentence_has_no_other_exchange(monkeypatch):
    monkeypatch.setitem(SAMPLES, "randomization", 100)
    systems = {"first": FIRST[:1], "second": REFERENCES[:1]}
    scores = paired_scores(METRICS, systems, [REFERENCES[:1]], NAMES[:2], "randomization")
    assert {name: by_system["second"].p_value for name, by_system in scores.items()} == {"BLEU": 1.0, "chrF2": 1.0}


@pytest.mark.parametrize(
    ("scores", "baselines", "p_values", "outcome"),
    [
        ([31.0, 32.0], [30.0, 30.0], [0.01, 0.04], "better"),
        ([29.0, 28.0], [30.0, 30.0], [0.01, 0.04], "worse"),
        ([31.0, 32.0], [30.0, 30.0], [0.01, 0.06], "no difference"),
        ([31.0, 28.0], [30.0, 30.0], [0.01, 0.01], "no difference"),
        ([32.0], [30.0], [0.001], "one seed"),
        ([0.4, 1.2], [0.2, 0.3], [None, 0.001], "below BLEU 1"),
        # of more than one seed, more than the deviation over seeds
        ([29.5, 33.0], [28.5, 28.6], [0.01, 0.01], "better"),  # 2.7, more than 2.5
        ([29.5, 34.0], [28.5, 29.0], [0.01, 0.01], "no difference"),  # 3.0, less than 3.2 of the system
        ([29.0, 30.0], [32.0, 37.0], [0.01, 0.01], "worse"),  # -5.0, more than 3.5
        ([33.0, 33.5], [30.0, 33.0], [0.01, 0.01], "no difference"),  # 1.75, less than 2.1 of the baseline
    ],
)
def test_an_outcome_needs_every_seed_and_more_than_the_deviation(scores, baselines, p_values, outcome):
    seeds = enumerate(zip(scores, baselines, p_values, strict=True))
    comparisons = [Comparison(i, score, score - base, p, 1.0, "") for i, (score, base, p) in seeds]
    overall = combine_seeds(comparisons, scores, baselines)
    signs = {score > base for score, base in zip(scores, baselines, strict=True)}
    assert overall.p_value == (max(p_values) if len(signs) == 1 and None not in p_values else None)
    assert overall.difference == pytest.approx(np.mean(scores) - np.mean(baselines))
    assert overall.outcome == outcome


def test_equal_systems_and_no_systems():
    score = paired_scores(METRICS, {"first": FIRST, "same": FIRST}, [REFERENCES], ["bleu"])["BLEU"]["same"]
    comparison = Comparison(1, score.value, 0.0, score.p_value, score.interval, score.signature)
    assert combine_seeds([comparison], [score.value], [score.value]).outcome == "one seed"
    assert combine_seeds([comparison] * 2, [0.0, 0.0], [0.0, 0.0]).outcome == "no difference"
    assert combine_seeds([], [score.value], []) is None


def test_the_settings_of_the_config_count():
    second, references = [*REFERENCES[:3], *FIRST[3:]], [[line.upper() for line in REFERENCES], FIRST[::-1]]
    for settings in ({"lowercase": True}, {"tokenize": "char"}):
        metrics = EvaluationConfig(**settings).build(REFERENCES)
        score = paired_scores(metrics, {"a": FIRST, "b": second}, references, ["bleu"])["BLEU"]["b"]
        (expected,) = metrics.scores(second, references, ["bleu"])
        assert score.value == pytest.approx(expected.value)
        names = {"lowercase": "case:lc", "tokenize": "tok:char"}
        assert [text in score.signature for text in names.values()] == [name in settings for name in names]
        assert "nrefs:2|" in score.signature

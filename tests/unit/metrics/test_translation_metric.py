"""Unknown words of translations, and references that are missing, in every metric and in all that is made of them."""

import io
import random
import re
from pathlib import Path
from typing import get_args

import pytest
import sentencepiece
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2attn.experiment.evaluation_config import EvaluationConfig, Tokenize
from seq2attn.inference.minimum_bayes_risk import rank_by_expected_chrf
from seq2attn.metrics.paper_bleu import PaperBLEU
from seq2attn.metrics.sacrebleu_metrics import bleu_by_length
from seq2attn.metrics.significance import SAMPLES, paired_scores
from seq2attn.search.search_config import SampleConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.vocabulary import UNKNOWN_MARK
from seq2attn.training.minimum_risk import sentence_metric

WORDS = ("haus", "boot", "alt", "neu", "und", "sieht", ",", ".", "(x)")
LETTER = "ф"
"""A word of one character that no reference has, and that every tokenizer keeps whole."""
TOKENIZERS = [name for name in get_args(Tokenize) if name not in ("auto", "ja-mecab", "ko-mecab", "flores200")]
TERS = [{}, {"normalized": True}, {"no_punct": True}, {"normalized": True, "no_punct": True, "asian_support": True}]
PAPERS = [{}, {"moses": "de"}, {"split_compounds": True, "lowercase": True}]
CASES = [
    *(("bleu", {"tokenize": name}) for name in TOKENIZERS),
    *((name, {"error_rate_tokens": "char"}) for name in ("chrf", "chrf++", "exact", "token-error-rate")),
    *(("ter", {"ter": ter}) for ter in TERS),
    *(("paper_bleu", {"paper_bleu": paper}) for paper in PAPERS),
]


def sentences(seed: int, unknown: str = "", count: int = 12) -> list[str]:
    """Lines of words, some of which are `unknown`."""
    rng = random.Random(seed)
    return [" ".join(rng.choices([*WORDS, *[unknown] * 3], k=rng.randint(3, 12))) for _ in range(count)]


REFERENCES = [sentences(0, "<unk>"), sentences(1)]
"""A literal `<unk>` of a reference is text."""


def all_scores(systems: list[list[str]], references: list[list[str]], name: str, settings: dict) -> list[object]:
    """Every number that is made of these translations and references: of texts, paired tests, and single sentences."""
    evaluation = EvaluationConfig.model_validate(settings)
    metrics = evaluation.build(*references)
    paired = paired_scores(metrics, {str(number): lines for number, lines in enumerate(systems)}, references, [name])
    sentence = sentence_metric(evaluation, name, references[0])
    return [
        [metrics.scores(lines, references, [name])[0].value for lines in systems],
        [(one.value, one.interval, one.p_value) for column in paired.values() for one in column.values()],
        [
            sentence.sentence_score(line, parallel).score
            for line, *parallel in zip(systems[0], *references, strict=True)
        ],
    ]


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setitem(SAMPLES, "bootstrap", 20)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_an_unknown_word_is_one_wrong_word(name, settings):
    written, expected = ([sentences(seed, word) for seed in (2, 3)] for word in ("<unk>", LETTER))
    assert all_scores(written, REFERENCES, name, settings) == all_scores(expected, REFERENCES, name, settings)


def test_bleu_by_length_has_unknown_words_too():
    references = [lines * 5 for lines in REFERENCES]
    metrics = EvaluationConfig().build(*references)
    written, expected = (
        bleu_by_length(metrics, references[1], sentences(2, word) * 5, references) for word in ("<unk>", LETTER)
    )
    assert written == expected and len(written) > 1


def tokenizations(line: str) -> dict[str, list[str]]:
    """The tokens of a line by each tokenizer that is installed, and by one that normalizes as that of FLORES-200."""
    model = io.BytesIO()
    text = iter(["is it old ? ?", "is the house new ??", "(a boat), a house."] * 20)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=text, model_writer=model, vocab_size=45, hard_vocab_limit=False, minloglevel=2
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return {
        **{name: BLEU(tokenize=name).tokenizer(line).split() for name in TOKENIZERS},
        **{f"ter {ter}": TER(**ter)._preprocess_segment(line).split() for ter in TERS},
        **{f"paper {paper}": PaperBLEU(**{"moses": None, "lowercase": False, "split_compounds": False, **paper})
           ._preprocess_segment(line).split() for paper in PAPERS},
        "chrf++": CHRF(word_order=2)._remove_punctuation(line),
        "nmt_nfkc": pieces.encode(line, out_type=str),
    }  # fmt: skip


def test_the_mark_is_one_token_for_every_tokenizer():
    line = f"the {UNKNOWN_MARK} is {UNKNOWN_MARK} , ( {UNKNOWN_MARK} ) . {UNKNOWN_MARK}"
    found = {name: [token for token in tokens if UNKNOWN_MARK in token] for name, tokens in tokenizations(line).items()}
    assert found == dict.fromkeys(found, [UNKNOWN_MARK] * 4)


def test_beside_punctuation_the_mark_is_a_token_too():
    tokens = tokenizations(f"({UNKNOWN_MARK}), {UNKNOWN_MARK}.")
    for name in ("13a", "intl", "zh", "char", "paper {'moses': 'de'}"):
        assert tokens[name] == ["(", UNKNOWN_MARK, ")", ",", UNKNOWN_MARK, "."]


def test_unknown_words_are_not_similar_letter_by_letter():
    """The same order by minimum Bayes risk as with a word of one letter."""
    search = SampleConfig(num_samples=9, mbr=True)
    ranked = []
    for word in ("<unk>", LETTER):
        texts = sentences(4, word, 9)
        found = [Hypothesis((number,), 0.0, 0.0) for number in range(9)]
        ranked.append(rank_by_expected_chrf(found, search, lambda one, texts=texts: texts[one.tokens[0]]))
    assert ranked[0] == ranked[1]


def test_all_metrics_are_built_in_one_place():
    package = Path(__file__).parents[3] / "seq2attn"
    calls = r"\b(BLEU|CHRF|TER)\(|(corpus|sentence)_(bleu|chrf|ter)\("
    assert [path.name for path in package.rglob("*.py") if re.search(calls, path.read_text(encoding="utf-8"))] == []


EMPTY = ["", "  "] * 6
FIRST_CASES = [*{case[0]: case for case in reversed(CASES)}.values()]
"""One for each metric: its other cases are of tokenization."""


@pytest.mark.parametrize(
    ("name", "settings"),
    [pytest.param(*case, marks=() if case in FIRST_CASES else pytest.mark.slow) for case in CASES],
    ids=str,
)
def test_an_empty_reference_beside_another_changes_nothing(name, settings):
    systems, first = [["", *sentences(seed)[1:]] for seed in (2, 3)], sentences(0)
    expected = all_scores(systems, [first], name, settings)
    for streams in ([first, EMPTY], [EMPTY, first], [first, EMPTY, EMPTY]):
        assert all_scores(systems, streams, name, settings) == expected


@pytest.mark.parametrize("name", ["bleu", "chrf", "chrf++", "ter"])
def test_missing_references_are_those_of_sacrebleu(name):
    translations, first = sentences(5), sentences(0)
    half = [line if number % 2 else "" for number, line in enumerate(sentences(1))]
    metrics = EvaluationConfig().build(first, half)
    metric = {"bleu": BLEU(), "chrf": CHRF(), "chrf++": CHRF(word_order=2), "ter": TER(case_sensitive=True)}[name]
    (found,) = metrics.scores(translations, [first, half], [name])
    assert found.value == metric.corpus_score(translations, [first, [line or None for line in half]]).score
    assert found.signature == str(metric.get_signature()) and "nrefs:var|" in found.signature
    (other,) = metrics.scores(translations, [half, first], [name])
    assert other.value == pytest.approx(found.value)


def test_error_rates_without_missing_references():
    """The nearest of those that are there, and their mean length; a line that is empty in all has an empty one."""
    translations, streams = ["a b", "", "", "c"], [["a b c d", "e", "", ""], ["", "", "", "c d"]]
    metrics = EvaluationConfig().build(*streams)
    rate, exact = (one.value for one in metrics.scores(translations, streams, ["token-error-rate", "exact"]))
    assert rate == pytest.approx(100 * (2 + 1 + 0 + 1) / (4 + 1 + 0 + 2))
    assert exact == 100 * 1 / 4
    assert metrics.note == "3 of 4 lines have one reference only: empty ones are missing"
    assert EvaluationConfig().build(streams[0]).note is None
    assert EvaluationConfig().build(streams[0], streams[0]).note is None

"""A line for which the model gives no finite log-probabilities: it is named, and the others are as without it."""

import json
import math
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import seq2attn
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.agreement import compare_engines
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.glossary import Glossary
from seq2attn.inference.input_checks import InputChecker, InputWarning
from seq2attn.inference.reranking import Reranker
from seq2attn.inference.translator import Translator
from seq2attn.models import Seq2Seq
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import BeamConfig, SearchConfig
from seq2attn.tokenizers.vocabulary import EOS
from tests.support.commands import invoke_in
from tests.support.untrained_runs import TRANSFORMER_CONFIG, change_weights, untrained_run

pytestmark = pytest.mark.filterwarnings("ignore:.*the translation has the maximum length")
BAD = "a which few"
LINES = ["a few words", BAD, "not many", "", "many of a few"]
OTHERS = ["" if line == BAD else line for line in LINES]
ERROR = "error: {}line 2: the model gives no finite log-probabilities"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`good/run`, and `bad/run` with an embedding of "which" that is finite, and too large; texts with and without."""
    home = tmp_path_factory.mktemp("not-finite")
    for name in ("good", "bad"):
        run = untrained_run(home / name, TRANSFORMER_CONFIG)
        unknown = run.load_tokenizers().source.encode("which")[0]

        def enlarge(model: Seq2Seq, name: str = name, unknown: int = unknown) -> None:
            model.output_projection.weight.mul_(3)
            model.output_projection.bias[EOS] += 4
            if name == "bad":
                model.source_embedding.embedding.weight[unknown] = 3e38

        change_weights(run, enlarge)
    for name, lines in (("with", LINES), ("without", OTHERS)):
        (home / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (home / "target").write_text("of a\nmany of\nwords\n\nthere\n", "utf-8")
    (home / "terms").write_text("few\tthere\n", "utf-8")
    return home


SEARCHES = {
    "greedy": {"kind": "greedy"},
    "diverse beam": {"num_beam_groups": 5},
    "minimum Bayes risk": {"mbr": True},
    "coverage": {"coverage_penalty": 0.1},
    "n-grams": {"no_repeat_ngram_size": 2},
    "parts": {"lengths": {"max_length": 9, "max_source_length": 2}},
}


@pytest.fixture(scope="module")
def translator(home: Path) -> Translator:
    return seq2attn.load(home / "bad/run")


def check_translations(translator: Translator, search: SearchConfig | None = None) -> None:
    """Those of the other lines are as if the bad one were empty."""
    checker = InputChecker()
    found = list(translator.translate_iterable(LINES, search, checker=checker))
    expected = list(translator.translate_iterable(OTHERS, search, checker=InputChecker()))
    assert checker.not_finite == [2]
    bad = found.pop(1)
    assert (bad.text, bad.tokens, bad.alternatives) == ("", (), ())
    assert math.isnan(bad.score) and math.isnan(bad.log_prob)
    expected.pop(1)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip((one, *one.alternatives), (other, *other.alternatives), strict=True):
            assert a.text == b.text and (a.score, a.log_prob) == pytest.approx((b.score, b.log_prob), abs=1e-4)
    assert [bool(one.text) for one in found] == [True, True, False, True]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_every_search_translates_the_other_lines(translator: Translator, search: dict[str, Any]) -> None:
    config = {"kind": "beam", "lengths": {"max_length": 9}} | search
    check_translations(translator, TypeAdapter(SearchConfig).validate_python(config))


def test_glossaries_reranking_and_ensembles_translate_the_other_lines(home: Path, translator: Translator) -> None:
    good = seq2attn.load(home / "good/run")
    good.rerankers = [Reranker(translator.model, translator.tokenizers, 1.0, is_backward=False)]
    check_translations(good)
    check_translations(seq2attn.load(home / "good/run", TranslationOptions(ensemble=[home / "bad/run"])))
    with_terms = copy(translator)
    with_terms.glossary = Glossary.load(home / "terms", translator.tokenizers)
    check_translations(with_terms)


@pytest.mark.slow
def test_exported_models_translate_the_other_lines(home: Path) -> None:
    invoke_in(home, "export", "bad/run", "--to", "onnx")
    check_translations(seq2attn.load(home / "bad/run", TranslationOptions(engine="onnx")))


def test_engines_cannot_be_compared_with_such_a_line(home: Path) -> None:
    """Otherwise they would agree."""
    run = RunDirectory(home / "bad/run").load()
    with pytest.raises(UserError, match="sentence 2 of the verification: the model gives no finite"):
        compare_engines(run, NativeEngine(run.model), LINES, BeamConfig(), None)


@pytest.mark.parametrize("options", [[], ["--attention", "page.html"]])
def test_the_command_writes_all_lines(home: Path, options: list[str]) -> None:
    done = invoke_in(home, "translate", "bad/run", "--json", "-i", "with", *options, code=2)
    assert ERROR.format("") in done.err
    bad = [json.loads(line) for line in done.out.splitlines()][1]
    assert (bad.pop("source_tokens"), bad.pop("token_log_probs")) == (BAD.split(), [None])  # of EOS
    assert bad == {"source": BAD, "text": "", "score": None, "log_prob": None, "tokens": []}
    assert done.out.count("\n") == len(LINES) and (home / "page.html").exists() == bool(options)


def test_samples_of_other_lines_are_translated(home: Path) -> None:
    done = invoke_in(home, "translate", "bad/run", "--mbr", "4", "-i", "with", "-o", "translations", code=2)
    assert ERROR.format("") in done.err
    lines = (home / "translations").read_text("utf-8").split("\n")[:-1]
    assert len(lines) == len(LINES) and lines[1] == lines[3] == ""
    assert any(lines)


def test_nothing_is_drawn_for_a_line_without_a_translation(home: Path) -> None:
    done = invoke_in(home, "translate", "bad/run", BAD, "a few words", "--attention", "-", code=2)
    assert done.out.count("\n") == 2 and "error: line 1: the model gives no finite" in done.err


@pytest.mark.parametrize("options", [[], ["--per-token"], ["--json"]])
def test_other_pairs_are_scored(home: Path, options: list[str]) -> None:
    done, expected = (
        invoke_in(home, "score", "bad/run", "--source", source, "--target", "target", *options, code=code)
        for source, code in (("with", 2), ("without", 0))
    )
    assert ERROR.format("") in done.err and "perplexity" not in done.err
    lines, others = done.out.split("\n"), expected.out.split("\n")
    assert json.loads(lines[1])["log_prob"] is None if options == ["--json"] else lines[1].startswith("nan")
    del lines[1], others[1]
    assert lines == others


def test_other_pairs_are_aligned(home: Path) -> None:
    done, expected = (
        invoke_in(home, "align", "bad/run", "--source", source, "--target", "target", code=code)
        for source, code in (("with", 2), ("without", 0))
    )
    assert ERROR.format("") in done.err
    assert done.out == expected.out and done.out.split("\n")[1] == ""


def test_log_probabilities_that_are_not_finite_have_no_links_nor_head(tmp_path: Path) -> None:
    """Also where the attention is finite, as in a model with RNNs."""
    run = untrained_run(tmp_path)
    change_weights(run, lambda model: [weight.fill_(3e38) for weight in model.parameters()])
    (tmp_path / "gold").write_text("0-0\n0-0\n\n", "utf-8")
    files = "--source", "lines.txt", "--target", "lines.txt"
    done = invoke_in(tmp_path, "align", "run", *files, code=2)
    assert "error: lines 1, 2: the model gives no finite" in done.err and done.out == "\n\n\n"
    selection = invoke_in(tmp_path, "align", "run", "--select-head", *files, "--gold", "gold", code=2)
    assert "error: line 1: the model gives no finite" in selection.err
    assert not (run.folder / "alignment.json").exists()


def test_no_metric_of_a_text_with_such_a_line(home: Path) -> None:
    done = invoke_in(home, "evaluate", "bad/run", "--source", "with", "--reference", "target", code=2)
    assert done.out == "" and ERROR.format("with: ") in done.err
    assert not (home / "bad/run/evaluation").exists()


def test_such_a_line_is_left_out_of_a_corpus(home: Path) -> None:
    more = "--source", "with", "-o", "corpus"
    for _ in range(2):  # the second time from the file of the translations
        done = invoke_in(home, "distill", "bad/run", *more)
        assert "1 not finite" in done.err and BAD not in (home / "corpus/source.txt").read_text("utf-8")


def test_python_gets_all_translations_and_a_warning(translator: Translator) -> None:
    with pytest.warns(InputWarning, match="line 2: the model gives no finite log-probabilities"):
        translations = translator.translate(LINES, attention=True)
    assert len(translations) == len(LINES)
    bad = translations[1]
    assert bad.text == "" and bad.attention_weights is None and translations[0].attention_weights is not None


def test_the_sets_before_an_error_have_their_reports(home: Path) -> None:
    sets = "data.test={first: {kind: plain, source: without, target: target}, second: {kind: plain, source: with, "
    done = invoke_in(home, "evaluate", "bad/run", "--set", sets + "target: target}}", code=2)
    assert done.err.splitlines()[-1].startswith(ERROR.format("second: "))
    folder = home / "bad/run/evaluation"
    assert (folder / "first.json").is_file() and (folder / "first.txt").is_file()
    assert not (folder / "second.json").exists()

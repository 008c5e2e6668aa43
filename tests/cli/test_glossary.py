"""`seq2attn translate --glossary`, as a user gives it."""

import hashlib
import json
from pathlib import Path

import pytest

import seq2attn
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.ctranslate2_engine import CTranslate2Engine
from seq2attn.inference.glossary import Glossary, TermCounts
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.tokenizers.vocabulary import UNK
from tests.support.commands import Invoke, write_lines
from tests.support.untrained_runs import change_weights, untrained_run

GIVEN = b"a few words\n\nnot fewer\nof words which\n"
TERMS = "few\tnot many\nwords\tof\nwords which\twhich there are\n"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "terms").write_text(TERMS, encoding="utf-8")
    return untrained_run(tmp_path)


def test_translations_have_the_terms(invoke: Invoke, run: RunDirectory) -> None:
    command = "translate", run.folder, "--ensemble", run.folder
    done = invoke(*command, "--glossary", "terms", given=GIVEN)
    first, empty, other, last = done.out.splitlines()
    assert "not many" in first and "of" in first.split() and empty == "" and "which there are" in last
    assert other == invoke(*command, given=GIVEN).out.splitlines()[2]
    assert "glossary: 3 of 3 terms are in the translations (100.0%)\n" in done.err
    split = invoke(*command, "few of words", "--glossary", "terms", "--set", "search.lengths.max_source_length=1")
    assert "not many" in split.out and "2 of 2 terms" in split.err
    parts = [invoke(*command, part, "--glossary", "terms").out.strip() for part in ("few", "of", "words")]
    assert split.out.strip() == " ".join(parts)  # a part has its own terms only


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("few\tnot\n\n", "terms:2: expected a source term, a tab and a target term"),
        ("few\n", "terms:1: expected a source term, a tab and a target term"),
        ("\u2581\tnot\n", "terms:1: expected a source term, a tab and a target term"),  # a mark of a space
        ("few\t \n", "terms:1: expected a source term, a tab and a target term"),
        ("few\tnot\ta\n", "terms:1: expected a source term, a tab and a target term"),
        ("few\tnot\nfew\tnot\nfew\tmany\n", "terms:3: 'few' has another target term in line 1"),
        ("few\tnot\na\tstrange a\n", "terms:2: the model cannot produce 'strange a'"),
    ],
)
def test_invalid_terms_are_refused_with_their_line(
    invoke: Invoke, run: RunDirectory, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "terms").write_text(content, encoding="utf-8")
    command = "translate", run.folder, "--glossary", "terms", "-o", "out"
    assert said in invoke(*command, given=GIVEN, code=2).err and not (tmp_path / "out").exists()


def test_a_line_whose_terms_are_too_long_is_translated_without_them(
    invoke: Invoke, run: RunDirectory, tmp_path: Path
) -> None:
    (tmp_path / "terms").write_text("few\t" + 10 * "not " + "\nof\tmany\n", encoding="utf-8")
    given = b"a few words\nof words\nwords\n"
    command = "translate", run.folder
    done = invoke(*command, "--glossary", "terms", given=given)  # the run allows nine tokens
    warning = "line 1: terms of the glossary have more tokens than `search.lengths.max_length` allows"
    assert warning in done.err and "glossary: 1 of 2 terms" in done.err
    first, second, third = done.out.splitlines()
    assert [first, third] == invoke(*command, given=given).out.splitlines()[::2] and "many" in second
    longer = invoke(*command, "--glossary", "terms", "--set", "search.lengths.max_length=10", given=given)
    assert warning not in longer.err and "glossary: 2 of 2 terms" in longer.err


def test_evaluate_has_the_terms_and_their_share(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    options = "--glossary", "terms", "--beam", "4"
    write_lines(tmp_path / "in", GIVEN.decode().splitlines())
    table = invoke("evaluate", run.folder, "--source", "in", "--reference", "in", *options).out
    assert "; glossary: 3 of 3 terms are in the translations (100.0%)\n" in table
    report = json.loads((run.folder / "evaluation/in.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256((tmp_path / "terms").read_bytes()).hexdigest()[:8]
    assert report["glossary"] == {"met": 3, "terms": 3} and f"glossary terms (SHA-256 {digest})" in report["engine"]
    translations = (run.folder / "evaluation/in.txt").read_text(encoding="utf-8")
    assert translations == invoke("translate", run.folder, "-i", "in", *options).out
    invoke("evaluate", run.folder)
    assert json.loads((run.folder / "evaluation/ours.json").read_text(encoding="utf-8"))["glossary"] is None
    glossary = Glossary.load(tmp_path / "terms", run.load_tokenizers())
    assert glossary.count_met(["a few words", "few"], ["of", "not many"]) == TermCounts(2, 3)
    for counts, text in {
        (0, 0): "no source line has one of its terms",
        (1, 3): "1 of 3 terms are in the translations (33.3%)",
    }.items():
        assert str(TermCounts(*counts)) == text


def test_terms_replace_unknown_words(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    """Also those that the vocabulary does not have; an unknown word without a term is copied."""
    change_weights(run, lambda model: model.output_projection.bias[UNK].fill_(9))
    (tmp_path / "terms").write_text("Zoe\tZo\u00eb Ann\nfew\tnot many\n", encoding="utf-8")
    command = "translate", run.folder, "--beam", "4"
    for word, expected in {"Zoe": "Zo\u00eb Ann", "Bob": "Bob"}.items():
        plain = invoke(*command, word).out
        done = invoke(*command, word, "--glossary", "terms", "--replace-unk")
        assert "<unk>" in plain and done.out == plain.replace("<unk>", expected)
        assert ("1 of 1 terms" if word == "Zoe" else "no source line has one") in done.err
    assert "not many" in invoke(*command, "a few words", "--glossary", "terms", "--replace-unk").out
    invoke("evaluate", run.folder, "--beam", "4", "--glossary", "terms", "--replace-unk")
    said = "terms:1: the model cannot produce 'Zo\u00eb Ann'"
    assert said in invoke(*command, "Zoe", "--glossary", "terms", code=2).err
    for several_tokens in ("Zoe Bob", "Zoe-Bob"):
        (tmp_path / "terms").write_text(f"{several_tokens}\tZo\u00eb\n", encoding="utf-8")
        assert "cannot produce" in invoke(*command, "Zoe", "--glossary", "terms", "--replace-unk", code=2).err


@pytest.mark.parametrize("search", [SampleConfig(num_samples=3), BeamConfig(no_repeat_ngram_size=2)])
def test_a_search_of_one_call_can_follow_the_terms(run: RunDirectory, tmp_path: Path, search: SearchConfig) -> None:
    translator = seq2attn.load(run.folder, TranslationOptions(glossary=tmp_path / "terms"))
    message = "needs beam search" if search.kind == "sample" else "exclude each other"
    with pytest.raises(UserError, match=message):
        translator.translate("few words", search)


def test_another_engine_has_no_terms(run: RunDirectory) -> None:
    engine = CTranslate2Engine(run.folder, (), None, 1)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no lexical constraints: use ``glossary`` with ``engine=native``"):
        engine.translate([[4]], BeamConfig(), budget=1, phrases=[[]])

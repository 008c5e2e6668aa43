"""The options of a command reach the component that they concern, also `--ensemble` and `--prefix`."""

import json
from pathlib import Path
from typing import Any

import pytest

from seq2attn import load
from seq2attn.data.filter import EncodedPair, FiltersConfig
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.translator import Translator
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.commands import Invoke
from tests.support.untrained_runs import LINES, TRANSFORMER_CONFIG, WORDS, untrained

SHORT = ("--set", "search.lengths.max_length=2")
TEXT = "".join(line + "\n" for line in LINES).encode()
GIVEN = b"a few words\n\nnot many\n"
CORPORA = {"distill": "--source", "back-translate": "--target"}


def test_translate(tmp_path: Path, invoke: Invoke) -> None:
    """The search is that of the run, with the options of the command line."""
    run = untrained(tmp_path).folder
    line = LINES[1]
    output = json.loads(invoke("translate", run, line, "--json", "--n-best", "3").out)
    assert len(output["tokens"]) == 9 and len(output["alternatives"]) == 2
    assert "--beam 4" in invoke("translate", run, line, "--n-best", "4", code=2).err
    wide = json.loads(invoke("translate", run, line, "--json", "--beam", "4", "--n-best", "4").out)
    assert len(wide["alternatives"]) == 3
    assert "finds 1" in invoke("translate", run, line, "--greedy", "--n-best", "2", code=2).err
    whole = Translator.load(run).translate(line)
    assert (whole.tokens, len(whole.alternatives)) == (tuple(output["tokens"]), 2)
    assert len(json.loads(invoke("translate", run, line, "--json", *SHORT).out)["tokens"]) == 2


@pytest.mark.parametrize("command", ["translate", "evaluate"])
def test_precision_and_batch_size(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    searched = list[tuple[str, int]]()
    translate = NativeEngine.translate

    def record(self: NativeEngine, sources: Any, search: Any, *, budget: int, **options: Any) -> Any:
        searched.append((self.precision, budget))
        return translate(self, sources, search, budget=budget, **options)

    monkeypatch.setattr(NativeEngine, "translate", record)
    lines = LINES if command == "translate" else ()
    run = untrained(tmp_path).folder
    invoke(command, run, *lines)
    assert searched[-1] == ("float32", 8192)
    invoke(command, run, *lines, "--precision", "bfloat16", "--batch-tokens", "77")
    assert searched[-1] == ("bfloat16", 77)
    if command == "evaluate":
        report = json.loads((run / "evaluation/ours.json").read_text("utf-8"))
        assert report["engine"] == "native bfloat16"


def test_evaluate(tmp_path: Path, invoke: Invoke) -> None:
    run = untrained(tmp_path).folder
    for more, width, max_length in (((), 3, 9), (("--beam", "2"), 2, 9), (SHORT, 3, 2)):
        invoke("evaluate", run, *more)
        report = json.loads((run / "evaluation/ours.json").read_text("utf-8"))
        assert (report["search"]["beam_size"], report["search"]["lengths"]["max_length"]) == (width, max_length)
        texts = (run / "evaluation/ours.txt").read_text("utf-8").split("\n")[:-1]
        assert [len(text.split()) for text in texts] == [max_length, max_length, 0]
    assert json.loads(invoke("evaluate", run, "--greedy", "--json").out)["search"]["kind"] == "greedy"


@pytest.mark.parametrize("side", ["source", "target"])
def test_weights_are_for_the_vocabulary_of_either_side(tmp_path: Path, side: str) -> None:
    run = untrained(tmp_path)
    WordTokenizerConfig().train([f"other-{word}" for word in WORDS]).save(run.folder / side)
    with pytest.raises(RunError, match=f"another vocabulary. .*{side}/vocabulary.json"):
        Translator.load(run.folder)


@pytest.mark.parametrize("pair", [([4], [4] * 4), ([4] * 4, [4])])
def test_filters_check_both_sides(pair: tuple[list[int], list[int]]) -> None:
    encoded = EncodedPair(("", ""), pair)
    assert FiltersConfig(max_length=3).rejection_reason(encoded) == "too_long"
    assert FiltersConfig(max_length=4).rejection_reason(encoded) is None
    assert FiltersConfig(max_length_ratio=3).rejection_reason(encoded) == "unbalanced"
    assert FiltersConfig(max_length_ratio=4).rejection_reason(encoded) is None


def test_names_of_parts_are_those_of_a_dry_run(invoke: Invoke, tmp_path: Path) -> None:
    untrained(tmp_path)
    out = invoke("train", "own.yaml", "--dry-run").out
    names = [line.split()[0] for line in out.splitlines() if line[:1].islower() and "." in line.split()[0]]
    total, encoder = (
        sum(int(line.split()[-1].replace(",", "")) for line in out.splitlines() if line.split()[0] == name)
        for name in ("trained", "encoder")
    )
    frozen = invoke("train", "own.yaml", "--dry-run", "--set", "training.frozen=[encoder]").out.splitlines()
    assert next(line for line in frozen if line.startswith("trained")).split()[-1] == f"{total - encoder:,}"
    assert len(names) > 10
    invoke("train", "own.yaml", "--dry-run", "--set", f"training.frozen=[{','.join(names[1:])}]")
    error = invoke("train", "own.yaml", "--dry-run", "--set", "training.frozen=[encoder.rn]", code=2).err
    assert error.startswith("<command line>:1:17: `training.frozen`: ") and "did you mean `encoder.rnn`?" in error
    exclude = "training.init_from={run_dir: run, exclude: [coder]}"
    error = invoke("train", "own.yaml", "--set", exclude, code=2).err
    assert error.startswith("<command line>:1:") and "exclude`: the model has no part `coder`" in error
    options = ["--set", "run_dir=new", "--set", "training.init_from={run_dir: elsewhere}"]
    for command in (["train"], ["train", "--dry-run"], ["config", "check"]):
        error = invoke(*command, "own.yaml", *options, code=2).err
        assert (
            error.startswith("<command line>:1:20: `training.init_from`: ")
            and "elsewhere: is no run directory" in error
        )
    deep = ["--set", "run_dir=new", "--set", "training.init_from={run_dir: run}", "--set", "model.encoder.layers=3"]
    for command in (["train"], ["train", "--dry-run"], ["config", "check"]):
        assert "`training.init_from`: run: lacks `encoder." in invoke(*command, "own.yaml", *deep, code=2).err


def test_runs_are_combined(invoke: Invoke, tmp_path: Path) -> None:
    run, other = untrained(tmp_path), untrained(tmp_path / "other", TRANSFORMER_CONFIG)
    alone, same = (invoke("translate", run.folder, *options, given=TEXT).out for options in ([], ["--ensemble", "run"]))
    assert alone == same
    options = ["--ensemble", other.folder, "--ensemble", run.folder]
    both = json.loads(invoke("translate", run.folder, LINES[0], *options, "--json").out)
    translator = load(run.folder, ensemble=[other.folder, run.folder])
    assert (translator.translate(LINES[0]).log_prob, repr(translator).count("rs on cpu")) == (both["log_prob"], 3)
    assert both["log_prob"] != load(run.folder).translate(LINES[0]).log_prob
    invoke("evaluate", run.folder, *options, "--precision", "bfloat16")
    report = json.loads((run.folder / "evaluation/ensemble/ours.json").read_text(encoding="utf-8"))
    members = [str(each.folder) for each in (run, other, run)]
    assert [member["run_dir"] for member in report["model"]["ensemble"]] == members
    assert report["engine"] == "native bfloat16"
    translations = (run.folder / "evaluation/ensemble/ours.txt").read_text(encoding="utf-8").splitlines()
    assert translations[0] == both["text"]
    assert not (run.folder / "evaluation/ours.json").exists()


def test_mistakes_of_ensembles(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained(tmp_path).folder
    shorter = untrained(tmp_path / "shorter", words=["a", "few"]).folder
    tagged = untrained(tmp_path / "tagged", tags=("<2en>",)).folder
    expected = {
        shorter: f"cannot be in an ensemble with {run}, which has another target vocabulary."
        f" {shorter}/target/vocabulary.json: is not the vocabulary expected: 6 entries, expected 13; the first"
        " difference is entry 5: 'few', expected 'are'",
        tagged: f"cannot be in an ensemble with {run}, which has other tags: none, not <2en>",
    }
    for other, message in expected.items():
        for command in (["translate", run, "a"], ["evaluate", run]):
            assert invoke(*command, "--ensemble", other, code=2).err == f"error: {other}: {message}\n"
    command = "translate", run, "a", "--ensemble", run
    assert "an ensemble has no attention weights" in invoke(*command, "--attention", "-", code=2).err
    assert "native engine, not by `ctranslate2`" in invoke(*command, "--engine", "ctranslate2", code=2).err


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained(tmp_path)


@pytest.mark.parametrize("search", [["--greedy"], ["--beam", "2"], ["--set", "search={kind: sample}"]])
def test_one_prefix_for_all_lines(invoke: Invoke, run: RunDirectory, search: list[str]) -> None:
    out = invoke("translate", run.folder, "--prefix", "of which", *search, given=GIVEN).out.split("\n")
    assert [line[:8] for line in out] == ["of which", "", "of which", ""]


def test_a_prefix_with_unknown_tokens_is_refused(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before", encoding="utf-8")
    error = invoke(
        "translate", run.folder, "--prefix", "of strange", "-o", "out", "--overwrite", given=GIVEN, code=2
    ).err
    assert "no translation can begin with 'of strange'" in error
    assert (tmp_path / "out").read_text() == "before" and not list(tmp_path.glob("*.partial"))


def test_a_folder_of_an_export_needs_its_engine(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    message = "--export-dir needs --engine ctranslate2 or --engine onnx"
    corpora = [(name, run.folder, side, "a", "-o", "b") for name, side in CORPORA.items()]
    for command in (("translate", run.folder, "a"), ("evaluate", run.folder), *corpora):
        assert invoke(*command, "--export-dir", tmp_path, code=2).err == f"error: {message}\n"
        assert "there is no engine `tensorrt`" in invoke(*command, "--engine", "tensorrt", code=2).err
    with pytest.raises(UserError, match=message):
        load(run.folder, export_dir=tmp_path)

"""The options of a command reach the component that they concern, also `--ensemble` and `--prefix`."""

import json
import re
from pathlib import Path

import pytest

import seq2attn
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.options import TranslationOptions
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.commands import Invoke
from tests.support.untrained_runs import LINES, TRANSFORMER_CONFIG, WORDS, untrained_run

SHORT = ("--set", "search.lengths.max_length=2")
TEXT = "".join(line + "\n" for line in LINES).encode()
GIVEN = b"a few words\n\nnot many\n"


def test_translate(tmp_path: Path, invoke: Invoke) -> None:
    """The search is that of the run, with the options of the command line."""
    run = untrained_run(tmp_path).folder
    line = LINES[1]
    output = json.loads(invoke("translate", run, line, "--json", "--n-best", "3").out)
    assert len(output["tokens"]) == 9 and len(output["alternatives"]) == 2
    wide = json.loads(invoke("translate", run, line, "--json", "--beam", "4", "--n-best", "4").out)
    assert len(wide["alternatives"]) == 3
    whole = seq2attn.load(run).translate(line)
    assert (whole.tokens, len(whole.alternatives)) == (tuple(output["tokens"]), 2)
    assert len(json.loads(invoke("translate", run, line, "--json", *SHORT).out)["tokens"]) == 2


def test_evaluate(tmp_path: Path, invoke: Invoke) -> None:
    run = untrained_run(tmp_path).folder
    for more, width, max_length in (((), 3, 9), (("--beam", "2"), 2, 9), (SHORT, 3, 2)):
        invoke("evaluate", run, *more)
        report = json.loads((run / "evaluation/ours.json").read_text("utf-8"))
        assert (report["search"]["beam_size"], report["search"]["lengths"]["max_length"]) == (width, max_length)
        texts = (run / "evaluation/ours.txt").read_text("utf-8").split("\n")[:-1]
        assert [len(text.split()) for text in texts] == [max_length, max_length, 0]
    assert json.loads(invoke("evaluate", run, "--greedy", "--json").out)["search"]["kind"] == "greedy"


@pytest.mark.parametrize("side", ["source", "target"])
def test_weights_are_for_the_vocabulary_of_either_side(tmp_path: Path, side: str) -> None:
    run = untrained_run(tmp_path)
    WordTokenizerConfig().train([f"other-{word}" for word in WORDS]).save(run.folder / side)
    with pytest.raises(RunError, match=f"another vocabulary. .*{side}/vocabulary.json"):
        seq2attn.load(run.folder)


def test_names_of_parts_are_those_of_a_dry_run(invoke: Invoke, tmp_path: Path) -> None:
    untrained_run(tmp_path)
    out = invoke("train", "own.yaml", "--dry-run", "-v").out
    names = [line.split()[0] for line in out.splitlines() if line[:1].islower() and "." in line.split()[0]]
    (total,) = re.findall(r"([\d,]+) of them trained", out)
    (encoder,) = re.findall(r"^encoder .* ([\d,]+)$", out, re.MULTILINE)
    frozen = invoke("train", "own.yaml", "--dry-run", "--set", "training.frozen=[encoder]").out
    assert f"{int(total.replace(',', '')) - int(encoder.replace(',', '')):,} of them trained" in frozen
    assert len(names) > 10
    invoke("train", "own.yaml", "--dry-run", "--set", f"training.frozen=[{','.join(names[1:])}]")


def test_runs_are_combined(invoke: Invoke, tmp_path: Path) -> None:
    run, other = untrained_run(tmp_path), untrained_run(tmp_path / "other", TRANSFORMER_CONFIG)
    alone, same = (invoke("translate", run.folder, *options, given=TEXT).out for options in ([], ["--ensemble", "run"]))
    assert alone == same
    options = ["--ensemble", other.folder, "--ensemble", run.folder]
    both = json.loads(invoke("translate", run.folder, LINES[0], *options, "--json").out)
    translator = seq2attn.load(run.folder, TranslationOptions(ensemble=[other.folder, run.folder]))
    assert (translator.translate(LINES[0]).log_prob, repr(translator).count(" + ")) == (both["log_prob"], 2)
    assert both["log_prob"] != seq2attn.load(run.folder).translate(LINES[0]).log_prob
    invoke("evaluate", run.folder, *options, "--precision", "bfloat16")
    report = json.loads((run.folder / "evaluation/ensemble/ours.json").read_text(encoding="utf-8"))
    members = [str(each.folder) for each in (run, other, run)]
    assert [member["run_dir"] for member in report["model"]["ensemble"]] == members
    assert report["engine"] == "native bfloat16"
    translations = (run.folder / "evaluation/ensemble/ours.txt").read_text(encoding="utf-8").splitlines()
    assert translations[0] == both["text"]
    assert not (run.folder / "evaluation/ours.json").exists()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained_run(tmp_path)


@pytest.mark.parametrize("search", [["--greedy"], ["--beam", "2"], ["--set", "search={kind: sample}"]])
def test_one_prefix_for_all_lines(invoke: Invoke, run: RunDirectory, search: list[str]) -> None:
    out = invoke("translate", run.folder, "--prefix", "of which", *search, given=GIVEN).out.split("\n")
    assert [line[:8] for line in out] == ["of which", "", "of which", ""]


def test_a_folder_of_an_export_needs_its_engine(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="``export_dir`` needs ``engine=ctranslate2`` or ``engine=onnx``"):
        seq2attn.load(run.folder, TranslationOptions(export_dir=tmp_path))

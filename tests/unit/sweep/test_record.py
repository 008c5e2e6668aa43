"""The fingerprint of an experiment: all that its result depends on, and no path."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from seq2attn.errors import RunError
from seq2attn.experiment.experiment_config import ExperimentConfig, load_config
from seq2attn.sweep.plan import Trial, TrialRun
from seq2attn.sweep.record import (
    ExperimentFingerprints,
    RunRecord,
    TrainingSummary,
    changed_parts,
    changes_validation,
    machine_name,
    write_record,
    write_trial,
)
from seq2attn.sweep.run_sweep import link_prepared_data
from tests.support.plugins import PARTS
from tests.support.untrained_runs import CONFIG, LINES, untrained_run

FILES = ("train", "dev", "test")
TEXT = ["text", "test sets"]


def load(folder: Path, *overrides: str) -> ExperimentConfig:
    corpora = [f"data.{key}={{source: {folder / key}, target: {folder / key}}}" for key in ("train", "dev")]
    test = f"data.test.ours={{source: {folder / 'test'}, target: {folder / 'test'}}}"
    run = [f"run_dir={folder / 'run'}", "training.seed=1"]
    return load_config(folder / "own.yaml", [*corpora, test, *run, *overrides])


def changes(folder: Path, after: ExperimentConfig) -> list[str]:
    """The parts that differ from those of the run of `load(folder)`."""
    fingerprints, before = ExperimentFingerprints(), load(folder)
    fingerprints.fingerprint(before)  # of which nothing may count for the other
    return changed_parts(run_of(before), fingerprints.fingerprint(after))


def run_of(experiment: ExperimentConfig) -> TrialRun:
    return TrialRun(Trial((), experiment), seed=1)


@pytest.fixture
def recorded_trial(tmp_path: Path) -> Path:
    for name in (*FILES, "lines.txt"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (tmp_path / "own.yaml").write_text(CONFIG, encoding="utf-8")
    run = run_of(load(tmp_path))
    run.folder.mkdir(parents=True)
    write_trial(run, ExperimentFingerprints().fingerprint(run.experiment))
    return tmp_path


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("run_dir=other", []),
        ("data.train.repeat=2", ["text"]),
        ("data.filters.drop_duplicates=true", TEXT),
        ("tokenizer.source.min_frequency=2", TEXT),
        ("tokenizer.right_to_left=true", TEXT),
        ("tokenizer.reverse_source=true", TEXT),
        ("model.embeddings.dim=16", ["model"]),
        ("training.label_smoothing=0.2", ["training"]),
        ("search.beam_size=2", ["search"]),
        ("evaluation.lowercase=true", ["evaluation"]),
    ],
)
def test_each_option_counts(recorded_trial: Path, override: str, parts: list[str]) -> None:
    assert changes(recorded_trial, load(recorded_trial, override)) == parts


@pytest.mark.parametrize(
    ("override", "is_changed"),
    [
        ("search={kind: greedy, lengths: {max_length: 9}}", False),
        ("search.beam_size=2", False),
        ("search.lengths={length_penalty: gnmt, alpha: 0.5}", False),
        ("search.lengths.max_length=8", True),
        ("search.no_repeat_ngram_size=3", True),
    ],
)
def test_validations_have_the_search_but_for_its_beam_and_penalty(
    recorded_trial: Path, override: str, is_changed: bool
) -> None:
    assert changes_validation(run_of(load(recorded_trial, override))) == is_changed


@pytest.mark.parametrize(("file", "parts"), [("train", ["text"]), ("dev", ["text"]), ("test", ["test sets"])])
def test_the_content_of_files_counts_and_not_their_place(recorded_trial: Path, file: str, parts: list[str]) -> None:
    key = "test.ours" if file == "test" else file
    (recorded_trial / "moved").write_text((recorded_trial / file).read_text(encoding="utf-8"), encoding="utf-8")
    after = load(recorded_trial, f"data.{key}.source={recorded_trial / 'moved'}")
    assert changes(recorded_trial, after) == []
    (recorded_trial / "moved").write_text("new\n" * len(LINES), encoding="utf-8")
    assert changes(recorded_trial, after) == parts


@pytest.mark.parametrize("option", ["training.init_from.run_dir={}", "model.embeddings.target_vectors={}/vectors.txt"])
def test_the_place_of_another_run_and_of_vectors_does_not_count(recorded_trial: Path, option: str) -> None:
    other = untrained_run(recorded_trial / "other").folder
    (other / "vectors.txt").write_text("a 1 2 3 4 5 6 7 8\n")
    run = run_of(load(recorded_trial, option.format(other)))
    write_trial(run, ExperimentFingerprints().fingerprint(run.experiment))
    moved = load(recorded_trial, option.format(shutil.copytree(other, recorded_trial / "moved")))
    assert changed_parts(run, ExperimentFingerprints().fingerprint(moved)) == []
    assert changed_parts(run, ExperimentFingerprints().fingerprint(load(recorded_trial))) != []
    if "target_vectors" in option:  # the same files on the other side
        swapped = load(recorded_trial, option.format(other).replace("target", "source"))
        assert changed_parts(run, ExperimentFingerprints().fingerprint(swapped)) == ["model"]


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ("tokenizer.run_dir={}", "source/vocabulary.json"),
        ("training.init_from.run_dir={}", "model.safetensors"),
        ("training.init_from.run_dir={}", "target/vocabulary.json"),
        ("model.embeddings.target_vectors={}/vectors.txt", "vectors.txt"),
    ],
)
def test_the_content_of_another_run_and_of_vectors_counts(recorded_trial: Path, option: str, file: str) -> None:
    other = untrained_run(recorded_trial / "other").folder
    (other / "vectors.txt").write_text("a 1 2 3 4 5 6 7 8\n")
    run = run_of(load(recorded_trial, option.format(other)))
    write_trial(run, ExperimentFingerprints().fingerprint(run.experiment))
    (other / "train.log").write_text("read by nobody")
    assert changed_parts(run, ExperimentFingerprints().fingerprint(run.experiment)) == []
    (other / file).write_bytes(b"changed")
    assert changed_parts(run, ExperimentFingerprints().fingerprint(run.experiment)) == ["input files"]


@pytest.mark.parametrize("file", ["recorded_parts.py", "recorded_package/parts.py", "table"])
def test_the_code_and_the_files_of_a_plug_in_count(
    recorded_trial: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """A package counts as a whole: `kind` may name a module that imports the class from another."""
    monkeypatch.chdir(recorded_trial)
    with_table = PARTS.replace("size: PositiveInt = 16", "table: seq2attn.InputPath; size: PositiveInt = 16")
    (recorded_trial / "recorded_package").mkdir()
    (recorded_trial / "recorded_package/__init__.py").touch()
    (recorded_trial / "recorded_package/api.py").write_text("from recorded_package.parts import MyEncoder")
    for code in ("recorded_parts.py", "recorded_package/parts.py"):
        (recorded_trial / code).write_text(with_table, encoding="utf-8")
    (recorded_trial / "table").touch()
    module = "recorded_package.api" if "package" in file else "recorded_parts"
    for name in ("recorded_parts", "recorded_package", "recorded_package.api", "recorded_package.parts"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # of another folder
    run = run_of(load(recorded_trial, f"model.encoder={{kind: '{module}:MyEncoder', table: {recorded_trial}/table}}"))
    write_trial(run, ExperimentFingerprints().fingerprint(run.experiment))
    assert not changed_parts(run, ExperimentFingerprints().fingerprint(run.experiment))
    (recorded_trial / file).write_text("changed")
    assert changed_parts(run, ExperimentFingerprints().fingerprint(run.experiment)) == ["input files"]


def test_initial_weights_that_are_not_there_are_named(recorded_trial: Path) -> None:
    experiment = load(recorded_trial, f"training.init_from.run_dir={recorded_trial / 'nowhere'}")
    with pytest.raises(RunError, match="nowhere: is not a run directory"):
        ExperimentFingerprints().fingerprint(experiment)


def test_initial_weights_of_an_unfinished_trial_are_refused(recorded_trial: Path) -> None:
    other = untrained_run(recorded_trial / "other").folder
    run = run_of(load(recorded_trial, f"training.init_from.run_dir={other}"))
    write_trial(TrialRun(Trial((), run.experiment.model_copy(update={"run_dir": other.parent})), seed=1), {})
    (other.parent / "seed-1" / "trial.json").rename(other / "trial.json")
    with pytest.raises(RunError, match=r"`training\.init_from` is a trial that is not finished; finish it first"):
        ExperimentFingerprints().fingerprint(run.experiment)
    write_record(other, RunRecord(TrainingSummary(1, 1.0, 1, 1.0, 1, 1, "here", "2", "today"), {}))
    assert ExperimentFingerprints().fingerprint(run.experiment)


def test_a_trained_run_without_its_text_keeps_its_checkpoints(recorded_trial: Path) -> None:
    run, messages = run_of(load(recorded_trial)), list[str]()
    (run.folder / "checkpoints" / "00000002").mkdir(parents=True)
    link_prepared_data([run], ExperimentFingerprints(), recorded_trial / "sweep", messages.append)
    assert (run.folder / "checkpoints" / "00000002").is_dir() and not messages


def test_the_machine_is_named_by_its_processor_and_cores():
    name, _, cores = machine_name(torch.device("cpu")).rpartition(", ")
    found = subprocess.run(["grep", "-h", "^model name", "/proc/cpuinfo"], capture_output=True, text=True).stdout
    assert cores == f"{os.cpu_count()} cores"
    assert f": {name}\n" in found or name == platform.machine()

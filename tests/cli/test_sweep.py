"""Sweeps end to end, each a process with processes of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.io.weights import load_tensors
from tests.cli.conftest import ENVIRONMENT, Done, Invoke, command, invoke_in, write_lines, write_toy
from tests.laws.small import assert_same

SWEEP = """\
base: toy.yaml
folder: runs/sweep
changes:
  model: {embeddings: {dim: 16}, encoder: {dim: 16}}
  training: {max_duration: [12 updates], validation: {every: 4 updates}, optimizer: {lr: 0.02}}
  search: {kind: greedy}
  evaluation: {lowercase: true, metrics: [bleu, exact]}
axes:
  decoder:
    at: model.decoder
    choices:
      fixed: {kind: fixed-context, dim: 16}
      luong: {kind: luong, dim: 16, attention: {score: {kind: general}}}
seeds: [1, 2]
baseline: {decoder: fixed}
"""
VECTORS = """\
  vectors:
    at: model.embeddings.source_vectors
    choices:
      missing: nowhere.txt
      none: null
"""
TOLD = r"^(?:fixed|luong) seed [12]: BLEU short .*, mixed .* \(\d+ s\)$"
CLOCKS = ("seconds", "sentences_per_second", "folder", "jobs", "date")


def home(folder: Path, sweep: str = SWEEP) -> Path:
    """A folder with a base, its text and a sweep."""
    folder.mkdir(exist_ok=True)
    write_toy(folder)
    (folder / "sweep.yaml").write_text(sweep, encoding="utf-8")
    return folder


def found(folder: Path) -> object:
    """What a leaderboard says, but for times."""

    def timeless(part: object) -> object:
        if isinstance(part, dict):
            return {key: timeless(value) for key, value in part.items() if key not in CLOCKS}
        return [timeless(item) for item in part] if isinstance(part, list) else part

    board = json.loads((folder / "runs/sweep/leaderboard.json").read_text(encoding="utf-8"))
    return timeless({key: value for key, value in board.items() if key != "conditions"})


def results(folder: Path) -> dict[str, int]:
    """The finished trainings, and when they were."""
    trials = folder / "runs/sweep/trials"
    return {str(path.relative_to(trials).parent): path.stat().st_mtime_ns for path in trials.rglob("result.json")}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A sweep that nothing disturbed, one training after the other."""
    folder = home(tmp_path_factory.mktemp("swept"))
    return folder, invoke_in(folder, "sweep", "sweep.yaml")


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    words = command("sweep", "sweep.yaml", *arguments)
    return subprocess.Popen(words, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_until(so: Callable[[], bool]) -> bool:
    """Whether it came to be so within a minute."""
    deadline = time.monotonic() + 60
    while not (is_so := so()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_so


def wait_for(pattern: str, folder: Path) -> None:
    """Until there is such a file."""
    assert wait_until(lambda: any(folder.rglob(pattern))), f"no {pattern} in {folder}"


def workers(folder: Path) -> list[int]:
    """The processes that still work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, where = (process / "cmdline").read_bytes(), (process / "cwd").readlink()
        except OSError:
            continue
        if b"seq2attn.sweep.worker" in command and where == folder:
            found.append(int(process.name))
    return found


def test_an_undisturbed_sweep(swept: tuple[Path, Done]) -> None:
    folder, done = swept
    assert sorted(results(folder)) == ["fixed/seed-1", "fixed/seed-2", "luong/seed-1", "luong/seed-2"]
    assert done.out == (folder / "runs/sweep/leaderboard.md").read_text(encoding="utf-8")
    assert "| **fixed** (baseline) |" in done.out
    assert len(re.findall(TOLD, done.err, re.MULTILINE)) == 4
    assert done.err.count("bpe, 300 entries") == 1  # the text is prepared once


def test_a_run_is_one_that_train_makes_and_evaluate_measures(
    swept: tuple[Path, Done], invoke: Invoke, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(swept[0] / "runs/sweep/trials/luong/seed-2", tmp_path / "run"))
    report = json.loads(invoke("evaluate", run, "--json").out)
    record = json.loads((run / "result.json").read_text(encoding="utf-8"))
    for name in ("short", "mixed"):
        scores = report["sets"][name]["scores"]
        assert scores == record["sets"][name]["scores"]
        assert [score["name"] for score in scores] == ["BLEU", "exact match"]
        assert all("|case:lc|" in score["signature"] for score in scores)
    invoke("train", run / "config.yaml", "--set", "run_dir=own")
    assert_same(load_tensors(tmp_path / "own/model.safetensors"), load_tensors(run / "model.safetensors"))


@pytest.mark.slow
def test_killed_and_started_again_side_by_side(swept: tuple[Path, Done], tmp_path: Path) -> None:
    folder = home(tmp_path / "home")
    sweep = start(folder)
    # In the middle of the second training, after a checkpoint.
    wait_for("result.json", folder)
    wait_for("luong/seed-1/checkpoints/*/train_state.json", folder)
    sweep.kill()
    sweep.communicate()
    assert wait_until(lambda: workers(folder) == [])
    before = results(folder)
    assert 1 <= len(before) < 4
    done = invoke_in(folder, "sweep", "sweep.yaml", "--jobs", 2)
    after = results(folder)
    assert {name: after[name] for name in before} == before
    assert found(folder) == found(swept[0])
    if "luong/seed-1" not in before:  # the kill may have come late
        log = (folder / "runs/sweep/trials/luong/seed-1/sweep.log").read_text(encoding="utf-8")
        assert "going on after update" in log
    assert len(re.findall(TOLD, done.err, re.MULTILINE)) == 4 - len(before)
    assert f"{len(before)} trainings are finished, {4 - len(before)} to go" in done.err


@pytest.mark.slow
def test_trainings_end_with_the_sweep(invoke: Invoke, tmp_path: Path) -> None:
    folder = home(tmp_path, SWEEP.replace("12 updates", "100000 updates"))
    try:
        sweep = start(folder, "--jobs", "2")
        wait_for("seed-1/checkpoints/*/train_state.json", folder)
        assert len(workers(folder)) == 2
        assert f"runs/sweep: process {sweep.pid} on " in invoke("sweep", "sweep.yaml", code=2).err
        sweep.send_signal(signal.SIGINT)
        _, said = sweep.communicate()
        assert sweep.returncode == 130, said
        assert said.decode().endswith("interrupted\n")
        assert workers(folder) == []
        sweep = start(folder, "--jobs", "2")
        assert wait_until(lambda: len(workers(folder)) == 2)
        sweep.kill()
        sweep.communicate()
        assert wait_until(lambda: workers(folder) == [])
    finally:
        for process in workers(folder):
            os.kill(process, signal.SIGKILL)


def test_a_training_that_fails_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    sweep = re.sub(r"  decoder:.*?seeds:", f"{VECTORS}seeds:", SWEEP, flags=re.DOTALL)
    folder = home(tmp_path / "home", sweep.replace("[1, 2]", "[1]").replace("decoder: fixed", "vectors: none"))
    done = invoke_in(folder, "sweep", "sweep.yaml", code=1)
    assert list(results(folder)) == ["none/seed-1"]
    assert re.search(r"^missing seed 1: FAILED, exit code 2: error: .*nowhere.txt", done.err, re.M)
    assert "1 training failed:" in done.err
    assert "Not finished: missing seed 1." in done.out


def test_other_configs_and_texts_are_refused_or_done_anew(
    swept: tuple[Path, Done], invoke: Invoke, tmp_path: Path
) -> None:
    shutil.copytree(swept[0], tmp_path, dirs_exist_ok=True)
    changed = SWEEP.replace("kind: luong, dim: 16", "kind: luong, dim: 8")
    (tmp_path / "sweep.yaml").write_text(changed, encoding="utf-8")
    before = results(tmp_path)
    assert invoke("sweep", "sweep.yaml", code=2).err == (
        "error: runs/sweep: holds trainings of another config or text: luong seed 1 (model), luong seed 2 (model);"
        " do them anew by --redo, or give another `folder`\n"
    )
    assert results(tmp_path) == before
    write_lines(tmp_path / "text/short.de", ["rot"] * 20)
    assert "fixed seed 1 (test sets)" in invoke("sweep", "sweep.yaml", code=2).err
    (weights,) = (tmp_path / "runs/sweep/trials/fixed/seed-2").glob("model.safetensors")
    trained = weights.stat().st_mtime_ns
    done = invoke("sweep", "sweep.yaml", "--redo", "--set", "seeds=[2]")
    assert "luong seed 2: trained anew, since changed: test sets, model" in done.err
    assert "fixed seed 2: measured anew, since changed: test sets" in done.err
    assert weights.stat().st_mtime_ns == trained
    after = results(tmp_path)
    assert {name for name in before if after[name] != before[name]} == {"luong/seed-2", "fixed/seed-2"}
    said = invoke("sweep", "sweep.yaml", "--leaderboard", code=2).err
    assert "fixed/seed-1: the text of the test set `short` has changed since" in said


def test_nothing_is_trained_for_a_list(invoke: Invoke, tmp_path: Path) -> None:
    home(tmp_path)
    listed = invoke("sweep", "sweep.yaml", "--dry-run").out
    assert re.search(r"^fixed +[\d,]+ +0/2 +baseline$", listed, re.MULTILINE)
    assert not (tmp_path / "runs").exists()


def test_nothing_is_trained_for_a_board(swept: tuple[Path, Done], invoke: Invoke, tmp_path: Path) -> None:
    shutil.copytree(swept[0], tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "runs/sweep").glob("leaderboard.*"):
        path.unlink()
    invoke("sweep", "sweep.yaml", "--leaderboard")
    assert found(tmp_path) == found(swept[0])

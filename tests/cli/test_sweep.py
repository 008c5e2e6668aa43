"""Sweeps end to end, with a process for each training."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.data.prepared_data import load_prepared
from seq2attn.errors import RunError
from seq2attn.evaluation.evaluate import text_digest
from seq2attn.io.weights import load_tensors
from seq2attn.sweep.plan import load_plan
from seq2attn.sweep.record import write_trial
from seq2attn.sweep.run_sweep import lock_sweep, run_all, run_sweep, write_leaderboard
from seq2attn.sweep.worker import run_trial
from tests.support.commands import Done, Invoke, invoke_in, write_lines
from tests.support.sweeps import SWEEP, home, results, start, wait_for, wait_until, workers
from tests.support.trainings import assert_same

LONG = SWEEP.replace("[1]", "[1, 2]").replace("[2 updates]", "[12 updates]").replace("1 update}", "4 updates}")
RESULT = r"^(?:fixed|luong) seed [12]: BLEU short .*, mixed .* \(\d+ s\)$"
VARIABLE = ("seconds", "sentences_per_second", "folder", "jobs", "threads", "date", "conditions")


def leaderboard(folder: Path) -> object:
    """A leaderboard without times and other figures that vary."""

    def constant(part: object) -> object:
        if isinstance(part, dict):
            return {key: constant(value) for key, value in part.items() if key not in VARIABLE}
        return [constant(item) for item in part] if isinstance(part, list) else part

    return constant(json.loads((folder / "runs/sweep/leaderboard.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def finished_sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = home(tmp_path_factory.mktemp("swept"))
    return folder, invoke_in(folder, "sweep", "sweep.yaml")


def test_a_sweep(finished_sweep: tuple[Path, Done]) -> None:
    folder, done = finished_sweep
    assert sorted(results(folder)) == ["fixed/seed-1", "luong/seed-1"]
    assert done.out == (folder / "runs/sweep/leaderboard.md").read_text(encoding="utf-8")
    assert "| **fixed** (baseline) |" in done.out
    (row,) = re.findall(r"^\| luong .*$", done.out, re.MULTILINE)
    assert len(re.findall(r"\((one seed|below BLEU 1)\)", row)) == 2 and not re.search("[▲▼=]", row)
    assert len(re.findall(RESULT, done.err, re.MULTILINE)) == 2
    assert done.err.count("bpe, 300 entries") == 1  # the text is prepared once


@pytest.mark.parametrize("name", ["leaderboard.md", "report.json", "trials/fixed/seed-1/notes.txt"])
def test_files_of_others_are_not_replaced(invoke: Invoke, tmp_path: Path, name: str) -> None:
    mine = home(tmp_path) / "runs/sweep" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")
    for options in ([], ["--leaderboard"]) if name == "leaderboard.md" else ([],):
        error = invoke("sweep", "sweep.yaml", *options, code=2).err
        assert error.splitlines()[-1].endswith("; give another `folder`") and "runs/sweep" in error
    assert mine.read_text(encoding="utf-8") == "mine"


def test_the_leaderboard_of_a_sweep_that_has_not_begun_does_not_stop_it(invoke: Invoke, tmp_path: Path) -> None:
    home(tmp_path)
    for _ in range(2):
        assert "Not finished: fixed seed 1, luong seed 1." in invoke("sweep", "sweep.yaml", "--leaderboard").out
    with lock_sweep(tmp_path / "runs/sweep"):
        pass


def test_a_run_equals_those_of_train_and_evaluate(
    finished_sweep: tuple[Path, Done], invoke: Invoke, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished_sweep[0] / "runs/sweep/trials/luong/seed-1", tmp_path / "run"))
    record, written = (json.loads((run / name).read_text("utf-8")) for name in ("result.json", "evaluation/short.json"))
    report = json.loads(invoke("evaluate", run, "--json").out)
    assert (written["model"], written["search"]) == (report["model"], report["search"])
    assert len(report["model"]["checkpoints"]) == 1
    for name in ("short", "mixed"):
        scores = report["sets"][name]["scores"]
        assert scores == record["sets"][name]["scores"]
        assert [score["name"] for score in scores] == ["BLEU", "exact match", "paper_bleu"]
        assert all("|case:lc|" in score["signature"] for score in scores)
    training, last = record["training"], json.loads((run / "metrics.jsonl").read_text("utf-8").splitlines()[-1])
    assert last["kind"] == "validation" and "|case:lc|" in last["signature"]
    assert (training["updates"], training["seconds"]) == (last["update"], last["seconds"])
    assert round(training["epochs"], 3) == last["epoch"]
    invoke("train", run / "config.yaml", "--set", "run_dir=own")
    assert_same(load_tensors(tmp_path / "own/model.safetensors"), load_tensors(run / "model.safetensors"))


def test_changed_configs_and_texts_are_refused_or_repeated(
    finished_sweep: tuple[Path, Done], invoke: Invoke, tmp_path: Path, failing_trainings: None
) -> None:
    shutil.copytree(finished_sweep[0], tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "runs/sweep").glob("leaderboard.*"):
        path.unlink()
    invoke("sweep", "sweep.yaml", "--leaderboard")
    assert leaderboard(tmp_path) == leaderboard(finished_sweep[0])
    changed = SWEEP.replace("kind: luong, dim: 16", "kind: luong, dim: 8")
    (tmp_path / "sweep.yaml").write_text(changed, encoding="utf-8")
    before = results(tmp_path)
    assert invoke("sweep", "sweep.yaml", code=2).err == (
        "error: runs/sweep: holds trainings of another config or text: luong seed 1 (model);"
        " repeat them by --redo, or give another `folder`\n"
    )
    listed = re.findall(
        r"^(fixed|luong) +[\d,]+ +(\S+) +(.*)$", invoke("sweep", "sweep.yaml", "--dry-run").out, re.MULTILINE
    )
    assert listed == [("fixed", "1/1", "baseline"), ("luong", "0/1", "1 of another config")]
    write_lines(tmp_path / "text/short.de", ["rot"] * 20)
    assert "fixed seed 1 (test sets)" in invoke("sweep", "sweep.yaml", code=2).err
    unused = invoke("sweep", "sweep.yaml", "--leaderboard", "--redo", code=2).err
    assert unused == "error: --redo has no effect with --leaderboard, which trains nothing\n"
    message = invoke("sweep", "sweep.yaml", "--leaderboard", code=2).err
    assert "fixed/seed-1: the text of the test set `short` has changed" in message
    assert results(tmp_path) == before
    done = invoke("sweep", "sweep.yaml", "--redo", code=1)
    assert "luong seed 1: training again, changed: test sets, model" in done.err
    assert "fixed seed 1: evaluating again, changed: test sets" in done.err
    trials = Path("runs/sweep/trials")
    assert results(tmp_path) == {} and not (trials / "luong/seed-1/model.safetensors").exists()
    weights = trials / "fixed/seed-1/model.safetensors"
    train_run = weights.stat().st_mtime_ns
    record = run_trial(weights.parent, 1)
    assert weights.stat().st_mtime_ns == train_run
    assert record.sets["short"].digests.source == text_digest(["rot"] * 20)


def test_a_search_that_validations_have_is_trained_again(
    finished_sweep: tuple[Path, Done], invoke: Invoke, tmp_path: Path, failing_trainings: None
) -> None:
    shutil.copytree(finished_sweep[0], tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "runs/sweep/trials/fixed/seed-1/model.safetensors"
    for size, work, note in (("null", "evaluating", ""), ("3", "training", r" \(the search of validations, too\)")):
        search = f"changes.search={{kind: beam, beam_size: 2, no_repeat_ngram_size: {size}}}"
        done = invoke("sweep", "sweep.yaml", "--redo", "--set", search, code=1)
        assert re.search(f"^fixed seed 1: {work} again, changed: search{note}$", done.err, re.MULTILINE)
        assert weights.exists() == (work == "evaluating")


def test_failed_trainings_are_reported_and_data_are_prepared_for_each_tokenizer(
    invoke: Invoke, tmp_path: Path, failing_trainings: None
) -> None:
    axis = "axes={size: {at: tokenizer.joint.vocab_size, choices: {small: 290, large: 300}}}"
    home(tmp_path)
    changes = axis, "trials=[{model: fixed, size: [small, large]}]", "baseline={size: small}"
    done = invoke("sweep", "sweep.yaml", *(part for change in changes for part in ("--set", change)), code=1)
    assert re.search(
        r"^fixed\+small seed 1: FAILED, exit code 2: error: no space \(.*sweep.log\)$", done.err, re.MULTILINE
    )
    assert "2 trainings failed:" in done.err
    assert "Not finished: fixed+small seed 1, fixed+large seed 1." in done.out
    for name, size in (("fixed+small", 290), ("fixed+large", 300)):
        prepared = load_prepared(Path("runs/sweep/trials") / name / "seed-1")
        assert len(prepared.target.vocabulary) == size


@pytest.mark.slow
def test_a_sweep_and_its_trainings_end_when_another_takes_its_place(
    finished_sweep: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished_sweep[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    plan = load_plan(Path("sweep.yaml"))
    folder, (run, *_) = plan.sweep.folder, plan.runs
    stdin, _ = os.pipe()
    with lock_sweep(folder) as lock:
        folder.rename("runs/before")
        shutil.copytree("runs/before", folder)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        works: list[Callable[[], object]] = [
            lambda: write_leaderboard(plan, print),
            lambda: run_sweep(plan, 1, lock, print, redo=True) or write_trial(run, {}),
            lambda: next(run_all([run], 1, lock)),
        ]
        for work in works:
            with pytest.raises(RunError, match=f"{folder}: was removed or replaced while"):
                work()
        worker = [sys.executable, "-m", "seq2attn.sweep.worker", run.folder, "1", str(lock)]
        done = subprocess.run(worker, stdin=stdin, pass_fds=[lock], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and f"error: {tmp_path / folder}: was removed or replaced" in done.stderr
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("failing", ["fixed", "luong"])
def test_one_failure_of_several_trainings_is_a_failure(
    finished_sweep: tuple[Path, Done], invoke: Invoke, tmp_path: Path, failing_trainings: None, failing: str
) -> None:
    """Also if the others, before or after it, are finished."""
    shutil.copytree(finished_sweep[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / f"runs/sweep/trials/{failing}/seed-1/result.json").unlink()
    done = invoke("sweep", "sweep.yaml", code=1)
    assert f"1 training failed:\n  {failing} seed 1: " in done.err
    assert f"Not finished: {failing} seed 1." in done.out


def test_a_dry_run_trains_nothing(invoke: Invoke, tmp_path: Path) -> None:
    home(tmp_path)
    output = invoke("sweep", "sweep.yaml", "--dry-run").out
    assert re.search(r"^fixed +[\d,]+ +0/1 +baseline$", output, re.MULTILINE)
    assert "--leaderboard has no effect" in invoke("sweep", "sweep.yaml", "--dry-run", "--leaderboard", code=2).err
    assert not (tmp_path / "runs").exists()


def test_the_example_of_set_is_a_key_of_a_sweep(invoke: Invoke, tmp_path: Path) -> None:
    home(tmp_path)
    helps = [" ".join(invoke(name, "--help").out.split()) for name in ("sweep", "reproduce")]
    ((example,),) = {tuple(re.findall(r"e\.g\. --set (\S+)\. Repeatable", text)) for text in helps}
    output = invoke("sweep", "sweep.yaml", "--dry-run", "--set", example).out
    assert re.search(r"^fixed .* baseline$", output, re.MULTILINE)


@pytest.mark.slow
def test_a_killed_sweep_resumes(tmp_path: Path) -> None:
    whole, folder = home(tmp_path / "whole", LONG), home(tmp_path / "killed", LONG)
    invoke_in(whole, "sweep", "sweep.yaml")
    sweep = start(folder)
    # During the second training, after a checkpoint.
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
    assert leaderboard(folder) == leaderboard(whole)
    if "luong/seed-1" not in before:  # the kill may have come late
        log = (folder / "runs/sweep/trials/luong/seed-1/sweep.log").read_text(encoding="utf-8")
        assert "after update" in log
    assert len(re.findall(RESULT, done.err, re.MULTILINE)) == 4 - len(before)
    assert f"{len(before)} trainings finished, {4 - len(before)} to go" in done.err


@pytest.mark.slow
def test_trainings_end_with_the_sweep(invoke: Invoke, tmp_path: Path) -> None:
    folder = home(tmp_path, LONG.replace("12 updates", "100000 updates"))
    sweep = start(folder, "--jobs", "2")
    try:
        wait_for("seed-1/checkpoints/*/train_state.json", folder)
        assert len(workers(folder)) == 2
        assert f"runs/sweep: is in use by process {sweep.pid} on " in invoke("sweep", "sweep.yaml", code=2).err
        sweep.send_signal(signal.SIGINT)
        _, error = sweep.communicate()
        assert sweep.returncode == 130, error
        assert error.decode().endswith("interrupted\n")
        assert workers(folder) == []
        sweep = start(folder, "--jobs", "2")
        (log,) = folder.rglob("luong/seed-1/sweep.log")
        assert wait_until(lambda: "target tokens/s" in log.read_text("utf-8"))
        sweep.kill()
        sweep.communicate()
        assert wait_until(lambda: workers(folder) == [])
        assert "stopped by SIGTERM after update" in log.read_text("utf-8")
    finally:
        sweep.kill()  # it would start the next trainings
        sweep.wait()
        for process in workers(folder):
            os.kill(process, signal.SIGKILL)

"""Batches, progress, commands and processes of the benchmarks."""

import collections
import itertools
import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from benchmark import command, process, searching, systems
from benchmark.process import Process, wait_until_idle
from benchmark.programs import batches, plain
from benchmark.setting import MODELS, TRANSFORMERS, Setting, UnavailableError
from benchmark.systems import Progress
from benchmark.training import Timing, sum_intervals

from tests.support.benchmarks import setting as setting

ROOT = Path(__file__).resolve().parents[3]


def test_batches_have_every_pair_once_within_the_budget():
    sizes = torch.randint(1, 12, (200, 2), generator=torch.Generator().manual_seed(0)).tolist()
    pairs = [([number] * s, [number] * t) for number, (s, t) in enumerate(sizes, 4)]
    output = batches.make_batches(pairs, 60, seed=3)
    assert sorted(pair for batch in output for pair in batch) == sorted(pairs)
    assert all(len(batch) * (1 + max(len(side) for pair in batch for side in pair)) <= 60 for batch in output)
    assert output != batches.make_batches(pairs, 60, seed=4)


def test_disturbed_intervals_do_not_count():
    points = [(at, Progress(update, tokens)) for at, update, tokens in ((10, 2, 100), (12, 4, 300), (15, 6, 360))]
    whole = sum_intervals(points, lambda start, end: True)
    assert (whole.num_tokens, whole.updates, whole.seconds, whole.disturbed) == (260, 4, 5, 0)
    assert whole.rate == 52
    part = sum_intervals(points, lambda start, end: start != 12)
    assert (part.num_tokens, part.updates, part.seconds, part.disturbed) == (200, 2, 2, 3)


CPUTimes = collections.namedtuple("CPUTimes", ("user", "idle"))


def test_a_disturbed_translation_is_no_figure(setting, tmp_path, monkeypatch):
    translating = systems.Translating(["sleep", "0.3"], tmp_path / "out")
    translator = searching.Translator(systems.Ours(setting), translating, translating, 1)
    used = itertools.count(0, 10)  # seconds of other processes
    monkeypatch.setattr(psutil, "cpu_times", lambda: CPUTimes(next(used), 0.0))
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 0.0)
    monkeypatch.setattr(process, "SAMPLE", 0.05)
    with pytest.raises(searching.FailedError, match="disturbed by other processes in 4 runs"):
        translator.measure(Timing(1, 1.0, 1.0, busy_ok=False), setting)
    translator.measure(Timing(1, 1.0, 1.0, busy_ok=True), setting)
    assert len(translator.wholes) == 1


def test_a_busy_machine_is_named(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 100.0)
    with pytest.raises(UnavailableError, match="the CPUs were busy for 0 s"):
        wait_until_idle(limit=0.0)


class FailingSystem(systems.System):
    def fitted(self, model):
        return Path("nowhere")

    def fit(self, model):
        return [sys.executable, "-c", f"raise SystemExit({model})"]


@pytest.mark.parametrize("status", ["0", "3"])
def test_a_training_that_fails_is_no_success(setting, status):
    call = command.Call(setting, (FailingSystem(setting),), systems.Ours(setting), ("0", status), (), Timing())
    assert command.fit(call) == (status == "0")


OURS = "2026-11-21 20:41:00 epoch 0.66  update 4  loss 6.214  ppl 415.92  7,940 target tokens/s"


def test_progress_in_all_logs(tmp_path):
    assert systems.loop_progress("PROGRESS 4 14000 8.123") == Progress(4, 14000)
    assert systems.loop_progress("PROGRESS 20 14000 8.123 gpu 900") == Progress(20, 14000, 900)
    assert systems.loop_progress("parameters 14000") is None
    metrics = tmp_path / "metrics.jsonl"
    entries = [{"kind": "train", "update": n, "target_tokens": 950.0 * n} for n in (2, 4, 6)]
    metrics.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    assert systems.run_progress(OURS, metrics) == Progress(4, num_tokens=3800)
    metrics.write_text(json.dumps({**entries[1], "gpu_memory_mib": 700}) + "\n", "utf-8")
    assert systems.run_progress(OURS, metrics) == Progress(4, num_tokens=3800, gpu_memory_mib=700)
    assert systems.run_progress("train: kept 9,000 of 9,000 pairs", metrics) is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("model", MODELS)
def test_plain_models_ignore_padding(model):
    torch.manual_seed(0)
    net = plain.build_model(model).eval()
    source, target = [[5, 9, 4], [7, 700, 7000, 77, 4]], [[1, 8, 9], [1, 8, 10]]
    with torch.no_grad():
        both = net(batches.pad(source), batches.pad(target))
        alone = net(batches.pad(source[:1]), batches.pad(target[:1]))
    assert both.shape == (2, 3, 8000)
    assert both.std() > 0.01
    torch.testing.assert_close(both[:1], alone, rtol=1e-4, atol=1e-5)
    if model in TRANSFORMERS:  # all tensors are on one device
        ids = batches.pad(source).to("meta")
        assert net.train().to("meta")(ids, ids[:, :3]).shape == (2, 3, 8000)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("name", ["ours", *systems.PEERS, *systems.ENGINES])
def test_commands_of_all_systems(name, gpu, tmp_path):
    system = {"ours": systems.Ours, **systems.PEERS, **systems.ENGINES}[name](Setting(tmp_path, tmp_path, gpu=gpu))
    for model in (*MODELS, "transformer-base"):
        commands = system.translations(model, 5, tmp_path / "few.de", tmp_path / "few.txt")
        trainings = system.trainings(model)
        assert bool(trainings) == (name in ("ours", "plain") or (name == "hf" and model in TRANSFORMERS))
        assert len({one.output for one in commands}) == len(commands)
        assert ["--precision" in one.command for one in commands] == (
            ([False, True] if gpu and name == "ours" else [False])
            if name not in systems.PEERS and (model in TRANSFORMERS or "ctranslate2" not in name)
            else []
        )
        for line in [one.command for one in (*commands, *trainings)] + [system.fit(model)]:
            assert all(isinstance(part, str) for part in line)


def test_a_process_is_paused_with_its_children(tmp_path):
    process = Process(["sh", "-c", "sleep 999 & echo 1; wait"], tmp_path / "log", os.environ)
    try:
        while not process.lines:
            assert not process.has_ended
        leader = psutil.Process(process.popen.pid)
        tree = [leader, *leader.children(recursive=True)]
        assert len(tree) == 2
        process.pause()
        assert {_wait_for_status(part, psutil.STATUS_STOPPED) for part in tree} == {psutil.STATUS_STOPPED}
        process.resume()
        assert _wait_for_status(leader, psutil.STATUS_SLEEPING) == psutil.STATUS_SLEEPING
        while not process.peak:
            assert not process.has_ended
    finally:
        process.end()
    assert process.has_ended
    assert [line.text for line in process.lines] == ["1"]


def _wait_for_status(process, status):
    for _ in range(1000):
        if process.status() == status:
            break
        time.sleep(0.01)
    return process.status()

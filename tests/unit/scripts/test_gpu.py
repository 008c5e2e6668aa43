"""`scripts/gpu.sh`: its commands exist, end in time, and its measurements run on the CPU."""

import itertools
import json
import os
import shlex
import subprocess
from pathlib import Path

import gpu_measurements as gpu
import pytest
import torch
from benchmark.command import _parser as bench_parser
from benchmark.machine import gpu as gpu_versions
from benchmark.records import Book, Record
from benchmark.tables import table
from typer.testing import CliRunner

import seq2attn
from seq2attn.cli import app
from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.search import captured_step
from seq2attn.sweep.plan import load_plan
from tests.support.untrained_runs import untrained_run

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = ROOT / "scripts" / "gpu.sh"
CALLS = ["short", "short-search", "correctness", "laws", "counts", "training", "search", "results"]


def run_script(*arguments):
    return subprocess.run(["bash", SCRIPT, *arguments], capture_output=True, text=True, check=False, cwd="/")


def commands(call):
    """The limit in seconds and the arguments after `python` of each command of a call."""
    done = run_script(call, "--dry-run")
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        limit, _, command = line.removeprefix("== ").partition(" s: ")
        yield int(limit), shlex.split(command)[1:]


def overrides(arguments):
    return [value for option, value in itertools.pairwise(arguments) if option == "--set"]


@pytest.mark.parametrize("call", CALLS)
def test_each_command_has_known_options_and_files(call, pytestconfig):
    limits, listed = zip(*commands(call), strict=True)
    assert sum(limits) <= 570
    for command in listed:
        for part in command:
            if "/" in part and "=" not in part and not part.startswith(("runs/", "build/", "data/multi30k")):
                assert (ROOT / part).exists(), part
            if part.endswith(".yaml") and "sweep" not in command:
                load(ROOT / part, ExperimentConfig, overrides(command))
        match command:
            case ["scripts/bench.py", *arguments]:
                options = bench_parser().parse_args(arguments)
                assert options.gpu and load(options.configs / f"{options.model}.yaml", ExperimentConfig, options.set)
            case ["scripts/gpu_measurements.py", *arguments]:
                gpu.argument_parser().parse_args(arguments)
            case ["-m", "pytest", *arguments]:
                pytestconfig._parser.parse(arguments)
            case ["-m", "seq2attn", "sweep", config, *_]:
                assert load_plan(ROOT / config, overrides(command)).trials
            case ["-czf", archive, *_]:
                assert archive == "runs/gpu/results.tgz"
            case ["-m", "seq2attn", *arguments]:
                result = CliRunner().invoke(app, [*arguments, "--help"])
                assert result.exit_code == 0, result.output
            case _:
                pytest.fail(f"unknown command: {command}")


@pytest.mark.parametrize("arguments", [(), ("all",), ("laws", "--dry"), ("laws", "--dry-run", "more")])
def test_another_call_is_refused(arguments):
    done = run_script(*arguments)
    assert done.returncode == 2 and "usage: scripts/gpu.sh" in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_no_test_is_taken_for_passed(tmp_path):
    environment = os.environ | {"OUT": str(tmp_path)}
    done = subprocess.run(["bash", SCRIPT, "correctness"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "there is no GPU" in done.stdout and "pytest" not in done.stdout
    assert "there is no GPU" in (tmp_path / "correctness.log").read_text("utf-8")


@pytest.mark.filterwarnings("ignore:the model does not know")
def test_search_is_measured_without_a_gpu(tmp_path, monkeypatch):
    run = untrained_run(tmp_path).folder
    captures, capture = [], captured_step.capture
    monkeypatch.setattr(captured_step, "capture", lambda *args: captures.append(args) or capture(*args))
    gpu.measure_search(run, tmp_path / "lines.txt", tmp_path / "search.json", 1, [64])
    figures = json.loads((tmp_path / "search.json").read_text("utf-8"))["figures"]
    names = "native float32", "native bfloat16", "native bfloat16 with CUDA graphs"
    assert {(f["case"], f["beam"], f.get("batch_tokens")) for f in figures} == {
        *itertools.product(names, (1, 5), (None, 64))
    }
    assert captures
    captures.clear()
    seq2attn.load(tmp_path / "run").translate("Das Haus ist alt.")
    assert not captures
    assert all(f.get("sentences_per_s", 1) > 0 and f.get("latency_ms", 1) > 0 for f in figures)


def test_the_gpu_and_its_driver_are_below_a_table(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 580.1'\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    versions = gpu_versions()
    assert (versions["name"], versions["driver"]) == ("NVIDIA H200", "580.1")
    assert {"CUDA", "cuDNN"} < versions.keys()
    facts = dict.fromkeys(("processor", "cores", "threads", "commit", "python", "date", "command"), "x")
    record = Record("search", "t", "", "ours", "seq2attn", unit="sentences/s", rounds=(1.0,))
    book = Book().with_call([record], {**facts, "gpu": versions, "versions": {}})
    assert "NVIDIA H200, driver 580.1, CUDA " in table(book, "search", "t", "")
    program.write_text("#!/bin/sh\nexit 9\n", "utf-8")
    assert gpu_versions() == {}

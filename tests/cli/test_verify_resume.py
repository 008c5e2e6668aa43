"""`seq2attn verify-resume`, and the comparison of runs."""

import re
import signal
import tempfile
from pathlib import Path

import pytest
import yaml

from seq2attn.diagnostics.verify_resume import compare_runs
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.support.commands import ROOT, command, invoke_in, run_process
from tests.support.processes import Command
from tests.support.trainings import BAHDANAU, MODELS, PLAIN, assert_identical, content, trained


@pytest.mark.slow
def test_a_small_model_is_verified(corpus, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(corpus))
    config = corpus / "small.yaml"
    ends_early = {
        "time_limit": "1 second",
        "optimizer": {"kind": "sgd", "lr": 1e-12},
        "validation": {"patience": 1, "metric": "exact"},
    }
    config.write_text(yaml.safe_dump(content(corpus, "small", model=MODELS["hard"], **ends_early)))
    done = invoke_in(corpus, "verify-resume", config, "--updates", 12)
    _, *rows, _, result = done.out.splitlines()
    assert len(rows) == 8 and all("  identical  " in row for row in rows)
    assert result.startswith("identical, on this machine")
    assert "SIGTERM after update" in done.err and "SIGKILL after update" in done.err
    assert not list(corpus.glob("seq2attn-*"))


@pytest.mark.slow
def test_sigterm_ends_its_training_too(corpus, tmp_path):
    config = corpus / "small.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "small", max_duration=["1 hour"])))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {"TMPDIR": str(temporary)}
    words = ("verify-resume", config, "--updates", "100000")
    running = Command(*words, log=tmp_path / "log", environment=environment)
    assert running.until(lambda: any(temporary.glob("seq2attn-*/straight/metrics.jsonl"))), running.output()
    running.send(signal.SIGTERM)
    assert running.wait() == 143
    assert not [*temporary.glob("seq2attn-*")]
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.is_dir())
    assert not any(str(temporary).encode() in line for line in commands)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_first_differences_are_named(corpus):
    one, other = (trained(corpus, name, **PLAIN) for name in ("one", "other"))
    assert_identical(one, other)
    newest = list_checkpoints(other.folder)[-1]
    changed = {}
    for path, change in ((newest.model_path, 0.25), (newest.optimizer_path, 0.5)):
        tensors = load_tensors(path)
        changed[path] = sorted(tensors)[-1]
        tensors[changed[path]] = tensors[changed[path]] + change
        path.unlink()  # it may be mapped into memory
        save_tensors(tensors, path)
    edit((other.folder / "metrics.jsonl"), '"update": 4, ', '"update": 5, ')
    edit(other.folder / "train.log", "validation at update 3: loss ", "validation at update 3: loss 1")
    edit(other.folder / "samples.txt", "== update 3", "== update 4")
    differences = {row.name: row.difference for row in compare_runs(one, other) if not row.is_identical}
    assert [*differences] == ["weights", "optimizer", "metrics", "log", "samples"]
    assert differences["weights"].startswith(f"update 13: {changed[newest.model_path]}: ")
    assert differences["weights"].endswith(" numbers differ, by up to 0.25")
    assert differences["optimizer"].startswith(f"{changed[newest.optimizer_path]}: ")
    assert '"update": 5, ' in differences["metrics"].split("\n  but: ")[1]
    assert "validation at update 3: loss 1" in differences["log"]
    assert differences["samples"] == "line 1: == update 3\n  but: == update 4"


def test_times_and_memory_are_not_compared(corpus):
    one, other = (trained(corpus, name, **PLAIN) for name in ("one", "other"))
    for number, run in enumerate((one, other)):
        edit(
            run.folder / "metrics.jsonl",
            '"seconds": ',
            f'"gpu_memory_mib": {number}, "gpu_reserved_mib": {number}, "seconds": ',
        )
    assert_identical(one, other)


def test_another_duration_differs(corpus):
    one, other = (trained(corpus, f"{n}", **{**PLAIN, "max_duration": [f"{n} updates"]}) for n in (12, 13))
    differing = {row.name for row in compare_runs(one, other) if not row.is_identical}
    assert differing >= {"weights", "optimizer", "training state", "metrics", "log", "weights that translate"}


@pytest.mark.slow
def test_a_model_that_does_not_resume_exactly_fails(corpus):
    model = {**BAHDANAU, "encoder": {"kind": "tests.support.faults:Forgetful"}}
    config = corpus / "small.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "small", model=model)))
    done = run_process(corpus, command("verify-resume", config, "--updates", 80))
    assert done.code == 1 and "NOT identical" in done.out, done.err
    assert re.search(r"^weights: update \d+: .* numbers differ, by up to", done.out, re.MULTILINE)
    assert re.search(r"^metrics: line \d+: \{.*\n  but: \{", done.out, re.MULTILINE)


FAMILIES = [
    f"attention/{name}.yaml" for name in ("03-luong", "04-local", "07-hard", "11-convolutional", "12-transformer")
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["phrasebook.yaml", *FAMILIES])
def test_every_family_of_decoders_is_verified(name, tmp_path):
    done = run_process(tmp_path, command("verify-resume", ROOT / "configs" / name, "--updates", 12))
    assert done.code == 0, done.out + done.err

"""`seq2attn speedrun`: the record of a training to a target, and its replay."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import load_config
from seq2attn.inference import search_options
from seq2attn.io.weights import load_tensors, tensors_digest
from seq2attn.sweep.speedrun import describe_environment, speedrun
from tests.support.commands import ROOT, Done, invoke_in, run_process, write_toy

SMALL = ("--set", "training.validation.every=4 updates", "--set", "training.optimizer.lr=0.05")
RECORD = Path("runs/toy/record.json")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("speedrun")
    write_toy(folder)
    return folder, invoke_in(folder, "speedrun", "toy.yaml", "--target", "1", *SMALL)


@pytest.fixture
def home(finished: tuple[Path, Done], tmp_path: Path) -> Path:
    """The text and the record of a speedrun, without its run."""
    for name in ("toy.yaml", "text"):
        (shutil.copytree if name == "text" else shutil.copy)(finished[0] / name, tmp_path / name)
    (tmp_path / RECORD).parent.mkdir(parents=True)
    shutil.copy(finished[0] / RECORD, tmp_path / RECORD)
    return tmp_path


def read(folder: Path) -> Any:
    return json.loads((folder / RECORD).read_text(encoding="utf-8"))


def change(folder: Path, **parts: Any) -> None:
    (folder / RECORD).write_text(json.dumps(read(folder) | parts), encoding="utf-8")


def test_the_record_is_that_of_the_run(finished: tuple[Path, Done]) -> None:
    folder, done = finished
    record, run = read(folder), folder / "runs/toy"
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    names = ("update", "seconds", "target_tokens", "loss", "bleu")
    assert record["curve"] == [{name: x[name] for name in names} for x in lines if x["kind"] == "validation"]
    tokens = {line["update"]: line["target_tokens"] for line in lines if line["kind"] == "train"}
    assert all(tokens[point["update"]] == point["target_tokens"] for point in record["curve"])
    assert [point["bleu"] >= 1 for point in record["curve"]] == [False] * (len(record["curve"]) - 1) + [True]
    assert (record["target"], record["is_reached"]) == (1, True) and record["cpu_seconds"] > 0
    assert record["weights"] == tensors_digest(load_tensors(run / "model.safetensors"), {})
    for file, digest in record["texts"].items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == digest
    assert [*record["texts"]] == [f"text/{name}.{side}" for name in ("train", "dev") for side in ("de", "en")]
    reports = {name: json.loads((run / f"evaluation/{name}.json").read_text()) for name in ("short", "mixed")}
    assert record["test"] == {name: report["scores"][0] for name, report in reports.items()}
    assert "auto" not in json.dumps(record["config"]["training"]["batch"]) and str(folder) not in json.dumps(record)
    commit = run_process(ROOT, ["git", "rev-parse", "HEAD"]).out.strip()
    here = record["environment"]
    assert here["commit"].removesuffix("+") == commit and here["torch"] == torch.__version__
    assert here["threads"] == torch.get_num_threads() and " cores" in here["machine"]
    assert "(`training.validation.target`)" in done.err
    end = f"target 1 reached after {record['curve'][-1]['seconds']:.1f} s; record: {RECORD}"
    assert done.err.splitlines()[-1] == end


def test_a_replay_is_equal_up_to_the_weights(home: Path) -> None:
    """And without the limit of the time of another machine."""
    config = read(home)["config"]
    config["training"]["time_limit"] = "0.001 seconds"
    change(home, config=config)
    assert invoke_in(home, "speedrun", "--verify", RECORD).out == "equal\n"
    assert [path.name for path in (home / "runs/toy").iterdir()] == ["record.json"]


def test_a_replay_is_as_long_as_its_record(home: Path) -> None:
    """Also where scores that do not improve would end it."""
    *others, last = read(home)["curve"]
    config = read(home)["config"]
    config["training"]["validation"]["patience"] = 1
    change(home, config=config, curve=[*others, last | {"update": 48}])
    out = invoke_in(home, "speedrun", "--verify", RECORD, code=1).out.splitlines()
    assert f"validations: {len(others) + 1}, now 12" in out


def test_what_differs_in_a_replay_is_named(home: Path) -> None:
    record = read(home)
    first, *others = record["curve"]
    change(home, weights="0" * 64, curve=[first | {"bleu": first["bleu"] + 0.1}, *others, others[-1]])
    out = invoke_in(home, "speedrun", "--verify", RECORD, code=1).out.splitlines()
    assert out[0] == "DIFFERENT" and len(out) == 4
    assert out[1] == f"weights: {'0' * 64}, now {record['weights']}"
    assert out[2] == f"validations: {len(others) + 2}, now {len(others) + 1}"
    assert out[3] == f"bleu at update {first['update']}: {first['bleu'] + 0.1:.8g}, now {first['bleu']:.8g}"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert describe_environment(torch.device("cpu"))["commit"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_environment(torch.device("cpu"))["commit"] is None
    git = tmp_path / "git"  # that refuses the folder of another user
    git.write_text("#!/bin/sh\nexit 128\n", encoding="utf-8")
    git.chmod(0o755)
    assert describe_environment(torch.device("cpu"))["commit"] is None


@pytest.mark.slow
def test_under_other_conditions_the_curve_counts(home: Path) -> None:
    record = read(home)
    *others, last = record["curve"]
    environment = record["environment"] | {"threads": 99}
    for added, verdict in ((0.04, "equal"), (0.06, "DIFFERENT")):
        changed = {"curve": [*others, last | {"loss": last["loss"] + added}], "weights": "0" * 64}
        change(home, **changed, environment=environment)
        out = invoke_in(home, "speedrun", "--verify", RECORD, code=int(added > 0.05)).out.splitlines()
        assert out[0] == verdict and "threads: 99, now" in out[-1] and len(out) == 2 + (added > 0.05)


def test_other_text_is_refused_before_any_training(home: Path) -> None:
    with (home / "text/dev.en").open("a", encoding="utf-8") as file:
        file.write("\n")
    message = invoke_in(home, "speedrun", "--verify", RECORD, code=2).err
    assert message.startswith("error: text/dev.en: is another text than that of the record (SHA-256 ")
    (home / "text/dev.en").unlink()
    message = invoke_in(home, "speedrun", "--verify", RECORD, code=2).err
    assert message == "error: text/dev.en: cannot be read (No such file or directory)\n"


def test_a_target_that_is_not_reached_is_recorded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the scores of a search that the user's own config has, and that a run of others would have to confirm."""
    monkeypatch.setattr(search_options, "MAX_SEARCH_TOKENS", 1)
    limits = ("--set", "training.max_duration=[2 updates]", "--set", "run_dir=runs/short")
    done = invoke_in(home, "speedrun", "toy.yaml", "--target", "99", *limits, "-o", "-", code=1)
    record = json.loads(done.out)
    assert [*record["test"]] == ["short", "mixed"]
    assert not record["is_reached"] and [point["update"] for point in record["curve"]] == [2]
    assert done.err.splitlines()[-1].startswith("target 99 NOT REACHED after ")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([], "`training.validation` of a speedrun needs a `target`"),
        (["training.validation={target: 20, metric: chrf}"], "`training.validation` of a speedrun needs a `target`"),
        (["training.validation={target: 20, every: 1 minute}"], "and `every` in updates or epochs"),
        (
            ["training.validation.target=20", "evaluation.metrics=[chrf]"],
            "`evaluation.metrics` of a speedrun needs `bleu`",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(home: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        speedrun(load_config(home / "toy.yaml", overrides))


def test_a_speedrun_has_one_process_and_no_interruption(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = "--target", "1", "--set", "training.time_limit=0.001 seconds", "--set", "run_dir=runs/stopped"
    done = invoke_in(home, "speedrun", "toy.yaml", *stopped, code=75)
    assert "a speedrun is not resumed" in done.err and not (home / "runs/stopped/record.json").exists()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "start it without torchrun" in invoke_in(home, "speedrun", "toy.yaml", "--target", "1", code=2).err


@pytest.mark.parametrize("content", ["{}", '{"curve": []}', "[]", "no JSON"])
def test_other_files_are_no_records(home: Path, content: str) -> None:
    (home / RECORD).write_text(content, encoding="utf-8")
    assert "take a record of `seq2attn speedrun`" in invoke_in(home, "speedrun", "--verify", RECORD, code=2).err


@pytest.mark.slow
def test_the_phrasebook_is_learned_and_replayed(tmp_path: Path) -> None:
    for name in ("configs", "data/phrasebook"):
        shutil.copytree(ROOT / name, tmp_path / name)
    small = (
        "model.encoder.dim=64",
        "model.decoder.dim=64",
        "training.validation={every: 20 updates, max_sentences: 50}",
    )
    options = [word for setting in small for word in ("--set", setting)]
    invoke_in(tmp_path, "speedrun", "configs/phrasebook.yaml", "--target", "0.1", *options, "-o", "record.json")
    assert invoke_in(tmp_path, "speedrun", "--verify", "record.json").out == "equal\n"

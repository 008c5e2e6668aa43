"""`seq2attn align` and guided training, from the command line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from seq2attn.config.load import load
from seq2attn.experiment import ExperimentConfig
from seq2attn.training.train import train
from tests.cli.conftest import CONFIG, ROOT, Invoke, write_lines, write_toy
from tests.cli.test_readme import commands, copy_checkout

SETS = ("train", "dev", "short", "mixed")


def write_aligned_toy(folder: Path) -> None:
    """The toy with targets from behind, so that links cross, and with its links."""
    config = re.sub(r"(train|dev)\.en}", r"\1.en, alignment: text/\1.align}", CONFIG)
    write_toy(folder, config.replace("max_duration: [200 updates]", "max_duration: [100 updates]"))
    for name in SETS:
        path = folder / "text" / f"{name}.en"
        lines = [line.split()[::-1] for line in path.read_text(encoding="utf-8").splitlines()]
        write_lines(path, [" ".join(line) for line in lines])
        links = [[f"{len(line) - 1 - t}-{t}" for t in range(len(line))] for line in lines]
        write_lines(folder / "text" / f"{name}.align", [" ".join(line) for line in links])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings of one config, one of them guided."""
    folder = tmp_path_factory.mktemp("plain")
    write_aligned_toy(folder)
    for run, *more in (("toy",), ("guided", "training.guided_alignment.weight=1")):
        train(load(folder / "toy.yaml", ExperimentConfig, [f"run_dir={folder / 'runs' / run}", *more]))
    return folder


def files(home: Path, name: str) -> tuple[str, ...]:
    return "--source", str(home / f"text/{name}.de"), "--target", str(home / f"text/{name}.en")


def error_rate(said: str) -> float:
    """The AER that is said at the end."""
    return float(said.split("AER ")[1].strip().rstrip("%"))


def test_guided_attention_aligns_better(invoke: Invoke, home: Path) -> None:
    rates = {}
    for run in ("toy", "guided"):
        gold = str(home / "text/dev.align")
        done = invoke("align", home / "runs" / run, *files(home, "dev"), "--gold", gold)
        assert len(done.out.splitlines()) == 12
        rates[run] = error_rate(done.err)
    assert rates["guided"] < min(rates["toy"], 20)
    lines = (home / "runs/guided/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    metrics = [json.loads(line) for line in lines]
    assert all("guided_alignment_loss" in line for line in metrics if line["kind"] == "train")


def test_as_many_lines_come_out_as_go_in(invoke: Invoke, home: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "s", ["rot haus", "", "boot", "  ", "alt neu und", "rot"])
    write_lines(tmp_path / "t", ["house red", "red", "", "", "and new old", "red red"])
    done = invoke("align", home / "runs/guided", "--source", tmp_path / "s", "--target", tmp_path / "t")
    assert done.out == "1-0 0-1\n\n\n\n2-0 1-1 0-2\n0-0 0-1\n"
    assert done.err == "links by head 1 of layer 1, output step (the guided one)\n"
    written = invoke(
        "align",
        home / "runs/guided",
        "--source",
        tmp_path / "s",
        "--target",
        tmp_path / "t",
        "-o",
        tmp_path / "a",
    )
    assert written.out == ""
    assert (tmp_path / "a").read_text(encoding="utf-8") == done.out


def test_a_head_is_chosen_and_kept(invoke: Invoke, home: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(home / "runs/toy", tmp_path / "run"))
    before = invoke("align", run, *files(home, "short"))
    assert "links by head 1 of layer 1, output step (none was chosen;" in before.err
    chosen = invoke("align", run, "--select-head")
    head, *rows = chosen.out.splitlines()
    assert head == "layer  head  step    precision  recall    AER"
    assert [row.split()[2] for row in rows] in (["output", "input"], ["input", "output"])
    record = json.loads((run / "alignment.json").read_text(encoding="utf-8"))
    assert (record["layer"], record["head"], record["step"]) == (1, 1, rows[0].split()[2])
    assert f"{100 * record['error_rate']:.1f}%" == rows[0].split()[-1]
    gold = ("--gold", str(home / "text/dev.align"))
    after = invoke("align", run, *files(home, "dev"), *gold)
    assert f"links by head 1 of layer 1, {record['step']} step (as chosen)" in after.err
    assert error_rate(after.err) == pytest.approx(100 * record["error_rate"], abs=0.051)
    assert invoke("align", run, "--select-head", *files(home, "dev"), *gold).out == chosen.out


# ---------------------------------------------------------------------- mistakes


@pytest.fixture
def wrong(invoke: Invoke, home: Path):
    """What is said about a mistake of `align`."""

    def said(*arguments: object) -> str:
        done = invoke("align", *arguments, code=2)
        assert done.out == ""
        return done.err

    return said


def test_what_does_not_go_together(wrong, home: Path, tmp_path: Path) -> None:
    run = home / "runs/toy"
    assert wrong(run) == "error: give --source and --target\n"
    assert wrong(run, "--source", "a") == "error: give --source and --target together\n"
    assert wrong(run, "--gold", "a") == "error: give --source and --target together\n"
    assert wrong(run, "--select-head", "-o", "a").startswith("error: --select-head writes no links")
    assert wrong(run, "--select-head", *files(home, "dev")).endswith("needs gold alignments: give --gold too\n")
    assert wrong(tmp_path, *files(home, "dev")).startswith(f"error: {tmp_path}: is no run directory")
    config = (run / "config.yaml").read_text(encoding="utf-8")
    (tmp_path / "config.yaml").write_text(config.replace("dev.align", "none").replace(" alignment:", " #"))
    shutil.copy(run / "run.json", tmp_path)
    assert "(the run's `data.dev` has no `alignment`)" in wrong(tmp_path, "--select-head")


def test_text_that_does_not_go_together(wrong, home: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "s", ["rot", "rot haus"])
    write_lines(tmp_path / "t", ["red", "house red"])
    write_lines(tmp_path / "one", ["red"])
    write_lines(tmp_path / "bad", ["0-0", "1-0 2-1"])
    run = home / "runs/toy"
    assert wrong(run, "--source", "s", "--target", "one").startswith(
        f"error: {tmp_path}/s has 2 lines and {tmp_path}/one has 1 line: "
    )
    assert wrong(run, "--source", "s", "--target", "t", "--gold", "bad") == (
        f"error: {tmp_path}/bad:2: the link `2-1` points at word 2 of the source, which has 2 words, counted from 0\n"
    )
    assert wrong(run, "--source", "s", "--target", "none") == f"error: {tmp_path}/none: there is no such file\n"


def test_a_record_of_another_model(wrong, home: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(home / "runs/toy", tmp_path / "run"))
    record = {"layer": 2, "head": 1, "step": "output"}
    (run / "alignment.json").write_text(json.dumps(record), encoding="utf-8")
    assert wrong(run, *files(home, "dev")).startswith(
        f"error: {run}/alignment.json: the model has no head 1 of layer 2, output step; select again"
    )


def test_a_model_without_attention(wrong, home: Path, tmp_path: Path) -> None:
    run = tmp_path / "fixed"
    fixed = [
        "model.decoder={kind: fixed-context, dim: 32}",
        "training.max_duration=[1 update]",
        f"run_dir={run}",
    ]
    train(load(home / "toy.yaml", ExperimentConfig, fixed))
    said = wrong(run, *files(home, "dev"))
    assert said == f"error: {run}: the model has no attention, so it aligns nothing\n"


def test_bad_links_stop_training_before_it_starts(invoke: Invoke, tmp_path: Path) -> None:
    write_aligned_toy(tmp_path)
    path = tmp_path / "text/train.align"
    lines = path.read_text(encoding="utf-8").splitlines()
    write_lines(path, [*lines[:-1], "0-77"])
    said = invoke("train", "toy.yaml", code=2).err
    assert f"error: {path}:120: the link `0-77` points at word 77 of the target" in said
    assert not (tmp_path / "runs/toy/model.safetensors").exists()
    assert not (tmp_path / "runs/toy/source").exists()


def test_every_command_of_the_page_runs(invoke: Invoke, tmp_path: Path) -> None:
    copy_checkout(tmp_path)
    said = commands("docs/alignment.md")
    assert [command.split()[1] for command in said] == ["train", "align", "align", "align"]
    for command in said:
        few = ("--set", "training.max_duration=[5 updates]") if " train " in command else ()
        done = invoke(*shlex.split(command)[1:], *few)
        assert "--select-head" not in command or done.out.startswith("layer  head")
    assert len((tmp_path / "runs/test.align").read_text(encoding="utf-8").splitlines()) == 40


def test_the_config_of_the_page_is_the_one_it_trains() -> None:
    page = (ROOT / "docs/alignment.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    config = yaml.safe_load((ROOT / "configs/phrasebook-guided.yaml").read_text(encoding="utf-8"))
    shown = yaml.safe_load(block)
    assert shown["data"]["train"] == config["data"]["train"]
    assert (shown["extends"], shown["training"]) == (config["extends"], config["training"])

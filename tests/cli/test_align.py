"""`seq2attn align` and guided training, from the command line."""

import json
import re
import shutil
from pathlib import Path

import pytest

import seq2attn
from seq2attn.config.load import load
from seq2attn.evaluation import aligner
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.training.train import train
from tests.support.commands import CONFIG, Invoke, toy_pairs, write_lines, write_toy
from tests.support.untrained_runs import untrained_run

ALIGNED = re.sub(r"(train|dev)\.en}", r"\1.en, alignment: text/\1.align}", CONFIG)
SMALL = ("training.max_duration=[60 updates]", "training.optimizer.lr=0.02", "model.embeddings.dim=16",
         "model.encoder.dim=16", "model.decoder.dim=16")  # fmt: skip


def write_aligned_toy(folder: Path) -> None:
    pairs = {name: [(a, " ".join(b.split()[::-1])) for a, b in pairs] for name, pairs in toy_pairs().items()}
    write_toy(folder, ALIGNED, pairs)
    for name, sentences in pairs.items():
        lengths = [len(source.split()) for source, _ in sentences]
        links = [" ".join(f"{length - 1 - place}-{place}" for place in range(length)) for length in lengths]
        write_lines(folder / f"text/{name}.align", links)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings of one config, one of them guided."""
    folder = tmp_path_factory.mktemp("plain")
    write_aligned_toy(folder)
    for run, *more in (("toy",), ("guided", "training.guided_alignment.weight=1")):
        train(load(folder / "toy.yaml", ExperimentConfig, [*SMALL, f"run_dir={folder / 'runs' / run}", *more]))
    return folder


def files(home: Path, name: str) -> tuple[str, ...]:
    return "--source", str(home / f"text/{name}.de"), "--target", str(home / f"text/{name}.en")


def error_rate(err: str) -> float:
    return float(err.split("AER ")[1].strip().rstrip("%"))


def test_guided_attention_aligns_better(invoke: Invoke, home: Path) -> None:
    rates = {}
    for run in ("toy", "guided"):
        gold = str(home / "text/dev.align")
        done = invoke("align", home / "runs" / run, *files(home, "dev"), "--gold", gold)
        assert len(done.out.splitlines()) == 12
        rates[run] = error_rate(done.err)
    assert rates["guided"] < min(rates["toy"], 20)
    metrics = map(json.loads, (home / "runs/guided/metrics.jsonl").read_text(encoding="utf-8").splitlines())
    assert all("guided_alignment_loss" in record for record in metrics if record["kind"] == "train")


def test_one_line_per_pair(invoke: Invoke, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligner, "PAIRS_PER_CHUNK", 4)
    write_lines(tmp_path / "s", ["rot haus", "", "boot", "  ", "alt neu und", "rot"])
    write_lines(tmp_path / "t", ["house red", "red", "", "", "and new old", "red red"])
    arguments = "align", home / "runs/guided", "--source", tmp_path / "s", "--target", tmp_path / "t"
    done = invoke(*arguments)
    assert done.out == "1-0 0-1\n\n\n\n2-0 1-1 0-2\n0-0 0-1\n"
    assert done.err == "links come from head 1 of layer 1, output step (guided)\n"
    assert invoke(*arguments, "-o", tmp_path / "a").out == ""
    assert (tmp_path / "a").read_text(encoding="utf-8") == done.out


def test_a_head_is_selected_and_saved(invoke: Invoke, home: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(home / "runs/toy", tmp_path / "run"))
    before = invoke("align", run, *files(home, "short"))
    assert "links come from head 1 of layer 1, output step (default;" in before.err
    selection = invoke("align", run, "--select-head")
    head, *rows = selection.out.splitlines()
    assert head == "layer  head  step    precision  recall    AER"
    assert [row.split()[2] for row in rows] in (["output", "input"], ["input", "output"])
    record = json.loads((run / "alignment.json").read_text(encoding="utf-8"))
    assert (record["layer"], record["head"], record["step"]) == (1, 1, rows[0].split()[2])
    assert f"{100 * record['error_rate']:.1f}%" == rows[0].split()[-1]
    gold = ("--gold", str(home / "text/dev.align"))
    after = invoke("align", run, *files(home, "dev"), *gold)
    assert f"links come from head 1 of layer 1, {record['step']} step (selected)" in after.err
    assert error_rate(after.err) == pytest.approx(100 * record["error_rate"], abs=0.051)
    assert invoke("align", run, "--select-head", *files(home, "dev"), *gold).out == selection.out


def test_a_selection_for_another_model(mistake, home: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(home / "runs/toy", tmp_path / "run"))
    (run / "alignment.json").write_text('{"layer": 2, "head": 1, "step": "output"}', encoding="utf-8")
    assert mistake("align", run, *files(home, "dev")).startswith(
        f"error: {run}/alignment.json: the model has no head 1 of layer 2, output step; select again"
    )


def test_links_are_those_of_the_attention(invoke: Invoke, tmp_path: Path) -> None:
    run, pair = (
        untrained_run(tmp_path).folder,
        ("a few words are not many of which", "there are many words few are not"),
    )
    for name, line in zip("st", pair, strict=True):
        write_lines(tmp_path / name, [line])
    weights = seq2attn.load(run).attention_weights(*pair).cross_attention
    links = " ".join(f"{source}-{word}" for word, source in enumerate(weights[0, 0, :-1, :-1].argmax(1)))
    assert invoke("align", run, "--source", "s", "--target", "t").out == links + "\n"


def test_a_pair_without_tokens_has_no_links(invoke: Invoke, tmp_path: Path) -> None:
    """As an empty line; `\u2581` is a space."""
    run = untrained_run(tmp_path).folder
    for line in ("", "\u2581"):
        write_lines(tmp_path / "s", [line])
        write_lines(tmp_path / "t", ["a"])
        assert invoke("align", run, "--source", "s", "--target", "t").out == "\n"

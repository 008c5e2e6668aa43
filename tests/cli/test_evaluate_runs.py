"""`seq2attn evaluate` of several runs: one table on the test sets of all, and the significance of differences."""

from __future__ import annotations

import json
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import Invoke
from tests.safe.untrained import CONFIG, LINES, TRANSFORMER_CONFIG, untrained

TEXT = [*LINES, "few words of many", "there are words which are not many"] * 4


def two_runs(folder: Path) -> tuple[RunDirectory, RunDirectory]:
    """Runs with the test sets `ours`, which is the same text, and `theirs`."""
    (folder / "text").write_text("".join(line + "\n" for line in TEXT), encoding="utf-8")
    test = f"{{kind: plain, source: {folder}/text, target: {folder}/text}}"
    config = CONFIG.replace("ours: {kind: plain, source: lines.txt, target: lines.txt}", f"ours: {test}")
    before = untrained(folder, config)
    after = untrained(folder / "other", TRANSFORMER_CONFIG.replace("ours: {kind", f"ours: {test}\n    theirs: {{kind"))
    text = after.config_path.read_text(encoding="utf-8")
    after.config_path.write_text(text.replace("  metrics: null\n", "  metrics: [chrf]\n"), encoding="utf-8")
    return before, after


def test_a_table_and_reports_of_both_runs(invoke: Invoke, tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    done = invoke("evaluate", "run", "other/run", "--metric", "bleu", "--metric", "chrf", "--greedy")
    table, _, ours, theirs, speeds, differences = done.out.split("\n\n")
    labels = [f"{name} {run}" for name in ("ours", "theirs") for run in ("run", "other/run")]
    assert [line.rsplit(maxsplit=2)[0].strip() for line in table.splitlines()[1:]] == labels
    assert ours.splitlines()[0].split() == ["words", "sentences", *" ".join(labels[:2]).split()]
    assert theirs.splitlines()[0].split()[2:] == " ".join(labels[2:]).split()
    assert [line.partition(":")[0] for line in speeds.splitlines()] == labels
    both = json.loads(invoke("evaluate", "run", "other/run", "--metric", "bleu", "--json", "--greedy").out)
    assert list(both) == ["run", "other/run"]
    translations = []
    for run, name in ((before, "run"), (after, "other/run")):
        for test, content in both[name]["sets"].items():
            report = json.loads((run.folder / "evaluation" / f"{test}.json").read_text(encoding="utf-8"))
            assert report["scores"] == content["scores"] and len(content["scores"]) == 1
        row = next(line for line in table.splitlines() if line.startswith(f"ours {name} "))
        assert row.split()[-2] == f"{both[name]['sets']['ours']['scores'][0]['value']:.2f}"
        translations.append((run.folder / "evaluation/ours.txt").read_text(encoding="utf-8").splitlines())
    named = [("baseline", translations[0]), ("system", translations[1])]
    _, scores = PairedTest(named, {"BLEU": BLEU()}, [TEXT], test_type="bs", n_samples=1000)()
    one, other = scores["BLEU"]
    line = (
        f"ours: other/run {other.score - one.score:+.2f} BLEU against run, p = {other.p_value:.3f} (paired bootstrap)"
    )
    assert differences.splitlines()[0] == line and differences.splitlines()[1].startswith("theirs: other/run ")
    assert "paired" in invoke("evaluate", "run", "other/run").out  # with the metrics of the first
    assert "paired" not in invoke("evaluate", "run", "other/run", "--metric", "chrf").out


def test_mistakes(invoke: Invoke, tmp_path: Path) -> None:
    untrained(tmp_path), untrained(tmp_path / "other")
    message = "the runs have different test sets with the name `ours`; give --source and --reference"
    assert message in invoke("evaluate", "run", "other/run", code=2).err
    assert not (tmp_path / "run" / "evaluation").exists()
    assert "give one RUN_DIR" in invoke("evaluate", "run", "other/run", "--ensemble", "run", code=2).err
    files = ["--source", "lines.txt", "--reference", "lines.txt"]
    assert "lines.txt other/run" in invoke("evaluate", "run", "other/run", *files).out

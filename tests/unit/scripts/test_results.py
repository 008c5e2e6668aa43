"""`scripts/results.py`: each row has the scores of its run."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import results

from seq2attn.evaluation.evaluate import Digests, TestSetResult, write_reports
from seq2attn.evaluation.metrics import Score
from seq2attn.search.config import BeamConfig
from tests.safe.untrained import untrained


def result_of(bleu: float) -> TestSetResult:
    return TestSetResult("test", Digests("", ()), 1, (Score("BLEU", bleu, "a signature"),), (), 1.0, 1, (), None, ())


def test_runs_of_one_name_have_their_own_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"small/seed-1": 10.0, "large/seed-1": 20.0}
    for name, bleu in names.items():
        run = untrained(tmp_path / name)
        (run.folder / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "seconds": 60}) + "\n", encoding="utf-8")
        write_reports(run, run.weights_origin(), [result_of(bleu)], BeamConfig(kind="beam"), "")
    monkeypatch.setattr(sys, "argv", ["results.py", *(str(tmp_path / name / "run") for name in names)])
    results.main()
    rows = [[cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.split("\n")]
    assert {row[1]: row[-2] for row in rows[2:4]} == {f"{name}/run": f"{bleu:.2f}" for name, bleu in names.items()}


def test_scores_of_other_weights_do_not_count(tmp_path: Path) -> None:
    run = untrained(tmp_path)
    write_reports(run, {**run.weights_origin(), "updates": 9}, [result_of(1.0)], BeamConfig(kind="beam"), "")
    with pytest.raises(SystemExit, match="run: not evaluated with the weights that it has now: seq2attn evaluate"):
        results.reports_of(run.folder)
    other = replace(result_of(2.0), name="other")  # `evaluate RUN` does not repeat a set that the config does not have
    write_reports(run, run.weights_origin(), [other], BeamConfig(kind="beam"), "")
    assert [*results.reports_of(run.folder)] == ["other"]

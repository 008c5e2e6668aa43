"""`scripts/results.py`: each row has the scores of its run."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import results

from seq2attn.evaluation.evaluate import Digests, SetResult, write_report
from seq2attn.metrics.sacrebleu_metrics import Score
from seq2attn.search.search_config import BeamConfig
from tests.support.untrained_runs import untrained_run


def result_of(bleu: float, source: str = "") -> SetResult:
    return SetResult("test", Digests(source, ()), 1, (Score("BLEU", bleu, "a signature"),), (), 1.0, 1, (), None, ())


def test_runs_of_one_name_have_their_own_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"small/seed-1": 10.0, "large/seed-1": 20.0}
    runs = {name: untrained_run(tmp_path / name) for name in names}
    for run in runs.values():
        (run.folder / "metrics.jsonl").write_text(json.dumps({"epoch": 1, "seconds": 60}) + "\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["results.py", *(str(run.folder) for run in runs.values())])
    for beam_sizes in ((5, 5), (5, 4)):
        for (name, run), beam_size in zip(runs.items(), beam_sizes, strict=True):
            search = BeamConfig(beam_size=beam_size)
            write_report(run, run.weights_origin(), result_of(names[name]), search, "")
        results.main()
        out = capsys.readouterr().out
        rows = [[cell.strip() for cell in line.split("|")] for line in out.split("\n")]
        assert {row[1]: row[-2] for row in rows[2:4]} == {f"{name}/run": f"{bleu:.2f}" for name, bleu in names.items()}
        assert ("Settings of search or engine differ" in out) == (len({*beam_sizes}) > 1)
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--test", "tset"])
    with pytest.raises(SystemExit):
        results.main()
    assert "--test tset: the test sets of all runs are test\n" in capsys.readouterr().err
    write_report(run, run.weights_origin(), result_of(1.0, "another text"), search, "")
    with pytest.raises(SystemExit):
        results.main()
    assert "`test` is another text in some runs" in capsys.readouterr().err


def test_scores_of_other_weights_do_not_count(tmp_path: Path) -> None:
    run = untrained_run(tmp_path)
    write_report(run, {**run.weights_origin(), "updates": 9}, result_of(1.0), BeamConfig(), "")
    with pytest.raises(SystemExit, match="run: no BLEU of the weights that it has now: seq2attn evaluate"):
        results.reports_of(run.folder)
    other = replace(result_of(2.0), name="other")  # `evaluate RUN` does not repeat a set that the config does not have
    write_report(run, run.weights_origin(), other, BeamConfig(), "")
    assert [*results.reports_of(run.folder)] == ["other"]
    without = replace(result_of(3.0), name="more", scores=(Score("chrF2", 3.0, "a signature"),))
    write_report(run, run.weights_origin(), without, BeamConfig(), "")
    assert [*results.reports_of(run.folder)] == ["other"]

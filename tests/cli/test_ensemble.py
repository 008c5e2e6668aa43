"""`--ensemble` of `seq2attn translate` and `evaluate`, and `seq2attn.load(..., ensemble=...)`."""

from __future__ import annotations

import json
from pathlib import Path

from seq2attn import load
from tests.cli.conftest import Invoke
from tests.safe.untrained import LINES, TRANSFORMER_CONFIG, untrained

TEXT = "".join(line + "\n" for line in LINES).encode()


def test_runs_are_combined(invoke: Invoke, tmp_path: Path) -> None:
    run, other = untrained(tmp_path), untrained(tmp_path / "other", TRANSFORMER_CONFIG)
    alone, same = (invoke("translate", run.folder, *options, given=TEXT).out for options in ([], ["--ensemble", "run"]))
    assert alone == same
    options = ["--ensemble", other.folder, "--ensemble", run.folder]
    both = json.loads(invoke("translate", run.folder, LINES[0], *options, "--json").out)
    translator = load(run.folder, ensemble=[other.folder, run.folder])
    assert (translator.translate(LINES[0]).log_prob, repr(translator).count("rs on cpu")) == (both["log_prob"], 3)
    assert both["log_prob"] != load(run.folder).translate(LINES[0]).log_prob
    invoke("evaluate", run.folder, *options, "--precision", "bfloat16")
    report = json.loads((run.folder / "evaluation/ensemble/ours.json").read_text(encoding="utf-8"))
    members = [str(each.folder) for each in (run, other, run)]
    assert [member["run_dir"] for member in report["model"]["ensemble"]] == members
    assert report["engine"] == "native bfloat16"
    translations = (run.folder / "evaluation/ensemble/ours.txt").read_text(encoding="utf-8").splitlines()
    assert translations[0] == both["text"]
    assert not (run.folder / "evaluation/ours.json").exists()


def test_mistakes(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained(tmp_path).folder
    shorter = untrained(tmp_path / "shorter", words=["a", "few"]).folder
    tagged = untrained(tmp_path / "tagged", tags=("<2en>",)).folder
    expected = {
        shorter: f"cannot be in an ensemble with {run}, which has another target vocabulary."
        f" {shorter}/target/vocabulary.json: is not the vocabulary expected: 6 entries, expected 13; the first"
        " difference is entry 5: 'few', expected 'are'",
        tagged: f"cannot be in an ensemble with {run}, which has other tags: none, not <2en>",
    }
    for other, message in expected.items():
        for command in (["translate", run, "a"], ["evaluate", run]):
            assert invoke(*command, "--ensemble", other, code=2).err == f"error: {other}: {message}\n"
    command = "translate", run, "a", "--ensemble", run
    assert "an ensemble has no attention weights" in invoke(*command, "--attention", "-", code=2).err
    assert "native engine, not by `ctranslate2`" in invoke(*command, "--engine", "ctranslate2", code=2).err

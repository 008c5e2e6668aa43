"""Decoding methods of `seq2attn translate` and `evaluate`, as a user gives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import Invoke
from tests.safe.untrained import TRANSFORMER_CONFIG, untrained

GIVEN = b"a few words\n\nnot many\n"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained(tmp_path, TRANSFORMER_CONFIG)


def test_minimum_bayes_risk(invoke: Invoke, run: RunDirectory) -> None:
    same = "--set", "search={kind: sample, num_samples: 9, mbr: true, lengths: {max_length: 9}}"
    command = "translate", run.folder, "--json", "--n-best", "9"
    outs = [invoke(*command, *options, given=GIVEN).out for options in (["--mbr", "9"], same)]
    assert outs[0] == outs[1]
    best, empty, _ = map(json.loads, outs[0].splitlines())
    scores = [one["score"] for one in (best, *best["alternatives"])]
    assert scores == sorted(scores, reverse=True) and 0 < scores[0] < 100
    assert empty["text"] == ""
    invoke("evaluate", run.folder, "--mbr", "9", "--ensemble", run.folder)
    report = json.loads((run.folder / "evaluation/ensemble/ours.json").read_text(encoding="utf-8"))
    assert (report["search"]["kind"], report["search"]["num_samples"], report["search"]["mbr"]) == ("sample", 9, True)
    for other in (["--greedy"], ["--beam", "3"]):
        assert f"{other[0]} and --mbr exclude each other" in invoke(*command, "--mbr", "9", *other, code=2).err

"""A training that goes wrong, as its user sees it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Invoke, write_toy


def test_a_rate_beyond_reason_is_told_and_not_learnt(invoke: Invoke, tmp_path: Path) -> None:
    write_toy(tmp_path)
    done = invoke("train", "toy.yaml", "--set", "training.optimizer.rate=1e6", code=2)
    last = done.err[done.err.index("training has diverged: at update ") :]
    assert "at a learning rate of 125000" in last and "It went back 3 times" in last
    report = json.loads((tmp_path / "runs/toy/divergence.json").read_text(encoding="utf-8"))
    for pair in report["pairs"][:5]:
        assert f"{pair['place']} ({pair['tokens']} tokens)" in last
    path, _, line = report["pairs"][0]["place"].rpartition(":")
    assert Path(path).read_text(encoding="utf-8").split("\n")[int(line) - 1] == report["pairs"][0]["source"]
    assert "Traceback" not in done.err
    done = invoke("train", "toy.yaml", "--resume", "auto")  # with the rate of its config
    assert "validation at update 200: " in (tmp_path / "runs/toy/train.log").read_text(encoding="utf-8")


def test_a_rate_that_is_no_rate_has_a_place(invoke: Invoke, tmp_path: Path) -> None:
    write_toy(tmp_path)
    done = invoke("train", "toy.yaml", "--set", "training.optimizer.rate=1e300", code=2)
    assert "training.optimizer.rate" in done.err

"""The commands of docs/export.md run, and print the tables of the page."""

from __future__ import annotations

import pytest

from tests.cli.test_readme import ROOT, commands, home, run, short

__all__ = ["home"]  # a fixture
PAGE = "docs/export.md"
ENOUGH = ("--set", "training.max_duration=[500 updates]")  # so that sentences do not end by chance


@pytest.mark.slow
def test_every_command_runs(home):
    outputs = {command: run(command, home, *(ENOUGH if short(command) else ())) for command in commands(PAGE)}
    assert len(outputs) == 5
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    for command, out in outputs.items():
        if " export " in command:
            assert out.splitlines()[0].split() in [line.split() for line in page.splitlines()]
            assert (out.splitlines()[1].startswith("greedy") and "100.00%" in out) or "int8" in command

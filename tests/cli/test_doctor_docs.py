"""What docs/doctor.md shows runs, and is what is said."""

from __future__ import annotations

import pytest

from seq2attn.diagnostics.run_checks import CHECKS
from tests.cli.test_readme import ROOT, commands, home, run, short

__all__ = ["home"]  # a fixture
PAGE = "docs/doctor.md"


@pytest.mark.slow
def test_every_command_runs(home):
    said = {command: run(command, home, *short(command)) for command in commands(PAGE)}
    (examined,) = (out for command, out in said.items() if command.startswith("seq2attn doctor"))
    shown = [row.split()[:2] for row in (ROOT / PAGE).read_text(encoding="utf-8").splitlines()]
    assert all(row.split()[:2] in shown for row in examined.split("\n\n")[0].splitlines())
    assert " FAIL " not in examined


def test_every_check_is_told_of():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    for check in CHECKS:
        assert f"\n{check} " in page and f"| {check} |" in page

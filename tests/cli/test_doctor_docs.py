"""The commands of docs/doctor.md run, and print the table of the page."""

from __future__ import annotations

import pytest

from seq2attn.diagnostics.run_checks import CHECKS
from tests.cli.test_readme import ROOT, commands, home, run, short

__all__ = ["home"]  # a fixture
PAGE = "docs/doctor.md"


@pytest.mark.slow
def test_every_command_runs(home):
    outputs = {command: run(command, home, *short(command)) for command in commands(PAGE)}
    (table,) = (out for command, out in outputs.items() if command.startswith("seq2attn doctor"))
    printed = [row.split()[:2] for row in (ROOT / PAGE).read_text(encoding="utf-8").splitlines()]
    assert all(row.split()[:2] in printed for row in table.split("\n\n")[0].splitlines())
    assert " FAIL " not in table


def test_every_check_is_on_the_page():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    for check in CHECKS:
        assert f"\n{check} " in page and f"| {check} |" in page

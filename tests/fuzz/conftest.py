"""How many cases were tried is told at the end."""

from __future__ import annotations

from typing import Any

from tests.fuzz.fuzzed import CASES, SEED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if CASES:
        each = ", ".join(f"{area} {count:,}" for area, count in sorted(CASES.items()))
        terminalreporter.write_line(
            f"fuzz: {sum(CASES.values()):,} cases: {each} (seed of the slow ones: {SEED})"
        )

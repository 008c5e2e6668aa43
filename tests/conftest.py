"""What all tests share."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

# Drawn once, for the processes that share the tests.
os.environ.setdefault("FUZZ_SEED", str(random.SystemRandom().randrange(10**9)))
TRIED = "fuzzed cases of "
"""Before an area, in what a test tells for the summary: how many cases of it were tried."""


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What commands remember of the user is not kept with what the user's own commands remember."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many fuzzed cases were tried is told at the end."""
    tried = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, count in report.user_properties:
                    if name.startswith(TRIED):
                        tried[name.removeprefix(TRIED)] += count
    if tried:
        each = ", ".join(f"{area} {count:,}" for area, count in sorted(tried.items()))
        seed = os.environ["FUZZ_SEED"]
        terminalreporter.write_line(f"fuzz: {tried.total():,} cases: {each} (seed of the slow ones: {seed})")

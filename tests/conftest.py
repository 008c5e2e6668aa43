"""Environment of all tests, and the number of fuzzed cases."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from typing import Any

import pytest

# Sampled once, for the processes that share the tests.
os.environ.setdefault("FUZZ_SEED", str(random.SystemRandom().randrange(10**9)))
TRIED = "fuzzed cases of "
"""Prefix of a property of a test: the area of its cases."""


def pytest_configure(config: pytest.Config) -> None:
    """Tests run on the CPU, also where there is a GPU, except with `-m cuda`."""
    if config.option.markexpr != "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # As in a terminal, also where the tests are run in the background or under nohup.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Number of fuzzed cases, at the end."""
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

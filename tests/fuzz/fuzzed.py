"""Fuzz tests in two forms: a quick one that is the same each time, and a slow one with another seed each time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.strategies import SearchStrategy
from typer.testing import CliRunner, Result

from seq2attn.cli import app, command_group
from tests.conftest import TRIED

SEED = int(os.environ["FUZZ_SEED"])  # tests/conftest.py draws it where none is given
"""Of the slow forms."""
SHARE = float(os.environ.get("FUZZ_SHARE", "1"))
"""The share of the slow cases to run."""


def fuzzed(
    area: str, case: SearchStrategy[Any], *, quick: int, slow: int
) -> Callable[[Callable[[Any, Any], None]], Any]:
    """A test that runs `check(home, case)` with cases of a strategy; `home` is the module's fixture of that name."""

    def decorate(check: Callable[[Any, Any], None]) -> Any:
        forms = [pytest.param(quick, id="quick"), pytest.param(slow, id="slow", marks=pytest.mark.slow)]

        @pytest.mark.parametrize("cases", forms)
        def test(cases: int, home: Any, record_property: Callable[[str, Any], None]) -> None:
            num_cases = 0

            def counted(one: Any) -> None:
                nonlocal num_cases
                num_cases += 1
                check(home, one)

            counted.__qualname__ = check.__qualname__  # hypothesis seeds by the name
            is_quick = cases == quick
            limits = settings(
                max_examples=cases if is_quick else max(1, int(cases * SHARE)),
                derandomize=is_quick,
                database=None,
                deadline=None,
                print_blob=False,
                verbosity=Verbosity.normal,
                phases=(Phase.explicit, Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            run = limits(given(case)(counted))
            try:
                (run if is_quick else seed(SEED)(run))()
            finally:
                record_property(TRIED + area, num_cases)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def command(name: str, *arguments: object, stdin: bytes = b"") -> Result:
    """`seq2attn NAME` with `arguments`, in this process.

    Only this command is built, since building all takes longer than running one.
    """
    functions = {one.name or one.callback.__name__: one for one in app.registered_commands if one.callback}
    words = [*map(str, arguments)]
    if name not in functions:
        return CliRunner().invoke(app, [name, *words], input=stdin, prog_name="seq2attn")
    alone = command_group("One command.")
    alone.registered_commands.append(functions[name])
    return CliRunner().invoke(alone, words, input=stdin, prog_name="seq2attn")

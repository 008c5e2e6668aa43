"""Fuzz tests in two forms: a quick one that is the same each time, and a slow one with other cases each time."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy
from typer.testing import CliRunner, Result

from seq2attn.cli import app


def fuzz(case: SearchStrategy[Any], *, quick: int, slow: int) -> Callable[[Callable[[Any, Any], None]], Any]:
    """A test that runs `check(home, case)` with cases of a strategy; `home` is the module's fixture of that name."""

    def decorate(check: Callable[[Any, Any], None]) -> Any:
        forms = [pytest.param(quick, id="quick"), pytest.param(slow, id="slow", marks=pytest.mark.slow)]

        @pytest.mark.parametrize("cases", forms)
        def test(cases: int, home: Any) -> None:
            def one(case: Any) -> None:
                check(home, case)

            one.__qualname__ = check.__qualname__  # from which Hypothesis derives a constant seed
            limits = settings(
                max_examples=cases,
                derandomize=cases == quick,
                database=None,
                deadline=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            limits(given(case)(one))()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def command(name: str, *arguments: object, stdin: bytes = b"") -> Result:
    """`seq2attn NAME` with `arguments`, in this process."""
    return CliRunner().invoke(app, [name, *map(str, arguments)], input=stdin, prog_name="seq2attn")

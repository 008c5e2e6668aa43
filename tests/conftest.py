"""Environment of all tests."""

import functools
import gc
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import typer.main

# The parsers of all commands are built once: that takes longer than most commands.
typer.main.get_command = functools.cache(typer.main.get_command)


def pytest_configure(config: pytest.Config) -> None:
    """Tests run on the CPU, also where there is a GPU, except with `-m cuda`, and compute with one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"  # rounding, which decides a near tie, depends on the number of threads
    if config.option.markexpr != "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    hypothesis.settings.register_profile("quick", max_examples=40)  # other ones each time
    hypothesis.settings.load_profile("quick")
    # As in a terminal, also where the tests are run in the background or under nohup.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end, so the garbage collector need not look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """The same random weights each time: a test that fails, fails again."""
    import torch  # after `pytest_configure`

    # Without a GPU, `torch.manual_seed` keeps the stack trace of each call, which takes longer than many a test.
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seed(0)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with a small text; the translation reverses the words."""
    from tests.support.trainings import write_corpus  # after `pytest_configure`

    return write_corpus(tmp_path)


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`seq2attn` in this process and an own folder."""
    from tests.support.commands import invoke_in  # after `pytest_configure`

    monkeypatch.chdir(tmp_path)
    return functools.partial(invoke_in, tmp_path)

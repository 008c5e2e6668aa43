"""`seq2attn translate --prefix` and `--prefix-file`, as a user gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import Invoke
from tests.safe.untrained import untrained

GIVEN = b"a few words\n\nnot many\n"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained(tmp_path)


@pytest.mark.parametrize("search", [["--greedy"], ["--beam", "2"], ["--set", "search={kind: sample}"]])
def test_one_for_all_lines(invoke: Invoke, run: RunDirectory, search: list[str]) -> None:
    out = invoke("translate", run.folder, "--prefix", "of which", *search, given=GIVEN).out.split("\n")
    assert [line[:8] for line in out] == ["of which", "", "of which", ""]


def test_one_for_each_line(invoke: Invoke, run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "prefixes").write_text("there are\nof\n\n", encoding="utf-8")
    free = invoke("translate", run.folder, given=GIVEN).out.split("\n")
    out = invoke("translate", run.folder, "--prefix-file", "prefixes", given=GIVEN).out.split("\n")
    assert out[0].startswith("there are") and out[1:] == ["", free[2], ""]
    # The line whose attention is drawn is a separate batch.
    invoke("translate", run.folder, "--prefix-file", "prefixes", "--attention", "-", "-o", "out", given=GIVEN)
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n") == out


@pytest.mark.parametrize(
    ("prefixes", "said"),
    [
        ("a\nof\n", "prefixes: has 2 lines and the input has more"),
        ("a\nof\n\na\n", "prefixes: has 4 lines and the input has 3"),
        ("a\nof strange\n\n", "prefixes:2: no translation can begin with 'of strange'"),
    ],
)
def test_mistakes(invoke: Invoke, run: RunDirectory, tmp_path: Path, prefixes: str, said: str) -> None:
    (tmp_path / "prefixes").write_text(prefixes, encoding="utf-8")
    (tmp_path / "out").write_text("before", encoding="utf-8")
    command = ("translate", run.folder, "--prefix-file", "prefixes", "-o", "out")
    assert said in invoke(*command, given=GIVEN, code=2).err
    assert (tmp_path / "out").read_text() == "before" and not list(tmp_path.glob("*.partial"))
    assert "exclude each other" in invoke(*command, "--prefix", "a", given=GIVEN, code=2).err

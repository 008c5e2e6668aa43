"""An output replaces what an earlier call of the same command wrote, and nothing else unless `--overwrite` is given."""

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seq2attn.io.outputs import text_output
from tests.support.commands import ENVIRONMENT, invoke_in
from tests.support.untrained_runs import CONFIG, untrained_run

pytestmark = pytest.mark.filterwarnings("ignore:.*the translation has the maximum length")
FILES = "--source", "lines.txt", "--target", "lines.txt"
COMMANDS: dict[str, list[object]] = {
    "translate": ["translate", "run", "a few words", "-o"],
    "translate (compressed)": ["translate", "run", "a few words", "-o"],
    "translate (page)": ["translate", "run", "a few words", "--attention"],
    "score": ["score", "run", *FILES, "-o"],
    "align": ["align", "run", *FILES, "-o"],
    "evaluate": ["evaluate", "run", "--plot"],
    "compare": ["compare", "run", "other/run", "--html"],
    "config schema": ["config", "schema", "-o"],
}
SUFFIXES = {"translate (compressed)": ".gz", "translate (page)": ".html", "evaluate": ".svg"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("overwrite")
    untrained_run(home)
    untrained_run(home / "other", CONFIG.replace("lines.txt", f"{home}/lines.txt"))
    for run in ("run", "other/run"):
        invoke_in(home, "evaluate", run)
    return home


@pytest.mark.parametrize("name", COMMANDS)
def test_only_own_outputs_are_replaced(home: Path, name: str) -> None:
    path, command = (
        home / f"{name}{SUFFIXES.get(name, '.txt')}",
        [*COMMANDS[name], f"{name}{SUFFIXES.get(name, '.txt')}"],
    )
    path.write_bytes(b"the only copy of a corpus\n")
    refused = invoke_in(home, *command, code=2)
    assert (
        f"error: {path.name}: exists, and was changed or not written by this" in refused.err
        and "--overwrite" in refused.err
    )
    assert path.read_bytes() == b"the only copy of a corpus\n" and refused.out == ""
    invoke_in(home, *command, "--overwrite")
    written, before = path.read_bytes(), path.stat()
    assert written != b"the only copy of a corpus\n" and 0 < time.time() - before.st_mtime < 60
    invoke_in(home, *command)
    assert path.stat().st_ino != before.st_ino  # replaced
    copy = path.with_name(f"copy of {path.name}")
    shutil.copy2(path, copy)  # as rsync does
    invoke_in(home, *command[:-1], copy.name)
    content = path.read_bytes()
    path.write_bytes(content[::-1])  # of the same size
    assert "was changed or not written" in invoke_in(home, *command, code=2).err
    assert path.read_bytes() == content[::-1]


def test_other_commands_and_texts_with_the_same_time_are_refused(home: Path) -> None:
    invoke_in(home, "translate", "run", "a few words", "-o", "one")
    invoke_in(home, "score", "run", *FILES, "-o", "one", code=2)
    (home / "other text").write_text("text\n", "utf-8")
    shutil.copystat(home / "one", home / "other text")
    invoke_in(home, "translate", "run", "a few words", "-o", "other text", code=2)
    assert (home / "other text").read_text("utf-8") == "text\n"


def test_what_holds_nothing_is_written(home: Path) -> None:
    (home / "empty").touch()
    (home / "link").symlink_to("empty")
    for output in ("empty", "link", "-", os.devnull):
        invoke_in(home, "translate", "run", "a few words", "-o", output)
    assert (home / "link").is_symlink() and (home / "empty").read_text("utf-8").count("\n") == 1
    (home / "target").write_text("the only copy\n", "utf-8")
    (home / "second link").symlink_to("target")
    invoke_in(home, "translate", "run", "a few words", "-o", "second link", code=2)


def test_nothing_is_lost_where_files_have_no_time_of_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refuse)
    command = "translate", "run", "a few words", "-o", "kept"
    invoke_in(home, *command)
    assert (home / "kept").read_text("utf-8").count("\n") == 1
    invoke_in(home, *command, code=2)
    invoke_in(home, *command, "--overwrite")


def test_a_synthetic_corpus_is_no_translation(home: Path) -> None:
    with text_output(home / "corpus.txt") as file:  # as `distill` writes it
        file.write("text\n")
    invoke_in(home, "translate", "run", "a few words", "-o", "corpus.txt", code=2)


@pytest.mark.slow
def test_a_shell_appends_to_standard_output(home: Path) -> None:
    command = [sys.executable, "-m", "seq2attn", "config", "schema", "-o", "/dev/stdout"]
    with (home / "appended").open("ab") as file:
        for _ in range(2):
            subprocess.run(command, stdout=file, check=True, env=ENVIRONMENT)
    content = (home / "appended").read_bytes()
    assert content and content[: len(content) // 2] == content[len(content) // 2 :]


def test_two_outputs_are_two_files(home: Path) -> None:
    (home / "same.html").symlink_to("page.html")
    for name in ("page.html", "./page.html", "same.html"):
        done = invoke_in(home, "translate", "run", "a few words", "-o", "page.html", "--attention", name, code=2)
        assert f"{name.removeprefix('./')}: is the file of the translations" in done.err

"""`seq2attn distill` and `back-translate` continue after any interruption, with the same settings only."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.lock import lock_directory
from seq2attn.models import Seq2Seq
from tests.support.commands import Invoke, Toy, write_lines
from tests.support.processes import Command
from tests.support.synthetic_corpora import DISTILL, contents, random_lines, report, small_run
from tests.support.synthetic_corpora import lines as lines
from tests.support.synthetic_corpora import small_chunks as small_chunks
from tests.support.untrained_runs import change_weights


def test_only_missing_translations_are_made(invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str]) -> None:
    """Warnings name the same lines."""
    first, whole = invoke("distill", toy.run, *DISTILL), contents(tmp_path / "out")
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/translations").iterdir()}
    assert {int(path.stem) for path in files} == {0, 9, 18, 27}
    warning = next(line for line in first.err.splitlines() if "too many tokens" in line)
    assert warning.startswith(f"warning: line {lines.index('haus ' * 300) + 1}: ")
    missing = tmp_path / "out/translations/18.jsonl"
    missing.unlink()
    assert warning in invoke("distill", toy.run, *DISTILL).err.splitlines()
    assert contents(tmp_path / "out") == whole
    assert {path for path, time in files.items() if path.stat().st_mtime_ns != time} == {missing}


Change = Callable[[Path], object]


def add_little(model: Seq2Seq) -> None:
    next(iter(model.parameters())).add_(1e-6)


CHANGES: tuple[tuple[tuple[str, ...], Change | None, str], ...] = (
    (("--beam", "3"), None, "another search; remove the folder"),
    (("--precision", "bfloat16"), None, "another engine;"),
    (("--tag", "2en"), None, "does not know the tag `2en`"),
    ((), lambda home: write_lines(home / "lines", ["alt"]), "another text;"),
    ((), lambda home: (home / "lines").write_bytes(b"a\n\xff\n"), "lines:2: byte 1 of the line (0xff) is not UTF-8"),
    ((), lambda home: (home / "lines").write_bytes(b""), "lines: is empty"),
    ((), lambda home: (home / "lines").unlink(), "lines: there is no such file"),
    ((), lambda home: (home / "out/settings.json").unlink(), "has other files, and no settings.json;"),
    ((), lambda home: (home / "out/settings.json").write_text("{"), "settings.json: is not JSON"),
    ((), lambda home: (home / "out/translations/9.jsonl").write_text("{}\n"), "9.jsonl:1: is not a pair"),
    ((), lambda home: change_weights(RunDirectory(home / "run"), add_little), "another model;"),
)


def test_files_of_others_stay(invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/movie.partial").touch()
    assert "out: has other files, and no settings.json;" in invoke("distill", toy.run, *DISTILL, code=2).err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["movie.partial"]


def test_other_settings_with_the_same_folder_are_refused(
    invoke: Invoke, run_copy: Path, tmp_path: Path, lines: list[str]
) -> None:
    invoke("distill", run_copy, *DISTILL)
    before, text = contents(tmp_path / "out"), (tmp_path / "lines").read_bytes()
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    for options, change, message in CHANGES:
        if change is not None:
            change(tmp_path)
        done = invoke("distill", run_copy, *DISTILL, *options, code=2)
        assert message in done.err and done.err.count("\n") == 1 and done.out == ""
        assert contents(tmp_path / "out") == before
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(tmp_path / "copy", tmp_path / "out")
        (tmp_path / "lines").write_bytes(text)


@pytest.mark.slow
def test_a_corpus_with_source_txt_is_complete(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted while the last files are replaced: there is no source.txt, or all files are of one corpus."""
    replace, likely, calls, last = Path.replace, ("--min-log-prob", "-0.1"), list[str](), 0
    names = ["report.json", "scores.txt", "target.txt", "source.txt"]

    def interrupt(self: Path, to: Path) -> Path:
        calls.append(to.name)
        if len(calls) == last:
            raise KeyboardInterrupt
        return replace(self, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupt)
        invoke("distill", toy.run, *DISTILL, *likely)
    assert calls == ["settings.json", *(f"{start}.jsonl" for start in range(0, 28, 9)), *names]
    whole = contents(tmp_path / "out")
    for last in range(1, 6):
        invoke("distill", toy.run, *DISTILL)
        assert contents(tmp_path / "out") != whole
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", interrupt)
            invoke("distill", toy.run, *DISTILL, *likely, code=130 if last <= 4 else 0)
        assert (tmp_path / "out/source.txt").exists() == (last == 5)
        assert not list(tmp_path.rglob("*.partial"))
    assert calls == names
    assert contents(tmp_path / "out") == whole


@pytest.mark.slow
def test_killed_at_any_time_equals_uninterrupted(tmp_path: Path, num_kills: int = 40) -> None:
    run = small_run(tmp_path)
    write_lines(tmp_path / "lines", random_lines(4096 * 2 + 9))

    def start(out: str) -> Command:
        arguments = ("back-translate", run.folder, "--target", tmp_path / "lines", "-o", tmp_path / out)
        return Command(*arguments, "--set", "search.kind=sample", "--min-log-prob", "-2.3", log=tmp_path / f"{out}.log")

    assert start("whole").wait() == 0
    whole, parts, kills, rng = contents(tmp_path / "whole"), tmp_path / "parts", 0, random.Random(1)
    counts = report(tmp_path / "whole")
    assert min(counts["unlikely"], counts["num_kept"]) > 500
    while kills < num_kills:
        running = start("parts")
        if kills % 2 == 0:
            running.until(lambda: any(parts.rglob("*.partial")))
        time.sleep(rng.random() * (0.003, 0.5)[kills % 2])
        running.send(signal.SIGKILL)
        if running.wait() == 0:
            shutil.rmtree(parts)
        kills += 1
        if (parts / "source.txt").exists():
            assert contents(parts) == whole
    assert start("parts").wait() == 0
    assert contents(parts) == whole and not list(parts.rglob("*.partial"))


def test_a_second_process_is_refused(invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str]) -> None:
    with lock_directory(tmp_path / "out"):
        done = invoke("distill", toy.run, *DISTILL, code=2)
    assert "is in use by process" in done.err and not (tmp_path / "out/settings.json").exists()

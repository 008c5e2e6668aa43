"""Output is safe for a terminal, and output that cannot be written is an error on standard error."""

import errno
import io
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest
import torch
import yaml

from seq2attn.cli import main
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import read_object, write_json
from seq2attn.io.outputs import output
from seq2attn.io.terminal import visible
from seq2attn.io.weights import load_tensors, save_tensors
from seq2attn.training.metrics_logger import MetricsLogger
from tests.support.commands import Invoke, all_commands
from tests.support.untrained_runs import CONFIG, RECIPE, SWEEP, untrained_run

FULL = Path("/dev/full")
ESCAPE = "\x1b]0;title\x07\x9b31m\u202edrow\x7f\r"
VISIBLE = r"\x1b]0;title\x07\x9b31m\u202edrow\x7f\x0d"
Command = Callable[..., tuple[int, str, str]]


def test_only_control_characters_are_escaped() -> None:
    controls = [chr(code) for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"]
    for one in (*controls, *"\u202a\u202e\u2066\u2069", "\udcff"):
        assert visible(f"a{one}b").isprintable() and len(visible(one)) in (4, 6)
    text = "Ein\tWort\n語 ไทย عربي\u200f é 👩‍👩‍👧 \\x1b"
    assert visible(text) == text and visible(visible(ESCAPE)) == visible(ESCAPE) == VISIBLE


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`seq2attn` in this process, with standard streams in files or in given streams."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, **streams: Any) -> tuple[int, str, str]:
        files = [Path("stdout"), Path("stderr")]
        with monkeypatch.context() as patch, ExitStack() as stack:
            patch.setattr(sys, "argv", ["seq2attn", *map(str, arguments)])
            for file in files:
                file.unlink(missing_ok=True)
                stream = streams[file.name] if file.name in streams else file.open("w")
                patch.setattr(sys, file.name, stream)
                stack.callback(_close, stream)
            with pytest.raises(SystemExit) as ended:
                main()
            sys.stdout.flush()
            sys.stderr.flush()
        out, err = (file.read_text("utf-8") if file.is_file() else "" for file in files)
        return int(ended.value.code or 0), out, err

    return run


def _close(stream: TextIO | None) -> None:
    with suppress(OSError):  # of a full disk
        if stream is not None:
            stream.close()


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "sweep.yaml").write_text(SWEEP.format("own.yaml"), encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE.format("own.yaml"), encoding="utf-8")
    return untrained_run(tmp_path)


COMMANDS = {
    "train": ("own.yaml", "--dry-run"),
    "translate": ("run", "a few words"),
    "evaluate": ("run", "--greedy"),
    "compare": ("run", "another"),
    "align": ("run", "--source", "lines.txt", "--target", "lines.txt"),
    "score": ("run", "--source", "lines.txt", "--target", "lines.txt"),
    "distill": ("run", "--source", "lines.txt", "-o", "distilled"),
    "back-translate": ("run", "--target", "lines.txt", "-o", "back-translated"),
    "prepare": ("own.yaml", "--set", "run_dir=other"),
    "average": ("run", "--last", "1"),
    "export": ("run", "--to", "ctranslate2"),
    "import": ("run", "imported"),
    "sweep": ("sweep.yaml", "--dry-run"),
    "reproduce": ("recipe.yaml", "--dry-run"),
    "speedrun": ("own.yaml",),
    "doctor": ("run", "--input", "lines.txt"),
    "explore": ("run", "a few words", "-o", "page.html"),
    "init": ("lines.txt", "lines.txt", "--dev-size", "9999"),
    "config check": ("own.yaml",),
    "config show": ("own.yaml",),
    "config schema": (),
}
SILENT = {
    "compare", "distill", "back-translate", "prepare", "average", "explore", "export", "import", "init", "speedrun",
}  # fmt: skip
"""Commands that print nothing to standard output here."""


def test_all_commands_are_tested() -> None:
    assert {*COMMANDS} == {*all_commands()}


@pytest.mark.parametrize("name", COMMANDS)
def test_streams_that_cannot_be_written(run: RunDirectory, command: Command, name: str) -> None:
    arguments = (*name.split(), *COMMANDS[name])
    code, results, _ = command(*arguments)
    assert (results == "") == (name in SILENT)
    for stream, error in ((None, errno.EBADF), (FULL.open("w"), errno.ENOSPC)):
        without_out = command(*arguments, stdout=stream)
        if results:
            assert without_out[:2] == (2, "") and "Traceback" not in without_out[2]
            assert without_out[2].splitlines()[-1] == f"error: standard output: {os.strerror(error)}"
        else:
            assert without_out[0] == code
    without_err = command(*arguments, stderr=FULL.open("w") if name == "translate" else None)
    assert (without_err[0], without_err[2]) == (code, "")
    assert without_err[1].split("\n")[0] == results.split("\n")[0]  # other lines may have times
    assert without_err[1].count("\n") == results.count("\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_file_names_that_are_not_utf_8(run: RunDirectory, command: Command, name: str) -> None:
    """In place of each input file: no traceback, and the escaped name in an error."""
    invalid = os.fsdecode(b"no-\xff-text")
    Path(invalid).write_text("a few words\n", encoding="utf-8")
    for place, word in enumerate(COMMANDS[name]):
        if Path(word).exists() or word == "none.yaml":
            arguments = [*COMMANDS[name][:place], invalid, *COMMANDS[name][place + 1 :]]
            code, _, err = command(*name.split(), *arguments)
            assert code in (0, 2) and "Traceback" not in err and err.isascii()
            assert code == 0 or r"no-\udcff-text" in err


def test_escape_sequences_in_untrusted_input(run: RunDirectory, command: Command) -> None:
    def refused(*arguments: object) -> None:
        code, out, err = command(*arguments)
        assert (code, out) == (2, "") and r"\x1b]0;title\x07" in err
        assert visible(err) == err

    quoted = yaml.safe_dump(ESCAPE).strip().removesuffix("...").strip()
    for line in (f"{quoted}: 1", f"training: {{seed: {quoted}}}", f"search: {{kind: {quoted}}}"):
        Path("own.yaml").write_text(CONFIG.split("search:")[0] + line + "\n", encoding="utf-8")
        refused("config", "check", "own.yaml")
    Path("links.txt").write_text(f"0-0\n{ESCAPE}\n\n", encoding="utf-8")
    refused("align", "run", "--source", "lines.txt", "--target", "lines.txt", "--gold", "links.txt")
    refused("align", "run", "--source", ESCAPE, "--target", "lines.txt")
    refused("translate", ESCAPE, "a")
    refused(ESCAPE)
    tensors = load_tensors(run.weights_path)
    save_tensors({**tensors, ESCAPE: torch.zeros(3)}, run.weights_path)
    refused("translate", "run", "a")
    save_tensors(tensors, run.weights_path)
    vocabulary = run.folder / "source/vocabulary.json"
    content = read_object(vocabulary, "")
    write_json(vocabulary, content | {"tokens": [*content["tokens"], ESCAPE, ESCAPE]})
    refused("translate", "run", "a")


def test_escape_sequences_in_the_log_of_a_training(run: RunDirectory) -> None:
    logger = MetricsLogger(run, is_main_process=True, since=None, tensorboard=False)
    logger.log(ESCAPE)
    logger.close()
    assert (run.folder / "train.log").read_text("utf-8").endswith(f" {VISIBLE}\n")


def test_results_are_escaped_on_a_terminal_only(run: RunDirectory, command: Command) -> None:
    name = f"own{ESCAPE}.yaml"
    Path("own.yaml").rename(name)
    assert command("config", "check", name)[1] == f"{name}: ok\n".replace("\r", "\n")  # as Python reads a line
    controller, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stream:
        assert command("config", "check", name, stdout=stream)[0] == 0
        assert os.read(controller, 999) == f"own{VISIBLE}.yaml: ok\r\n".encode()


@contextmanager
def small_disk() -> Iterator[None]:
    """No file may have more than 100 bytes, not even pytest's log, which raises the errors of a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", ["map.svg", "map.html", "out.txt"])
def test_a_full_disk_leaves_no_partial_file(run: RunDirectory, invoke: Invoke, name: str) -> None:
    option = "-o" if name == "out.txt" else "--attention"
    with small_disk():
        error = invoke("translate", run.folder, *["a few words which are many"] * 9, option, name, code=2).err
    assert error.splitlines()[-1].startswith("error: ") and "File too large" in error and name in error
    assert not [*Path().glob(f"{name}*")]


def test_a_full_disk_is_no_fault_of_a_component(run: RunDirectory, invoke: Invoke) -> None:
    with small_disk():
        error = invoke("export", run.folder, "exported", "--to", "onnx", code=2).err
    assert "File too large" in error and "config.yaml" not in error
    assert not [*Path().glob("exported*")]


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    """The last complete file stays, and the previous one until then."""
    file = tmp_path / "it"
    file.write_text("before")
    with output(file) as first, output(file) as second:
        first.write(b"first " * 99_999)
        second.write(b"second")
        assert file.read_text() == "before"
    assert file.read_text() == "first " * 99_999
    with pytest.raises(io.UnsupportedOperation), output(file) as third:
        third.write(b"half")
        raise io.UnsupportedOperation
    assert file.read_text() == "first " * 99_999 and [*tmp_path.iterdir()] == [file]


def test_a_device_is_written_to(tmp_path: Path) -> None:
    """Also by a link, as `-o /dev/stdout` is."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with output(tmp_path / "link") as file:
        file.write(b"it")
    assert os.read(reader, 9) == b"it" and (tmp_path / "pipe").is_fifo()


def test_a_pipe_without_a_name_is_written_to(tmp_path: Path) -> None:
    """Such as that of `-o >(gzip > FILE)`, or of `-o /dev/stdout | sort`."""
    reader, writer = os.pipe()
    with output(Path(f"/dev/fd/{writer}")) as file:
        file.write(b"it")
    os.close(writer)
    assert os.read(reader, 9) == b"it"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="loop: cannot be written: Symlink loop"), output(tmp_path / "loop"):
        pass

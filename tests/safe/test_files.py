"""What is read is a regular file of a size that it may have; what is written is written where it says."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.errors import RunError, UserError
from seq2attn.inference.translator import Translator
from seq2attn.io.files import MAX_FILE_BYTES, read_bytes, read_object, write_bytes
from seq2attn.io.weights import load_tensors, read_tensor_specs
from seq2attn.run_directory import RunDirectory
from tests.cli.conftest import Invoke
from tests.safe.untrained import CONFIG, untrained

FIX = "mend it"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**36)


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 2**20)


def deep_object(path: Path) -> None:
    path.write_bytes(b'{"a":' * 2**20)


def digits(path: Path) -> None:
    path.write_bytes(b'{"a": ' + b"1" * 2**20 + b"}")


def half(path: Path) -> None:
    path.write_bytes(b'{"a": "\\ud800"')


def of_bytes(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


@pytest.mark.parametrize(
    "make", [fifo, device, sparse, deep, deep_object, digits, half, of_bytes, Path.mkdir, Path.touch]
)
def test_no_json(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "it.json")
    with pytest.raises(RunError) as error:
        read_object(tmp_path / "it.json", FIX)
    assert str(error.value).startswith(f"{tmp_path / 'it.json'}: ") and FIX in str(error.value)


@pytest.mark.parametrize("make", [device, sparse, deep, of_bytes, Path.mkdir, Path.touch])
def test_no_weights(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "it.safetensors")
    for read in (read_tensor_specs, load_tensors):
        with pytest.raises(RunError, match=f"^{tmp_path / 'it.safetensors'}: "):
            read(tmp_path / "it.safetensors")


def test_the_largest_is_read(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(bytes(MAX_FILE_BYTES))
    assert len(read_bytes(tmp_path / "it", FIX)) == MAX_FILE_BYTES
    (tmp_path / "it").write_bytes(bytes(MAX_FILE_BYTES + 1))
    with pytest.raises(RunError, match="has more than the 33,554,432 bytes"):
        read_bytes(tmp_path / "it", FIX)


class TestWriting:
    """What has the name of a file, and leads elsewhere, is replaced and not written to."""

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        (tmp_path / "run").mkdir()
        (tmp_path / "outside").write_text("mine", encoding="utf-8")
        return tmp_path / "outside"

    @pytest.mark.parametrize("link", [os.symlink, os.link])
    def test_links(self, outside: Path, link: Callable[[Path, Path], None]) -> None:
        run = outside.parent / "run"
        link(outside, run / "it")
        write_bytes(run / "it", b"theirs")
        assert outside.read_text() == "mine" and not (run / "it").is_symlink()
        assert [(p.name, p.read_text()) for p in run.iterdir()] == [("it", "theirs")]


def test_evaluation_writes_inside(tmp_path: Path, invoke: Invoke) -> None:
    """The names of test sets are names of files with translations."""
    run = untrained(tmp_path)
    invoke("evaluate", run.folder, "--greedy")
    before = {path.name for path in tmp_path.iterdir()}
    config = run.config_path.read_text(encoding="utf-8")
    for name in ("../../stray", "/tmp/stray", "..", "a/b", ".", ""):
        run.config_path.write_text(config.replace("    ours:", f"    '{name}':"), encoding="utf-8")
        said = invoke("evaluate", run.folder, "--greedy", code=2).err
        assert "config.yaml:" in said and "is also the name of output files" in said
    assert {path.name for path in tmp_path.iterdir()} == before


def test_other_files_that_are_torn(tmp_path: Path) -> None:
    """Each file that translating needs, in turn, as something that it is not: never a traceback."""
    for number, name in enumerate(("run.json", "model.safetensors", *[f"source/{n}" for n in TOKENIZER])):
        for what in (
            b"",
            b"\0" * 100,
            b"[]",
            b"{}",
            b'{"format": "1"}',
            b'{"format": true}',
            b"\xff",
            b"[" * 9999,
        ):
            run = untrained(tmp_path / str(number))
            (run.folder / name).write_bytes(what)
            with pytest.raises(UserError, match=str(run.folder / name)):
                Translator.load(RunDirectory(run.folder).folder)


TOKENIZER = ("tokenizer.json", "vocabulary.json")


@pytest.mark.parametrize("make", [fifo, device])
class TestNoEnd:
    """Nothing that a run's folder or its config names may keep a command waiting, or fill the memory."""

    @pytest.mark.parametrize("command", ["config show", "config check", "train", "prepare"])
    def test_its_config(self, tmp_path: Path, invoke: Invoke, command: str, make: Callable[[Path], None]) -> None:
        run = untrained(tmp_path)
        run.config_path.unlink()
        make(run.config_path)
        said = invoke(*command.split(), run.config_path, code=2).err
        assert f"cannot read {run.config_path}: it is no regular file" in said

    @pytest.mark.parametrize(
        ("command", "more"),
        [("evaluate", ("--greedy",)), ("export", ("--to", "ctranslate2")), ("align", ("--select-head",))],
    )
    def test_its_texts(
        self,
        tmp_path: Path,
        invoke: Invoke,
        command: str,
        more: tuple[str, ...],
        make: Callable[[Path], None],
    ) -> None:
        config = CONFIG.replace("dev: {kind: plain,", "dev: {kind: plain, alignment: links.txt,")
        run = untrained(tmp_path, config.replace(GRU, LAYERS))
        (tmp_path / "lines.txt").unlink()
        make(tmp_path / "lines.txt")
        said = invoke(command, run.folder, *more, code=2).err
        assert "is not a regular file; write text from a pipe or a device to a file first" in said


GRU = """  encoder: {kind: gru, dim: 8}
  decoder: {kind: luong, dim: 8}
"""
LAYERS = """  encoder: {kind: transformer, heads: 2, layers: 1, norm_order: post}
  decoder: {kind: transformer, heads: 2, layers: 1, norm_order: post, attention: {score: {kind: multi-head, heads: 2}}}
"""

"""Lines that are too long, missing memory, and letters with thousands of marks."""

import gzip
import io
import lzma
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.cli import handle_errors
from seq2attn.errors import DataError
from seq2attn.io.outputs import text_output
from seq2attn.io.text_lines import MAX_LINE_BYTES, open_lines, read_line_batches, read_lines
from seq2attn.tokenizers.normalize import MAX_MARKS, NormalizeConfig, normalize
from seq2attn.tokenizers.words import WordTokenizerConfig

ABOVE, BELOW = "\u0301", "\u0316"  # marks that Unicode sorts, the lower ones first


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    """A small file of a line, and of one that unpacks to more than the maximum."""
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"a line\n" + b" " * (MAX_LINE_BYTES + 1))
    assert path.stat().st_size < 2**16
    return path


@pytest.mark.parametrize(("name", "magic"), [("t.txt", b"a l"), ("t.gz", b"\x1f\x8b"), ("t.xz", b"\xfd7z")])
def test_a_written_file_is_read_by_its_name(tmp_path: Path, name: str, magic: bytes) -> None:
    with text_output(tmp_path / name) as file:
        file.write("a line\n")
        file.flush()
        file.write("አንድ\n")
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert list(read_lines(tmp_path / name)) == ["a line", "አንድ"]


def test_a_line_without_end_has_a_place(bomb: Path) -> None:
    lines = read_lines(bomb)
    assert next(lines) == "a line"
    with pytest.raises(DataError, match=r"bomb\.gz:2: the line has more than 16,777,216 bytes; is it a text file"):
        next(lines)
    with pytest.raises(DataError, match=r"^/dev/zero:1: the line has more than"):
        next(read_lines(Path("/dev/zero")))


def test_the_longest_line_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * (MAX_LINE_BYTES - 1) + b"\nend\n")
    assert [len(line) for line in read_lines(path)] == [MAX_LINE_BYTES - 1, 3]


def test_input_without_end_is_refused_after_what_came_before() -> None:
    groups = read_line_batches(io.BufferedReader(io.BytesIO(b"one\ntwo\n" + bytes(MAX_LINE_BYTES + 2**19))))  # type: ignore[arg-type]
    assert next(groups) == [b"one", b"two"]
    with pytest.raises(DataError, match=r"^line 3 of the input: the line has more than 16,777,216 bytes"):
        next(groups)
    with Path("/dev/zero").open("rb") as zero, pytest.raises(DataError, match=r"^line 1 of the input"):
        next(read_line_batches(zero))


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_compressed_input(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    path, lines = tmp_path / f"input.{suffix}", [b"%d" % (7**number) for number in range(2000)]
    content = compress(b"".join(line + b"\n" for line in lines))
    path.write_bytes(content)
    with open_lines(path) as stream:
        assert [line for batch in read_line_batches(stream) for line in batch] == lines
    path.write_bytes(content[: -len(content) // 3])
    read = list[bytes]()
    with open_lines(path) as stream, pytest.raises(DataError, match="compressed input is broken after line") as error:
        for batch in read_line_batches(stream, 2**10):
            read += batch
    assert read and read == lines[: len(read)] and f"after line {len(read):,} " in str(error.value)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_missing_memory_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    if isinstance(error, MemoryError):  # for which nothing is imported
        monkeypatch.setitem(sys.modules, "seq2attn.nn.device", None)

    def hungry() -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        handle_errors(hungry)()
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == "error: there is not enough memory for this\n"


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_marks_are_sorted_in_runs_that_are_not_long(form: str) -> None:
    marks = (ABOVE + BELOW) * 15
    assert normalize(form, "a" + marks) == unicodedata.normalize(form, "a" + marks)  # type: ignore[arg-type]
    found = normalize(form, "a" + marks * 2000)  # type: ignore[arg-type]  # which would take a minute
    runs = found.split("\u034f")
    assert len(runs) == 2000 and all(len(run) <= MAX_MARKS for run in runs)
    assert all(run == BELOW * 15 + ABOVE * 15 for run in runs[1:])
    assert runs[0] == unicodedata.normalize(form, "a" + marks)
    assert normalize(form, found) == found  # type: ignore[arg-type]


@given(st.text() | st.text(st.sampled_from(["a", "é", "ﬁ", ABOVE, BELOW, "ַ", "゙"])))
def test_other_text_is_in_its_normal_form(line: str) -> None:
    for form in ("NFC", "NFKC"):
        if not any(run > MAX_MARKS for run in _runs(line)):
            assert normalize(form, line) == unicodedata.normalize(form, line)  # type: ignore[arg-type]
        assert normalize(form, normalize(form, line)) == normalize(form, line)  # type: ignore[arg-type]


def _runs(line: str) -> list[int]:
    runs = [0]
    for character in line:
        runs = [*runs[:-1], runs[-1] + 1] if unicodedata.combining(character) else [*runs, 0]
    return runs


def test_tokenizers_take_marks_in_linear_time() -> None:
    config = NormalizeConfig()
    line = "a" + (ABOVE + BELOW) * 100_000
    assert config.normalize(config.normalize(line)) == config.normalize(line)
    words = WordTokenizerConfig().train([line])
    assert words.decode(words.encode(line)) == config.normalize(line)

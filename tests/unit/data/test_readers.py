"""Reading parallel text: what is a line, and every complaint with its place."""

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.data.readers import (
    CorpusConfig,
    JSONLinesConfig,
    PlainTextConfig,
    TSVConfig,
    read_lines,
    read_pairs,
)
from seq2attn.errors import DataError


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def complaint(corpus: CorpusConfig) -> str:
    with pytest.raises(DataError) as error:
        list(read_pairs(corpus))
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\n\n", ["a", ""]),
        ("\n", [""]),
        ("a\r\nb\r\r\n", ["a", "b\r"]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        ("a\u2028b\x0bc\x85d\x1ce\rf\n", ["a\u2028b\x0bc\x85d\x1ce\rf"]),
    ],
)
def test_what_is_a_line(tmp_path: Path, content: str, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "t.txt", content))) == lines
    assert list(read_lines(write(tmp_path / "t.gz", gzip.compress(content.encode())))) == lines
    assert list(read_lines(write(tmp_path / "t.xz", lzma.compress(content.encode())))) == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=("Cs",))), min_size=1))
def test_lines_read_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = write(tmp_path_factory.getbasetemp() / "lines.txt", "".join(f"{line}\n" for line in lines))
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", None, "{path}: there is no such file"),
        ("t.txt", b"", "{path}: is empty"),
        (
            "t.txt",
            b"fine\nM\xfcller\n",
            "{path}:2: byte 2 of the line (0xfc) is not UTF-8 (invalid start byte); save the file as UTF-8",
        ),
        (
            "t.txt",
            b"\xef\xbb\xbf\xff\n",
            "{path}:1: byte 4 of the line (0xff) is not UTF-8 (invalid start byte); save the file as UTF-8",
        ),
        (
            "t.gz",
            b"plain\n",
            "{path}: the compressed file is broken after line 0 (Not a gzipped file (b'pl'))",
        ),
        (
            "t.xz",
            b"plain\n",
            "{path}: the compressed file is broken after line 0 (Input format not supported",
        ),
        (
            "t.gz",
            gzip.compress(b"a\nb\n" * 9, mtime=0)[:-9],
            "{path}: the compressed file is broken after line ",
        ),
        ("t.gz", gzip.compress(b"", mtime=0), "{path}: is empty"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(DataError) as error:
        list(read_lines(path))
    assert str(error.value).startswith(message.format(path=path))


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        list(read_lines(tmp_path))
    assert str(error.value) == f"{tmp_path}: is a directory, expected a text file"


def test_aligned(tmp_path: Path) -> None:
    source, target = write(tmp_path / "s", "a\nb\n"), write(tmp_path / "t", "x\ny")
    assert list(read_pairs(PlainTextConfig(source=source, target=target))) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(("left", "right"), [("a\nb\nc\n", "x\n"), ("x\n", "a\nb\nc\n")])
def test_unequal_files(tmp_path: Path, left: str, right: str) -> None:
    source, target = write(tmp_path / "s", left), write(tmp_path / "t", right)
    many, one = (source, target) if len(left) > len(right) else (target, source)
    counts = {many: "3 lines", one: "1 line"}
    assert complaint(PlainTextConfig(source=source, target=target)) == (
        f"{source} has {counts[source]} and {target} has {counts[target]}: "
        "line by line, one must be the translation of the other"
    )


def test_tsv(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", 'a\tb\tc\nd "\te\tf\n')
    assert list(read_pairs(TSVConfig(path=path))) == [("a", "b"), ('d "', "e")]
    assert list(read_pairs(TSVConfig(path=path, source=3, target=1))) == [("c", "a"), ("f", 'd "')]
    write(path, "a\tb\nc\n")
    assert complaint(TSVConfig(path=path)) == f"{path}:2: expected at least 2 columns, found 1 column"


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"en": "a", "de": "x\\n", "n": 1}\n')
    assert list(read_pairs(JSONLinesConfig(path=path, source="en", target="de"))) == [("a", "x\n")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"),
        ("[1]", "expected a JSON object, found a list"),
        ('"a"', "expected a JSON object, found a string"),
        ('{"source": "a", "b": 1}', 'has no key "target"; its keys are "source", "b"'),
        ("{}", 'has no key "source"; its keys are none'),
        ('{"source": "a", "target": 1}', 'the value of "target" must be a string, found a number'),
        ('{"source": null, "target": ""}', 'the value of "source" must be a string, found null'),
        (
            '{"source": "\\ud800", "target": ""}',
            'the value of "source" is not Unicode (surrogates not allowed)',
        ),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "t.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')
    assert complaint(JSONLinesConfig(path=path)) == f"{path}:2: {message}"

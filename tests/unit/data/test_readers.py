"""Corpora in all formats, files with word alignments, and errors with their place."""

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.data.readers import CorpusConfig, JSONLinesConfig, PlainTextConfig, TSVConfig, read_pairs
from seq2attn.data.word_alignment import WordAlignment, format_pharaoh, parse_pharaoh, split_words
from seq2attn.errors import DataError
from seq2attn.io.text_lines import read_lines
from tests.support.corpora import write_corpus

BROKEN = "the compressed file is broken after line "
PAIR = ("a b c", "x y")
LINKS = st.frozensets(st.tuples(st.integers(0, 30), st.integers(0, 30)))


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(corpus: CorpusConfig) -> list[tuple[str, str]]:
    return [pair.text for pair in read_pairs(corpus)]


def error_of(corpus: CorpusConfig) -> str:
    with pytest.raises(DataError) as error:
        list(read_pairs(corpus))
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\r\nb\r\r\n", ["a", "b\r"]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        ("a\u2028b\x0bc\x85d\x1ce\rf\n", ["a\u2028b\x0bc\x85d\x1ce\rf"]),
    ],
)
def test_lines(tmp_path: Path, content: str, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "t.txt", content))) == lines
    assert list(read_lines(write(tmp_path / "t.gz", gzip.compress(content.encode())))) == lines
    assert list(read_lines(write(tmp_path / "t.xz", lzma.compress(content.encode())))) == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", exclude_categories=("Cs",))), min_size=1))
def test_any_lines_are_read_as_written(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = write(tmp_path_factory.getbasetemp() / "lines.txt", "".join(f"{line}\n" for line in lines))
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "there is no such file"),
        (".", None, "is a directory, expected a text file"),
        ("t.txt", b"", "is empty"),
        ("t.txt", b"fine\nM\xfcller\n", "2: byte 2 of the line (0xfc) is not UTF-8 (invalid start byte); save the"),
        ("t.txt", b"\xef\xbb\xbf\xff\n", "1: byte 4 of the line (0xff) is not UTF-8 (invalid start byte); save the"),
        ("t.gz", b"plain\n", BROKEN + "0 (Not a gzipped file (b'pl'))"),
        ("t.xz", b"plain\n", BROKEN + "0 (Input format not supported"),
        ("t.gz", gzip.compress(b"a\nb\n" * 9, mtime=0)[:-9], BROKEN),
        ("t.gz", gzip.compress(b"", mtime=0), "is empty"),
    ],
)
def test_invalid_files(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(DataError) as error:
        list(read_lines(path))
    assert str(error.value).replace(f"{path}:", "", 1).lstrip().startswith(message)


@pytest.mark.parametrize(("left", "right"), [("a\nb\nc\n", "x\n"), ("x\n", "a\nb\nc\n")])
def test_plain_files(tmp_path: Path, left: str, right: str) -> None:
    source, target = write(tmp_path / "s", left), write(tmp_path / "t", left)
    corpus = PlainTextConfig(source=source, target=target)
    assert texts(corpus) == [(line, line) for line in left.split()]
    write(target, right)
    counts = ["3 lines", "1 line"] if len(left) > len(right) else ["1 line", "3 lines"]
    assert error_of(corpus) == (
        f"{source} has {counts[0]} and {target} has {counts[1]}: each line of one must be the"
        " translation of the same line of the other"
    )


def test_tsv(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", 'a\tb\tc\nd "\te\tf\n')
    assert texts(TSVConfig(path=path)) == [("a", "b"), ('d "', "e")]
    assert texts(TSVConfig(path=path, source=3, target=1)) == [("c", "a"), ("f", 'd "')]
    write(path, "a\tb\nc\n")
    assert error_of(TSVConfig(path=path)) == f"{path}:2: expected at least 2 columns, found 1 column"
    write(path, "a\tb\tc\nd\te\nf\tg\th\ti\n")
    assert error_of(TSVConfig(path=path)) == f"{path}:3: 4 columns, and line 1 has 3; is there a tab in a text?"


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", '{"en": "a", "de": "x\\n", "n": 1}\n')
    assert texts(JSONLinesConfig(path=path, source="en", target="de")) == [("a", "x\n")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "{",
            "is not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1));"
            " each line should be a JSON object",
        ),
        ("[1]", "expected a JSON object, found a list"),
        ('"a"', "expected a JSON object, found a string"),
        ('{"source": "a", "b": 1}', 'has no key "target"; its keys are "source", "b"'),
        ("{}", 'has no key "source"; its keys are none'),
        ('{"source": "a", "target": 1}', 'the value of "target" must be a string, found a number'),
        ('{"source": null, "target": ""}', 'the value of "source" must be a string, found null'),
        ('{"source": "\\ud800", "target": ""}', 'the value of "source" is not Unicode (surrogates not allowed)'),
    ],
)
def test_invalid_json_lines(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "t.jsonl", f'{{"source": "a", "target": "b"}}\n{line}\n')
    assert error_of(JSONLinesConfig(path=path)) == f"{path}:2: {message}"


@given(sure=LINKS, possible=LINKS)
def test_written_links_are_parsed(sure: frozenset[tuple[int, int]], possible: frozenset[tuple[int, int]]) -> None:
    pair = ("w " * 31, "w " * 31)
    assert parse_pharaoh(format_pharaoh(sure), pair, "") == WordAlignment(sure, sure)
    for mark in "?p":
        line = format_pharaoh(sure) + " " + format_pharaoh(possible).replace("-", mark)
        assert parse_pharaoh(line, pair, "") == WordAlignment(sure, sure | possible)


def test_order_of_links_and_words_of_lines() -> None:
    assert format_pharaoh([(2, 0), (0, 1), (1, 0)]) == "1-0 2-0 0-1"
    assert split_words(" a\tb\u00a0c  \u2003d,\r") == ["a", "b\u00a0c", "\u2003d,"]
    assert split_words("") == []


@pytest.mark.parametrize(
    ("line", "pair", "message"),
    [
        ("0-0 3-1", PAIR, "the link `3-1` points at word 3 of the source, which has 3 words, counted from 0"),
        ("0?2", PAIR, "the link `0?2` points at word 2 of the target, which has 2 words, counted from 0"),
        ("0-1", ("a", "x"), "the link `0-1` points at word 1 of the target, which has 1 word, counted from 0"),
        ("0-0", ("", "x"), "the link `0-0` points at word 0 of the source, which has 0 words, counted from 0"),
        *(
            (
                f"0-0 {item}",
                PAIR,
                f"`{item}` is not a link; expected a source and a target word, counted from 0,"
                " such as `0-1` (or `0?1` for a possible one)",
            )
            for item in ("0-", "-1-0", "0_1", "0-1-1", "a-b", "\u0661-0", "0--1", "1.0-0")
        ),
    ],
)
def test_invalid_links(tmp_path: Path, line: str, pair: tuple[str, str], message: str) -> None:
    corpus = write_corpus(tmp_path, "c", [("a", "x"), pair], ["0-0", line])
    assert error_of(corpus) == f"{corpus.alignment}:2: {message}"


def test_pairs_with_alignments(tmp_path: Path) -> None:
    pairs = [("a b", "x"), ("", "y"), ("c", "z")]
    corpus = write_corpus(tmp_path, "c", pairs, ["1-0 0?0", "", "0-0"])
    assert corpus.files == (corpus.source, corpus.target, corpus.alignment)
    expected = [({(1, 0)}, {(1, 0), (0, 0)}), (set(), set()), ({(0, 0)}, {(0, 0)})]
    assert [(pair, (set(links.sure), set(links.possible))) for pair, links in read_pairs(corpus)] == [
        *zip(pairs, expected, strict=True)
    ]
    without = corpus.model_copy(update={"alignment": None})
    assert list(read_pairs(without)) == [(pair, None) for pair in pairs]


@pytest.mark.parametrize(("count", "lines"), [(1, "1 line"), (3, "3 lines")])
def test_each_pair_needs_a_line(tmp_path: Path, count: int, lines: str) -> None:
    corpus = write_corpus(tmp_path, "c", [("a", "x"), ("b", "y")], ["0-0"] * count)
    assert error_of(corpus) == (
        f"{corpus.source} has 2 lines and {corpus.alignment} has {lines}: each pair needs a line of alignments"
    )

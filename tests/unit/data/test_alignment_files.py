"""Word alignments in files: links, and errors with their place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.data.readers import read_pairs, read_pairs_with_alignments
from seq2attn.data.word_alignment import WordAlignment, format_pharaoh, parse_pharaoh, split_words
from seq2attn.errors import DataError
from tests.unit.data.corpora import write_corpus

PAIR = ("a b c", "x y")
LINKS = st.frozensets(st.tuples(st.integers(0, 30), st.integers(0, 30)))


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
    with pytest.raises(DataError) as error:
        list(read_pairs(corpus))
    assert str(error.value) == f"{corpus.alignment}:2: {message}"


def test_pairs_with_alignments(tmp_path: Path) -> None:
    pairs = [("a b", "x"), ("", "y"), ("c", "z")]
    corpus = write_corpus(tmp_path, "c", pairs, ["1-0 0?0", "", "0-0"])
    assert corpus.files == (corpus.source, corpus.target, corpus.alignment)
    expected = [({(1, 0)}, {(1, 0), (0, 0)}), (set(), set()), ({(0, 0)}, {(0, 0)})]
    assert [(pair, (set(links.sure), set(links.possible))) for pair, links in read_pairs_with_alignments(corpus)] == [
        *zip(pairs, expected, strict=True)
    ]
    without = corpus.model_copy(update={"alignment": None})
    assert list(read_pairs_with_alignments(without)) == [(pair, None) for pair in pairs]


@pytest.mark.parametrize(("count", "lines"), [(1, "1 line"), (3, "3 lines")])
def test_each_pair_needs_a_line(tmp_path: Path, count: int, lines: str) -> None:
    corpus = write_corpus(tmp_path, "c", [("a", "x"), ("b", "y")], ["0-0"] * count)
    with pytest.raises(DataError) as error:
        list(read_pairs(corpus))
    assert str(error.value) == (
        f"{corpus.source} has 2 lines and {corpus.alignment} has {lines}: line by line, "
        "one must be the word alignments of the other"
    )

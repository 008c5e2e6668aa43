"""Word alignments as files: what a link is, and every complaint with its place."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2attn.data.readers import PlainTextConfig, read_pairs, read_pairs_with_alignments
from seq2attn.data.word_alignment import WordAlignment, format_pharaoh, parse_pharaoh, split_words
from seq2attn.errors import DataError

PAIR = ("a b c", "x y")
LINKS = st.frozensets(st.tuples(st.integers(0, 30), st.integers(0, 30)))


def files(folder: Path, *contents: str) -> PlainTextConfig:
    paths = [folder / name for name in ("s", "t", "a")]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content, encoding="utf-8")
    return PlainTextConfig(source=paths[0], target=paths[1], alignment=paths[2])


@given(sure=LINKS, possible=LINKS)
def test_links_read_back(sure: frozenset[tuple[int, int]], possible: frozenset[tuple[int, int]]) -> None:
    pair = ("w " * 31, "w " * 31)
    assert parse_pharaoh(format_pharaoh(sure), pair, "") == WordAlignment(sure, sure)
    line = format_pharaoh(sure) + " " + format_pharaoh(possible).replace("-", "?")
    assert parse_pharaoh(line, pair, "") == WordAlignment(sure, sure | possible)
    assert parse_pharaoh(line.replace("?", "p"), pair, "") == WordAlignment(sure, sure | possible)


def test_links_stand_in_the_order_of_the_target() -> None:
    assert format_pharaoh([(2, 0), (0, 1), (1, 0)]) == "1-0 2-0 0-1"


def test_words_are_what_ascii_spaces_part() -> None:
    assert split_words(" a\tb\u00a0c  \u2003d,\r") == ["a", "b\u00a0c", "\u2003d,"]
    assert split_words("") == []


@pytest.mark.parametrize(
    ("line", "pair", "message"),
    [
        (
            "0-0 3-1",
            PAIR,
            "the link `3-1` points at word 3 of the source, which has 3 words, counted from 0",
        ),
        ("0-2", PAIR, "the link `0-2` points at word 2 of the target, which has 2 words, counted from 0"),
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
            for item in ("0", "0-", "-1-0", "0_1", "0-1-1", "a-b", "\u0661-0", "0--1", "1.0-0")
        ),
    ],
)
def test_links_that_cannot_be(tmp_path: Path, line: str, pair: tuple[str, str], message: str) -> None:
    corpus = files(tmp_path, f"a\n{pair[0]}\n", f"x\n{pair[1]}\n", f"0-0\n{line}\n")
    for read in (read_pairs, read_pairs_with_alignments):
        with pytest.raises(DataError) as error:
            list(read(corpus))
        assert str(error.value) == f"{tmp_path / 'a'}:2: {message}"


def test_pairs_with_links(tmp_path: Path) -> None:
    corpus = files(tmp_path, "a b\n\nc\n", "x\ny\nz\n", "1-0 0?0\n\n0-0\n")
    assert corpus.files == tuple(tmp_path / name for name in "sta")
    assert list(read_pairs(corpus)) == [("a b", "x"), ("", "y"), ("c", "z")]
    found = [alignment for _, alignment in read_pairs_with_alignments(corpus)]
    assert found == [
        WordAlignment(frozenset({(1, 0)}), frozenset({(1, 0), (0, 0)})),
        WordAlignment(frozenset(), frozenset()),
        WordAlignment(frozenset({(0, 0)}), frozenset({(0, 0)})),
    ]
    without = corpus.model_copy(update={"alignment": None})
    assert list(read_pairs_with_alignments(without)) == [(pair, None) for pair in read_pairs(corpus)]


@pytest.mark.parametrize(("lines", "count"), [("0-0\n", "1 line"), ("0-0\n" * 3, "3 lines")])
def test_as_many_lines_as_pairs(tmp_path: Path, lines: str, count: str) -> None:
    with pytest.raises(DataError) as error:
        list(read_pairs(files(tmp_path, "a\nb\n", "x\ny\n", lines)))
    assert str(error.value) == (
        f"{tmp_path / 's'} has 2 lines and {tmp_path / 'a'} has {count}: line by line, "
        "one must be the word alignments of the other"
    )

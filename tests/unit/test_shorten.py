"""Cutting a line that is too long loses nothing, fits, and cuts where it hurts least."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2attn.text.sentences import join, sentences
from seq2attn.text.shorten import shorten
from tests.unit.phrases import PHRASES

TEXT = st.text(st.sampled_from('ab A.!?…,;: \n\t"”»)(„。，？」はß\u0301\u2028🙂12'), max_size=80)


def words(text: str) -> int:
    return len(text.split())


def bare(text: str) -> str:
    return "".join(text.split())


SENTENCES = {
    "three": ["Das ist gut.", "Ist es das?", "Ja!"],
    "abbreviations": [
        "Am 3. Mai kam Dr. Müller z. B. nach St. Gallen.",
        "Er blieb bis 1999.",
        "Dann ging er.",
    ],
    "initials": ["J. R. R. Tolkien schrieb.", "Die USA, d. h. die U.S. Army, kam."],
    "quotes": ["Er sagte: „Nein.“", "Dann ging er.", "(Wirklich.)", "„Gut.“"],
    "marks in a row": ["Was?!", "Nein...", "Doch…", "5 Leute kamen."],
    "tokenised": ["Das ist gut .", "Ist es das ?", "Ja !"],
    "a small letter goes on": ["Er kam ... und ging.", "Sie rief „halt!“ und lief."],
    "no capitals at all": ["das ist gut.", "das auch."],
    "hindi": ["यह अच्छा है।", "वह भी।"],
    "arabic": ["أين البيت؟", "هنا."],
}


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences_are_found(name: str) -> None:
    assert sentences("  " + " \t".join(SENTENCES[name]) + " ") == SENTENCES[name]


def test_chinese_needs_no_spaces() -> None:
    every = ["今天很好。", "你好吗？", "“好！”", "他说。"]
    assert sentences("".join(every)) == every == sentences(" ".join(every))
    assert join(every) == "".join(every)


def test_paragraphs_of_the_phrasebook_fall_into_their_lines() -> None:
    for side in (0, 1):
        lines = [pair[side] for pair in PHRASES]
        assert sentences(" ".join(lines)) == lines


@settings(max_examples=300, deadline=None)
@given(TEXT, st.integers(1, 12))
def test_nothing_is_lost_and_all_fits(line: str, most: int) -> None:
    for length in (words, len):
        parts = shorten(line, most, length)
        assert bare("".join(parts)) == bare(line)
        assert all(length(part) <= most or len(part) == 1 for part in parts)
        assert all(part == part.strip() != "" for part in parts)
    assert bare("".join(sentences(line))) == bare(line)
    assert shorten(line, 100, len) == sentences(line)


def test_cuts_are_at_sentences_then_clauses_then_words_then_anywhere() -> None:
    line = "Eins zwei. Drei vier fünf sechs, sieben acht, neun zehn elf zwölf dreizehn vierzehn: fünfzehn."
    assert shorten(line, 6, words) == [
        "Eins zwei.",
        "Drei vier fünf sechs, sieben acht,",
        "neun zehn elf zwölf dreizehn vierzehn:",
        "fünfzehn.",
    ]
    assert shorten(line, 5, words)[2:4] == ["sieben acht,", "neun zehn elf zwölf dreizehn"]
    assert shorten("猫が寝ている", 3, len) == ["猫が寝", "ている"]
    assert shorten("x" * 7, 2, len) == ["x"] + ["xx"] * 3


def test_pieces_are_put_together_as_far_as_they_fit() -> None:
    line = " ".join(f"w{number}" for number in range(100))
    parts = shorten(line, 7, words)
    assert [*map(words, parts)] == [7] * 14 + [2]
    assert join(parts) == line


@pytest.mark.parametrize("letter", ["e\u0301", "ก\u0e34\u0e48", "က\u103b"])  # Latin, Thai and Burmese
def test_accents_stay_with_their_letters(letter: str) -> None:
    parts = shorten(letter * 40, 7, len)
    assert all(part.startswith(letter[0]) for part in parts) and "".join(parts) == letter * 40
    assert "".join(shorten("\u0301" * 50, 7, len)) == "\u0301" * 50


@pytest.mark.parametrize(
    "line", ["." * 200_000, ". " * 50_000, "“" * 200_000, ".“" * 100_000, "," * 200_000, "." + " " * 200_000]
)
def test_time_grows_with_the_line_and_no_faster(line: str) -> None:
    # At the square of its length each would take hours: that this ends is what is tested.
    assert bare("".join(sentences(line))) == bare(line) == bare("".join(shorten(line, 1000, len)))


def test_joining_puts_spaces_where_the_script_has_them() -> None:
    assert join(["Ja.", "", "Nein."]) == "Ja. Nein."
    assert join(["好。", "好"]) == "好。好"
    assert join(["다.", "한"]) == "다. 한" and join(["안녕", "하세요"]) == "안녕 하세요"
    assert join([]) == join(["", ""]) == ""
    assert all(join([a, b]) == f"{a} {b}" for a, b in pairwise(["a.", "b", "ж", "9"]))

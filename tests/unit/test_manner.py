"""Text that is written otherwise than what was learnt from is told, in either direction, and other text is not."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from seq2attn.text.census import Census
from seq2attn.text.manner import Manner, tokenised, unlike
from tests.unit.phrases import PHRASES

GERMAN, ENGLISH = [source for source, _ in PHRASES], [target for _, target in PHRASES]
FRENCH = [
    "Où est la gare ? Je ne sais pas !",
    "Il dit : « Oui, bien sûr ; non. »",
    "C'est bon... L'été, enfin.",
] * 20
CHINESE = ["今天天气很好，我们去公园。", "你好吗？我很好，谢谢。", "他说：“好！”"] * 20
HINDI = ["यह अच्छा है, बहुत अच्छा ।", "वह घर जाता है, और सोता है ।"] * 20


def manner(lines: list[str]) -> Manner:
    census = Census()
    census.add(lines)
    return census.manner


def cut(line: str) -> str:
    """As a tokeniser would."""
    return re.sub(r"([.,!?。，！？])", r" \1 ", line).strip()


def subwords(line: str) -> str:
    return re.sub(r"(\w\w)(?=\w)", r"\1@@ ", line)


WAYS: dict[str, tuple[Callable[[str], str], str, str]] = {
    "tokenised": (cut, "looks tokenised", "does not look tokenised, as the training text was"),
    "small": (str.lower, "looks lower-cased", "has capitals, and the training text was lower-cased"),
    "sub-words": (subwords, "has marks of sub-words, `@@`", "has no marks of sub-words, `@@`"),
    "pieces": (lambda line: "▁" + line.replace(" ", " ▁"), "has marks of sub-words, `▁`", "has no marks"),
    "joined": (lambda line: re.sub(r"([.,])", r" ￭\1", line), "has marks of sub-words, `￭`", "has no marks"),
    "escapes": (lambda line: re.sub("e", "&quot;", line, count=1), "has escapes", "has no escapes"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lines", [GERMAN, ENGLISH])
def test_either_direction_is_told(way: str, lines: list[str]) -> None:
    change, there, back = WAYS[way]
    learnt, given = lines[:600], lines[600:700]
    for text, trained, said in ((change, str, there), (str, change, back)):
        found = unlike(manner([text(line) for line in given]), manner([trained(line) for line in learnt]))
        assert [what for what in found.values() if what.startswith(said)], found
        same = unlike(manner([text(line) for line in given]), manner([text(line) for line in learnt]))
        assert same == {}


@pytest.mark.parametrize("lines", [GERMAN, ENGLISH, FRENCH, CHINESE, HINDI])
def test_raw_text_of_any_script_is_like_itself(lines: list[str]) -> None:
    half = len(lines) // 2
    assert unlike(manner(lines[half:]), manner(lines[:half])) == {}
    assert tokenised(manner(lines)) == []
    assert unlike(manner([line.upper() for line in lines[half:]]), manner(lines[:half])).keys() <= {"case"}


def test_scripts_without_case_or_spaces() -> None:
    lower = [line.lower() for line in CHINESE]
    assert unlike(manner(lower), manner(CHINESE)) == unlike(manner(CHINESE), manner(lower)) == {}
    assert "looks tokenised" in unlike(manner([cut(line) for line in CHINESE]), manner(CHINESE))["spaces"]
    assert unlike(manner(CHINESE), manner(GERMAN))["script"].startswith(
        "has 100% of its letters in Han and kana"
    )
    assert "Latin" in unlike(manner(GERMAN), manner(CHINESE))["script"]
    with_names = [*CHINESE, "IBM"]
    assert unlike(manner(with_names), manner(CHINESE)) == {}


def test_where_case_does_not_matter_it_is_not_told() -> None:
    small = manner([line.lower() for line in GERMAN[:100]])
    assert unlike(small, manner(GERMAN)) and not unlike(small, manner(GERMAN), case_matters=False)


@pytest.mark.parametrize("lines", [[], [""], ["ein haus , das"], ["a . b ."], ["@@ x"], ["日本"]])
def test_of_a_few_words_nothing_is_told(lines: list[str]) -> None:
    assert unlike(manner(lines), manner(GERMAN)) == unlike(manner(GERMAN), manner(lines)) == {}
    assert tokenised(manner(lines)) == []


def test_references_are_tokenised_whatever_they_are_compared_with() -> None:
    for change in (cut, subwords, WAYS["pieces"][0], WAYS["escapes"][0]):
        (said,) = tokenised(manner([change(line) for line in ENGLISH]))
        assert said


def test_what_is_split_off_words_counts_as_standing_alone() -> None:
    lines = ["I do n't know", "we ca n't", "they wo n't", "you did n't", "it is n't so"]
    assert "stand alone, 100%" in tokenised(manner(lines))[0]
    assert tokenised(manner([line.replace(" n't", "n't") for line in lines])) == []


def test_how_lines_are_grouped_does_not_matter() -> None:
    lines = [*GERMAN[:50], *CHINESE[:3], "", "a . b", "x@@ y &apos;"]
    census = Census()
    for line in lines:
        census.add([line])
    assert census.manner == manner(lines)

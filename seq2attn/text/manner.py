"""How a text is written: tokenised or not, in which case and script; and whether another is written the same way.

A model reads text as it was trained on. That of another kind is translated all the same, and badly, which nobody sees
who does not know (`do n't` for `don't`, small letters only, sub-words of another tool).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CONTINUED, PIECES, JOINED = "@@", "▁", "￭"
"""Marks of sub-words: of subword-nmt, of SentencePiece, and of OpenNMT's tokeniser."""
ESCAPES = ("&apos;", "&quot;", "&amp;", "&lt;", "&gt;", "&#124;", "&#91;", "&#93;", "@-@")
"""What the tokeniser of Moses writes for characters that its other tools read as their own."""

FEW_STOPS, FEW_MARKS = 5, 3
"""Fewer full stops and commas, or marks of sub-words, tell nothing."""
EXPECTED = 10
"""So many capitals or marks, by the training text's share, a text must lack before that tells something."""
MANY_LETTERS = 100
"""From so many letters on their case and script tell something."""
GAP = 0.5
"""How far the shares of full stops and commas that stand alone may be apart."""
MARKED, UNMARKED = 0.01, 0.001
"""Marks for each word that a text with them has at least, and one without them at most."""
FOREIGN, STRANGE = 0.2, 0.001
"""The share of a text's letters that may be of scripts of which training had less than the second share."""


@dataclass(frozen=True)
class Manner:
    """Counts over a text from which one can tell how it is written."""

    words: int = 0  # what stands between spaces
    alone: int = 0  # full stops and commas (and `n't`) that stand alone between spaces
    attached: int = 0  # those that stand at the end of a word
    escapes: int = 0
    continued: int = 0  # `@@`
    pieces: int = 0  # `▁`
    joined: int = 0  # `￭`
    upper: int = 0
    lower: int = 0
    scripts: Mapping[str, int] = field(default_factory=dict)  # the letters of each

    @property
    def letters(self) -> int:
        """Letters of all scripts."""
        return sum(self.scripts.values())

    @property
    def capitals(self) -> float:
        """The share of capitals among the letters that have two cases."""
        return self.upper / max(self.upper + self.lower, 1)

    @property
    def apart(self) -> float:
        """The share of full stops and commas that stand alone."""
        return self.alone / max(self.alone + self.attached, 1)

    @property
    def marks(self) -> dict[str, int]:
        """How often each mark of a tokeniser stands there, by a name for people."""
        return {
            "escapes such as `&apos;` and `@-@`": self.escapes,
            f"marks of sub-words, `{CONTINUED}`": self.continued,
            f"marks of sub-words, `{PIECES}`": self.pieces,
            f"marks of sub-words, `{JOINED}`": self.joined,
        }

    @property
    def script(self) -> str | None:
        """That of most letters."""
        return max(self.scripts, key=lambda name: self.scripts[name], default=None)


def unlike(text: Manner, trained: Manner, *, case_matters: bool = True) -> dict[str, str]:
    """What is different about a text from the one that a model was trained on, by the kind of difference.

    Nothing where too little is known of either.
    """
    found = [*_spaces(text, trained), *_marks(text, trained), *_scripts(text, trained)]
    return dict([*found, *_case(text, trained)] if case_matters else found)


def tokenised(text: Manner) -> list[str]:
    """What shows that a text was tokenised, whatever it is compared with."""
    found = [
        f"{name}, {count:,} in {text.words:,} words"
        for name, count in text.marks.items()
        if count >= FEW_MARKS and count >= MARKED * text.words
    ]
    if text.alone + text.attached >= FEW_STOPS and text.apart > GAP:
        found.append(f"full stops and commas that stand alone, {text.apart:.0%} of them")
    return found


def _spaces(text: Manner, trained: Manner) -> Iterator[tuple[str, str]]:
    if min(text.alone + text.attached, trained.alone + trained.attached) < FEW_STOPS:
        return
    shares = f"{text.apart:.0%} of its full stops and commas stand alone, {trained.apart:.0%} in training"
    if text.apart - trained.apart > GAP:
        yield "spaces", f"looks tokenised: {shares}"
    elif trained.apart - text.apart > GAP:
        yield "spaces", f"does not look tokenised, as the training text was: {shares}"


def _marks(text: Manner, trained: Manner) -> Iterator[tuple[str, str]]:
    for name, here in text.marks.items():
        rate, usual = here / max(text.words, 1), trained.marks[name] / max(trained.words, 1)
        if here >= FEW_MARKS and rate >= MARKED and usual < UNMARKED:
            yield name, f"has {name}, {here:,} in {text.words:,} words, and the training text had none"
        elif (
            trained.marks[name] >= FEW_MARKS
            and usual >= MARKED
            and usual * text.words >= EXPECTED
            and rate < usual / 10
        ):
            yield name, f"has no {name}, which the training text had in every {round(1 / usual):,} words"


def _case(text: Manner, trained: Manner) -> Iterator[tuple[str, str]]:
    cased, known = text.upper + text.lower, trained.upper + trained.lower
    if cased < MANY_LETTERS or 2 * cased < text.letters or known < MANY_LETTERS:
        return
    shares = f"{text.capitals:.1%} of its letters are capitals, {trained.capitals:.1%} in training"
    if cased * trained.capitals >= EXPECTED and text.capitals < trained.capitals / 10:
        yield "case", f"looks lower-cased: {shares}"
    elif text.capitals > GAP > 2 * trained.capitals:
        yield "case", f"is in capitals: {shares}"
    elif text.upper >= EXPECTED and text.capitals > MARKED and trained.capitals < UNMARKED:
        yield "case", f"has capitals, and the training text was lower-cased: {shares}"


def _scripts(text: Manner, trained: Manner) -> Iterator[tuple[str, str]]:
    if min(text.letters, trained.letters) < MANY_LETTERS:
        return
    strange = {
        name: count
        for name, count in text.scripts.items()
        if trained.scripts.get(name, 0) < STRANGE * trained.letters
    }
    if sum(strange.values()) > FOREIGN * text.letters:
        names = ", ".join(sorted(strange, key=lambda name: -strange[name]))
        share = sum(strange.values()) / text.letters
        yield (
            "script",
            f"has {share:.0%} of its letters in {names}, and the training text was in {trained.script}",
        )

"""What is noticed of the lines that a call translates: it is said, and translated all the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seq2attn.data.concerns import UNKNOWN
from seq2attn.data.inspector import LETTERS
from seq2attn.data.report import PairsReport
from seq2attn.reading import Reading
from seq2attn.text.census import Census
from seq2attn.text.letters import Letters, closer
from seq2attn.text.manner import unlike
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import UNK

FEW, LONGEST = 5, 40
"""Lines, or unknown words, that are named, and characters of a word; of more lines the number is told."""
MOST = 1000
"""Lines that wait to be counted."""
ENOUGH = 500
"""Words after which what was noticed of the text is said, rather than at the end."""
FAIR = 30
"""Words from which one can tell how a text is written."""
MANY_LETTERS, CLEAR = 200, 0.1
"""Letters from which one can tell of which side they are, and how many nats a letter likelier they must be there."""


class InputWarning(UserWarning):
    """Something about what was given to be translated."""


class Noticed:
    """What was noticed of the lines so far. `learnt` tells what the model learnt from, where that is known."""

    def __init__(self, learnt: PairsReport | None = None) -> None:
        self._learnt = learnt
        self._census: Census | None = None
        self._waiting: list[str] = []  # to be counted once there are many, or something is to be told of them
        self._words = self._judged = 0
        self.lines = self.tokens = self.unknown = 0
        self._unknown_words: dict[str, int] = {}  # and the line of each
        self._long: list[str] = []
        self._cut_off: list[int] = []
        self._told_long = 0
        self._told: dict[str, int] = {}  # what was said of the text, and after how many lines

    def read(self, readings: Sequence[Reading], tokenizer: Tokenizer) -> None:
        """The next lines, as they are given to the search."""
        if self._learnt is not None:
            self._waiting += [reading.line for reading in readings]
            self._words += sum([len(reading.line.split()) for reading in readings])
        if len(self._waiting) >= MOST:
            self._counted()
        for number, reading in enumerate(readings, self.lines + 1):
            self.tokens += reading.tokens
            self.unknown += reading.unknown
            if reading.unknown and len(self._unknown_words) < FEW:
                self._name_unknown(reading.line, number, tokenizer)
            if reading.concern is not None:
                self.too_long(number, reading.concern)
        self.lines += len(readings)

    def too_long(self, line: int, concern: str) -> None:
        """A line was too long for the model, or for the memory."""
        self._long.append(f"line {line:,}: {concern}")

    def cut_off(self, lines: Sequence[int]) -> None:
        """The translations of these lines became as long as the search lets them be."""
        self._cut_off += lines

    @property
    def unknown_rate(self) -> float:
        """The share of tokens that are `<unk>`."""
        return self.unknown / max(self.tokens, 1)

    def news(self) -> Iterator[str]:
        """What is worth saying before all has been translated, each thing once."""
        yield from self._long[self._told_long : FEW]
        self._told_long = min(len(self._long), FEW)
        if self._words >= max(ENOUGH, 2 * self._judged):  # not anew for each line of a long conversation
            self._judged = self._words
            for kind, said in self._text():
                if kind not in self._told:
                    self._told[kind] = self.lines
                    yield f"{said} (in the first {self.lines:,} lines)"

    def rest(self) -> Iterator[str]:
        """What is still to be said in the end."""
        yield from self.lengths()
        for kind, said in self._text():
            if self._told.get(kind) is None or (kind == "unknown" and self._told[kind] < self.lines):
                yield said

    def lengths(self) -> Iterator[str]:
        """What is still to be said of lines that are too long, and of translations that were cut off."""
        yield from self._long[self._told_long : FEW]
        if (more := len(self._long) - FEW) > 0:
            yield f"{more:,} more lines are too long"
        if self._cut_off:
            shown = ", ".join(f"{line:,}" for line in self._cut_off[:FEW])
            others = f" and {len(self._cut_off) - FEW:,} more" if len(self._cut_off) > FEW else ""
            what = "translations of lines" if len(self._cut_off) > 1 else "the translation of line"
            limits = "`search.lengths.max_length` and `max_ratio`"
            yield f"{what} {shown}{others} became as long as {limits} let them, and may have been cut off"

    def _text(self) -> Iterator[tuple[str, str]]:
        """What is to be said of the text as a whole, each kind of thing by a name."""
        if self.unknown_rate > UNKNOWN:
            words = ", ".join(f"`{word}` (line {line:,})" for word, line in self._unknown_words.items())
            share = f"{self.unknown_rate:.1%} of the tokens, {self.unknown:,} of {self.tokens:,}"
            yield "unknown", f"the model does not know {share}" + (words and f", such as {words}")
        if self._learnt is None or self._words < FAIR:
            return
        learnt, census = self._learnt.source, self._counted()
        if _is_of_target(census.letters(LETTERS), self._learnt):
            yield "language", "the input looks like text in the language translated into, by its letters"
        for kind, what in unlike(census.manner, learnt.manner, case_matters=learnt.case_matters).items():
            yield kind, f"the input {what}"

    def _counted(self) -> Census:
        """All lines so far."""
        self._census = self._census or Census()
        self._census.add(self._waiting)
        self._waiting = []
        return self._census

    def _name_unknown(self, line: str, number: int, tokenizer: Tokenizer) -> None:
        for word in line.split():
            if len(self._unknown_words) < FEW and UNK in tokenizer.encode(word):
                self._unknown_words.setdefault(_printable(word[:LONGEST]), number)


def _is_of_target(letters: Letters, learnt: PairsReport) -> bool:
    source, target = (side.letters for _, side in learnt.sides)
    known = min(sum(some.values()) for some in (letters, source, target))
    return known >= MANY_LETTERS and closer(letters, target, source) > CLEAR


def _printable(word: str) -> str:
    """The word as it may be sent to a terminal, to which some characters are commands."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)

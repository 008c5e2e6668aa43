"""Looks at pairs as they go by, and tells in the end what they are like.

Text is looked at some lines at a time, and never cut into tokens again. What is remembered of a pair are some numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from seq2attn.data.filter import Encoded
from seq2attn.data.report import Found, PairsReport, SideReport
from seq2attn.data.seen import Seen, line_numbers, pair_numbers
from seq2attn.data.spread import Spread
from seq2attn.text.alphabet import Alphabet
from seq2attn.text.census import Census, Lines
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import UNK

CHUNK = 1000
"""Lines looked at together."""
FIRST = 5
"""Lines whose numbers are told of each thing that was found."""
LETTERS = 300
"""Letters whose frequency is told: more than most alphabets have."""
CASED = 100
"""Lines with capitals that show whether a tokeniser minds them."""


class Inspector:
    """What the pairs are like that have gone by."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        alphabet = Alphabet()
        self._sides = _Side(source, alphabet), _Side(target, alphabet)
        self._held: list[Encoded] = []

    def watch(self, pairs: Iterable[Encoded]) -> Iterator[Encoded]:
        """The pairs; they are all counted when the last one has been taken."""
        for pair in pairs:
            self._held.append(pair)
            if len(self._held) == CHUNK:
                self._look()
            yield pair
        self._look()

    def _look(self) -> None:
        held, self._held = self._held, []
        if held:
            self._sides[0].look([pair.text[0] for pair in held], [pair.source for pair in held])
            self._sides[1].look([pair.text[1] for pair in held], [pair.target for pair in held])

    @property
    def seen(self) -> Seen:
        """The pairs, to be known again."""
        source, target = self._sides
        return Seen.of(source.numbers, target.numbers)

    def report(self, learnt: Seen | None = None) -> PairsReport:
        """What there was. `learnt` tells which of it a model learns from."""
        source, target = self._sides
        numbers = source.numbers, target.numbers
        lengths = source.lengths, target.lengths
        empty = lengths[0] == 0, lengths[1] == 0
        has_letters = source.scripts > 0
        scripts = source.main_script, target.main_script
        is_swapped = (source.scripts == scripts[1]) & (target.scripts == scripts[0])
        learnt_sources, learnt_pairs = (None, None) if learnt is None else learnt.overlap(*numbers)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(empty[0] | empty[1], np.nan, lengths[1] / lengths[0])
        return PairsReport(
            pairs=len(lengths[0]),
            source=source.report(),
            target=target.report(),
            ratio=Spread.of(ratio),
            one_sided=_found(empty[0] ^ empty[1]),
            duplicates=len(lengths[0]) - len(np.unique(pair_numbers(*numbers))),
            identical=_found((numbers[0] == numbers[1]) & has_letters),
            swapped=_found(is_swapped & (scripts[0] != scripts[1]) & has_letters),
            learnt_pairs=learnt_pairs,
            learnt_sources=learnt_sources,
        )


class _Side:
    """What the lines of one side are like."""

    def __init__(self, tokenizer: Tokenizer, alphabet: Alphabet) -> None:
        self._tokenizer, self._alphabet, self._census = tokenizer, alphabet, Census(alphabet)
        self._lines: list[Lines] = []
        self._numbers: list[NDArray[np.uint64]] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._characters: list[NDArray[np.int64]] = []
        self._cased: list[str] = []
        self._unknown = self._empty = 0

    def look(self, lines: Sequence[str], ids: Sequence[list[int]]) -> None:
        """Some more lines and the ids they were cut into."""
        self._lines.append(self._census.look(lines))
        self._numbers.append(line_numbers(lines))
        self._lengths.append(np.fromiter(map(len, ids), dtype=np.int64, count=len(ids)))
        self._characters.append(np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)))
        self._unknown += sum([line.count(UNK) for line in ids])
        self._empty += sum([not line or line.isspace() for line in lines])
        if wanted := CASED - len(self._cased):
            self._cased += islice((line for line in lines if line != line.lower()), wanted)

    @property
    def numbers(self) -> NDArray[np.uint64]:
        """[L], equal for equal lines"""
        return np.concatenate([np.zeros(0, dtype=np.uint64), *self._numbers])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens, [L]"""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._lengths])

    @property
    def scripts(self) -> NDArray[np.uint8]:
        """The script of each line [L], a number of the alphabet's; 0: it has no letters."""
        return np.concatenate([np.zeros(0, dtype=np.uint8), *(one.script for one in self._lines)])

    @property
    def main_script(self) -> int:
        """That of most letters."""
        return self._alphabet.scripts.index(self._census.manner.script or "")

    def report(self) -> SideReport:
        """What there was."""
        manner, lengths = self._census.manner, self.lengths
        characters = np.concatenate([np.zeros(0, dtype=np.int64), *self._characters])
        return SideReport(
            tokens=Spread.of(lengths),
            characters=Spread.of(characters),
            all_tokens=int(lengths.sum()),
            unknown=self._unknown,
            empty=self._empty,
            script=manner.script,
            other_script=_found((self.scripts > 0) & (self.scripts != self.main_script)),
            control=self._flagged("control"),
            replaced=self._flagged("replaced"),
            garbled=self._flagged("garbled"),
            case_matters=self._minds_case(),
            manner=manner,
            letters=self._census.letters(LETTERS),
        )

    def _flagged(self, name: str) -> Found:
        return _found(np.concatenate([np.zeros(0, dtype=bool), *(getattr(one, name) for one in self._lines)]))

    def _minds_case(self) -> bool:
        cut = self._tokenizer.encode
        return not self._cased or any(cut(line) != cut(line.lower()) for line in self._cased)


def _found(flags: NDArray[np.bool_]) -> Found:
    lines = flags.nonzero()[0]
    return Found(len(lines), tuple((lines[:FIRST] + 1).tolist()))


def inspect_pairs(
    pairs: Iterable[tuple[str, str]], source: Tokenizer, target: Tokenizer, learnt: Seen | None
) -> PairsReport:
    """What some pairs are like that are not learnt from."""
    inspector = Inspector(source, target)
    encoded = (Encoded(pair, source.encode(pair[0]), target.encode(pair[1])) for pair in pairs)
    for _ in inspector.watch(encoded):
        pass
    return inspector.report(learnt)

"""What lines are made of, counted for many of them at once: an array operation for all costs less than a look at each.

Shapes: L lines, C characters of all of them, with the end of each line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2attn.text.alphabet import CONTROL, LOWER, REPLACED, SPACE, STOP, UPPER, WIDE_STOP, Alphabet
from seq2attn.text.manner import CONTINUED, ESCAPES, JOINED, PIECES, Manner

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Lines:
    """What each of some lines is."""

    script: NDArray[
        np.uint8
    ]  # [L] of most of its letters, a number of `Alphabet.scripts`; 0: there is no letter
    control: Flags  # [L] has a control character
    replaced: Flags  # [L] has U+FFFD, which stands where something could not be decoded
    garbled: Flags  # [L] has UTF-8 that was read as Latin-1, such as `Ã¤` for `ä`


class Census:
    """The counts of all lines so far."""

    def __init__(self, alphabet: Alphabet | None = None) -> None:
        self.alphabet = alphabet or Alphabet()
        self._counts = np.zeros(1, dtype=np.int64)  # [characters met]
        self._words = self._alone = self._attached = 0
        self._marks = dict.fromkeys((CONTINUED, PIECES, JOINED, "escapes"), 0)

    def add(self, lines: Sequence[str]) -> None:
        """Count some more lines."""
        self._count(*self._read(lines))

    def look(self, lines: Sequence[str]) -> Lines:
        """Count some more lines, and tell what each of them is."""
        codes, numbers, text = self._read(lines)
        traits = self._count(codes, numbers, text)
        lengths = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)) + 1
        ends = lengths.cumsum()

        def has(flags: Flags) -> Flags:
            found = np.zeros(len(lines), dtype=np.bool_)
            found[ends.searchsorted(flags[1:].nonzero()[0], side="right")] = True
            return found

        return Lines(
            self._scripts(self.alphabet.script[numbers[1:]], ends),
            has((traits & CONTROL) > 0),
            has((traits & REPLACED) > 0),
            has(_garbled(codes)),
        )

    def _scripts(self, script: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The script of each character [C] -> that of most letters of each line [L]"""
        starts = np.append(0, ends[:-1])
        present = (np.bincount(script, minlength=2)[1:] > 0).nonzero()[0] + 1
        if len(present) == 1:  # nearly always; then whether there are letters is all there is to ask
            return np.maximum.reduceat(script, starts)
        letters = [np.add.reduceat(script == number, starts, dtype=np.int64) for number in (0, *present)]
        letters[0][:] = 0
        return np.append(0, present).astype(np.uint8)[np.stack(letters).argmax(axis=0)]

    def _read(self, lines: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.intp], str]:
        """Code points and numbers [C + 1] of the lines, an end before the first and after each."""
        text = "\n" + "\n".join(lines) + "\n"
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return codes, self.alphabet.number(codes), text

    def _count(self, codes: NDArray[np.uint32], numbers: NDArray[np.intp], text: str) -> NDArray[np.uint8]:
        counts = np.bincount(numbers, minlength=len(self.alphabet.characters))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        traits = self.alphabet.traits[numbers]
        space = (traits & SPACE) > 0
        before, after = space[:-2], space[2:]
        stop, wide = ((traits[1:-1] & bit) > 0 for bit in (STOP, WIDE_STOP))
        alone = (stop | wide) & before & after
        attached = ~before & ((stop & after) | wide)
        split = text.count(" n't")
        self._words += int(np.count_nonzero(~space[1:] & space[:-1]))
        self._alone += int(np.count_nonzero(alone)) + split
        self._attached += int(np.count_nonzero(attached)) + text.count("n't") - split
        for mark in (CONTINUED, PIECES, JOINED):
            self._marks[mark] += text.count(mark)
        if "&" in text or "@-@" in text:
            self._marks["escapes"] += sum(map(text.count, ESCAPES))
        return traits

    @property
    def manner(self) -> Manner:
        """How the lines so far are written."""
        alphabet = self.alphabet
        counts, traits = self._counts, alphabet.traits[: len(self._counts)]
        of_script = np.bincount(
            alphabet.script[: len(counts)], weights=counts, minlength=len(alphabet.scripts)
        )
        scripts = {name: int(n) for name, n in zip(alphabet.scripts, of_script, strict=True) if name and n}
        return Manner(
            words=self._words,
            alone=self._alone,
            attached=self._attached,
            escapes=self._marks["escapes"],
            continued=self._marks[CONTINUED],
            pieces=self._marks[PIECES],
            joined=self._marks[JOINED],
            upper=int(counts[(traits & UPPER) > 0].sum()),
            lower=int(counts[(traits & LOWER) > 0].sum()),
            scripts=scripts,
        )

    def letters(self, most: int) -> dict[str, int]:
        """How often each letter stands in the lines so far: the `most` frequent, those first."""
        found = [
            (-int(count), character)
            for character, count, script in zip(
                self.alphabet.characters, self._counts.tolist(), self.alphabet.script.tolist(), strict=False
            )
            if script and count
        ]
        return {character: -count for count, character in sorted(found)[:most]}


def _garbled(codes: NDArray[np.uint32]) -> Flags:
    """Where two characters stand that are one in UTF-8: [C + 1] -> [C + 1]"""
    first, second = codes[:-1], codes[1:]
    of_two = ((first == 0xC2) | (first == 0xC3)) & (second >= 0x80) & (second <= 0xBF)
    quotes = (first == ord("â")) & ((second == ord("€")) | (second == 0x80))
    return np.append(of_two | quotes, False)

"""Warnings about the lines of a call that translates; all of them are translated nevertheless."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seq2attn.data.inspection.report import MAX_UNKNOWN_SHARE
from seq2attn.data.inspection.statistics import CorpusReport
from seq2attn.data.inspection.text_style import TextStyle, style_differences
from seq2attn.source_line import SourceLine
from seq2attn.text.tags import TaggedTokenizer, split_tag
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import UNK

MAX_EXAMPLES, MAX_WORD_LENGTH = 5, 40
"""Lines, or unknown words, that are named, and characters of a word; of more lines the number is told."""
EARLY_WARNING_TOKENS = 500
"""Tokens after which a warning about the text as a whole does not wait for the end."""


class InputWarning(UserWarning):
    """A warning about text given to be translated."""


class Noticed:
    """Counts over the lines so far, and the warnings that follow. `learnt` describes the training text, if known."""

    def __init__(self, learnt: CorpusReport | None = None) -> None:
        self._learnt, self._style = learnt, TextStyle()
        self.lines = self.tokens = self.unknown = 0
        self._unknown_words: dict[str, int] = {}  # and the line of each
        self._untagged: list[int] = []
        self._tags = ""
        self._long: list[str] = []
        self._cut_off: list[int] = []
        self._told_long = 0
        self._is_text_told = False

    def read(self, lines: Sequence[SourceLine], tokenizer: Tokenizer) -> None:
        """Count the next lines, as they are given to the search."""
        if self._learnt is not None:
            self._style += TextStyle.from_lines([one.line for one in lines])
        if isinstance(tokenizer, TaggedTokenizer) and tokenizer.required:
            self._tags = ", ".join(f"`{tag}`" for tag in tokenizer.tags)
            numbered = enumerate(lines, self.lines + 1)
            self._untagged += [
                n for n, one in numbered if one.num_tokens and not split_tag(tokenizer, one.line)[0]
            ]
        for number, one in enumerate(lines, self.lines + 1):
            self.tokens += one.num_tokens
            self.unknown += one.num_unknown
            if one.num_unknown and len(self._unknown_words) < MAX_EXAMPLES:
                self._name_unknown(one.line, number, tokenizer)
            if one.warning is not None:
                self._long.append(f"line {number:,}: {one.warning}")
        self.lines += len(lines)

    def cut_off(self, lines: Sequence[int]) -> None:
        """The translations of these lines became as long as the search lets them be."""
        self._cut_off += lines

    def news(self) -> Iterator[str]:
        """New warnings, before all has been translated."""
        yield from self._long[self._told_long : MAX_EXAMPLES]
        self._told_long = min(len(self._long), MAX_EXAMPLES)
        if self.tokens >= EARLY_WARNING_TOKENS:
            yield from (f"{line} (in the first {self.lines:,} lines)" for line in self._text())

    def rest(self) -> Iterator[str]:
        """The warnings that are left in the end."""
        yield from self.lengths()
        yield from self._text()

    def lengths(self) -> Iterator[str]:
        """The warnings left about lines that are too long, and about translations that were cut off."""
        yield from self._long[self._told_long : MAX_EXAMPLES]
        if (more := len(self._long) - MAX_EXAMPLES) > 0:
            yield f"{more:,} more lines are too long"
        if self._cut_off:
            shown = ", ".join(f"{line:,}" for line in self._cut_off[:MAX_EXAMPLES])
            more = len(self._cut_off) - MAX_EXAMPLES
            others = f" and {more:,} more" if more > 0 else ""
            what = "translations of lines" if len(self._cut_off) > 1 else "the translation of line"
            limits = "`search.lengths.max_length` and `max_ratio`"
            yield f"{what} {shown}{others} became as long as {limits} let them, and may have been cut off"

    def _text(self) -> Iterator[str]:
        """Warnings about the text as a whole, once."""
        if self._is_text_told:
            return
        found = [f"the input {what}" for what in self._style_differences()]
        if self.unknown > MAX_UNKNOWN_SHARE * self.tokens:
            words = ", ".join(f"`{word}` (line {line:,})" for word, line in self._unknown_words.items())
            share = f"{self.unknown / self.tokens:.1%} of the tokens, {self.unknown:,} of {self.tokens:,}"
            found.append(f"the model does not know {share}" + (words and f", such as {words}"))
        if self._untagged:
            lines = (
                f"line {self._untagged[0]:,}"
                if len(self._untagged) == 1
                else f"{len(self._untagged):,} lines"
            )
            found.append(f"{lines} without a tag; all training text had one of {self._tags} (see `--tag`)")
        self._is_text_told = bool(found)
        yield from found

    def _style_differences(self) -> list[str]:
        return [] if self._learnt is None else style_differences(self._style, self._learnt.source.style)

    def _name_unknown(self, line: str, number: int, tokenizer: Tokenizer) -> None:
        for word in line.split():
            if len(self._unknown_words) < MAX_EXAMPLES and UNK in tokenizer.encode(word):
                self._unknown_words.setdefault(_printable(word[:MAX_WORD_LENGTH]), number)


def _printable(word: str) -> str:
    """The word as it may be sent to a terminal, to which some characters are commands."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)

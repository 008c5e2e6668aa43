"""Checks of input lines. They produce warnings; all lines are translated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seq2attn.data.inspection.report import MAX_UNKNOWN_SHARE
from seq2attn.data.inspection.statistics import CorpusReport, TextStyle
from seq2attn.inference.source_line import SourceLine
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.tags import TaggedTokenizer

MAX_EXAMPLES = 5
"""Maximum number of lines that a warning names; it counts the others."""
EARLY_WARNING_TOKENS = 500
"""Tokens after which warnings about the text as a whole are given before its end."""


class InputWarning(UserWarning):
    """A warning about text to be translated."""


class InputChecker:
    """Counts over the input lines, and their warnings. `training` describes the training text, if known."""

    def __init__(self, training: CorpusReport | None = None) -> None:
        self._training, self._style = training, TextStyle()
        self.num_lines = self.num_tokens = self.num_unknown = 0
        self._with_unknown: list[int] = []
        self._untagged: list[int] = []
        self._long: list[str] = []
        self._truncated: list[int] = []
        self._num_long_reported = 0
        self._is_text_reported = False

    def add_lines(self, lines: Sequence[SourceLine], tokenizer: Tokenizer) -> None:
        """Count the next lines."""
        self._style += TextStyle.from_lines([one.line for one in lines]) if self._training else TextStyle()
        needs_tag = isinstance(tokenizer, TaggedTokenizer) and tokenizer.required
        for number, one in enumerate(lines, self.num_lines + 1):
            self.num_tokens += one.num_tokens
            self.num_unknown += one.num_unknown
            if one.num_unknown:
                self._with_unknown.append(number)
            if needs_tag and one.num_tokens and not tokenizer.split_tag(one.line)[0]:
                self._untagged.append(number)
            if one.warning is not None:
                self._long.append(f"line {number:,}: {one.warning}")
        self.num_lines += len(lines)

    def add_truncated(self, lines: Sequence[int]) -> None:
        """Count lines whose translations have the maximum length."""
        self._truncated += lines

    def new_warnings(self, *, is_end: bool) -> Iterator[str]:
        """Warnings that were not given before. Before the end, those about the text need `EARLY_WARNING_TOKENS`."""
        yield from self.length_warnings(is_end=is_end)
        if self._is_text_reported or not (is_end or self.num_tokens >= EARLY_WARNING_TOKENS):
            return
        place = "" if is_end else f" (in the first {self.num_lines:,} lines)"
        for warning in self._text_warnings():
            self._is_text_reported = True
            yield warning + place

    def length_warnings(self, *, is_end: bool = True) -> Iterator[str]:
        """New warnings about lines that are too long; at the end also about translations that may be truncated."""
        yield from self._long[self._num_long_reported : MAX_EXAMPLES]
        self._num_long_reported = min(len(self._long), MAX_EXAMPLES)
        if is_end and (more := len(self._long) - MAX_EXAMPLES) > 0:
            yield f"{more:,} more lines are too long"
        if is_end and self._truncated:
            limits = "`search.lengths.max_length` and `max_length_ratio`"
            yield f"translations have the maximum length ({limits}) and may be truncated: {_enumerate(self._truncated)}"

    def _text_warnings(self) -> Iterator[str]:
        """Warnings about the text as a whole."""
        if self._training:
            yield from (
                f"the input {difference}" for difference in self._style.differences(self._training.source.style)
            )
        if self.num_unknown > MAX_UNKNOWN_SHARE * self.num_tokens:
            counts = f"{self.num_unknown:,} of {self.num_tokens:,}"
            share = f"{self.num_unknown / self.num_tokens:.1%} of the tokens, {counts}"
            yield f"the model does not know {share}, in {_enumerate(self._with_unknown)}"
        if self._untagged:
            yield f"{_enumerate(self._untagged)} without a tag; all training text had one (see `--tag`)"


def _enumerate(lines: Sequence[int]) -> str:
    """The first lines by their numbers, and the number of the others."""
    more = len(lines) - MAX_EXAMPLES
    numbers = ", ".join(f"{line:,}" for line in lines[:MAX_EXAMPLES])
    return f"{'lines' if len(lines) > 1 else 'line'} {numbers}" + (f" and {more:,} more" if more > 0 else "")

"""Checks of input lines. They produce warnings; all lines are translated."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from warnings import warn

from seq2attn.data.inspection import MAX_UNKNOWN_SHARE, describe_unknown
from seq2attn.errors import UserError
from seq2attn.inference.source_line import SourceLine
from seq2attn.search.translate_ids import NOT_FINITE
from seq2attn.tokenizers.base import Tokenizer

MAX_EXAMPLES = 5
"""Maximum number of lines that a warning names; it counts the others."""
UNTAGGED = "no tag, although all training text had one; give ``tag``, or begin the lines with one"
INVALID_UTF8 = "not UTF-8; the invalid bytes are replaced; convert the input to UTF-8, for example with iconv"
TRUNCATED = (
    "the translation has the maximum length (`search.lengths.max_length` and `max_length_ratio`) and may be truncated"
)
LONG_TERMS = (
    "terms of the glossary have more tokens than `search.lengths.max_length` allows; translated without these terms"
)


class InputWarning(UserWarning):
    """A warning about text to be translated."""


class InputChecker:
    """Counts over the input lines, and their warnings. `trained` are the characters of the training text, if known."""

    def __init__(self, trained: frozenset[str] = frozenset()) -> None:
        self.num_lines = self.num_tokens = self.num_unknown = 0
        self._with_unknown: list[int] = []
        self._characters, self._with_unknown_characters = Counter[str](), list[int]()
        self._trained = self._known = trained
        self._lines: dict[str, list[int]] = defaultdict(list)  # numbers of lines by their warning
        self.not_finite: list[int] = []  # lines that the model cannot translate

    def add_lines(self, lines: Sequence[SourceLine], tokenizer: Tokenizer) -> None:
        """Count the next lines."""
        self._known = self._trained or tokenizer.characters
        for number, one in enumerate(lines, self.num_lines + 1):
            self.num_tokens += one.num_tokens
            self.num_unknown += one.num_unknown
            if one.num_unknown:
                self._with_unknown.append(number)
            if self._known:
                # A model of SentencePiece has its own normalization, such as that of full-width punctuation.
                decoded = map(tokenizer.decode, one.segments)
                characters = tokenizer.untagged(one.line) if self._trained else "".join(decoded)
                self._characters.update(characters)
                if not self._known.issuperset(characters):
                    self._with_unknown_characters.append(number)
            if tokenizer.lacks_tag(one.line):
                self._lines[UNTAGGED].append(number)
            if one.warning is not None:
                self._lines[one.warning].append(number)
        self.num_lines += len(lines)

    def add(self, warning: str, lines: Sequence[int]) -> None:
        """Count lines with a warning."""
        if lines:
            self._lines[warning] += lines

    def warnings(self) -> Iterator[str]:
        """Warnings about lines, then about the text as a whole."""
        yield from self.line_warnings()
        if self.num_unknown > MAX_UNKNOWN_SHARE * self.num_tokens:
            share = f"{self.num_unknown / self.num_tokens:.1%} of the tokens"
            counts = f"{self.num_unknown:,} of {self.num_tokens:,}"
            yield f"the model does not know {share}, {counts}, in {enumerate_lines(self._with_unknown)}"
        elif self._with_unknown_characters and (unknown := describe_unknown(self._characters, self._known)):
            yield f"the model does not know {unknown}, in {enumerate_lines(self._with_unknown_characters)}"

    def line_warnings(self) -> Iterator[str]:
        """Warnings about lines: not UTF-8, too long, without a tag; and about translations that may be truncated."""
        yield from (f"{enumerate_lines(lines)}: {warning}" for warning, lines in self._lines.items())


def not_finite_errors(lines: Sequence[int]) -> list[str]:
    """The error, if any, about the numbers of lines for which the model gives no finite log-probabilities."""
    return [f"{enumerate_lines(lines)}: {NOT_FINITE}"] if lines else []


def check_finite(lines: Sequence[int], place: str = "") -> None:
    """Raises UserError if the model gives no finite log-probabilities for lines of a file or test set."""
    for message in not_finite_errors(lines):
        raise UserError(f"{place}{message}")


def enumerate_lines(lines: Sequence[int]) -> str:
    """The first lines by their numbers, and the number of the others."""
    more = len(lines) - MAX_EXAMPLES
    numbers = ", ".join(f"{line:,}" for line in lines[:MAX_EXAMPLES])
    return f"{'lines' if len(lines) > 1 else 'line'} {numbers}" + (f" and {more:,} more" if more > 0 else "")


def warn_at_caller(checker: InputChecker) -> None:
    """Warnings of inputs and of translations that are not finite, at the caller of the public method."""
    for message in (*checker.warnings(), *not_finite_errors(checker.not_finite)):
        warn(message, InputWarning, stacklevel=3)

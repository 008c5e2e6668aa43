"""A line as it is given to a search: whole, or in parts where it is too long for the model; and its translation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seq2attn.errors import UserError
from seq2attn.reach import Reach
from seq2attn.search.batched import Hypothesis
from seq2attn.search.config import Long
from seq2attn.text.shorten import shorten
from seq2attn.text.tags import split_tag
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import UNK


@dataclass(frozen=True)
class Reading:
    """What is translated of a line."""

    line: str
    parts: tuple[tuple[int, ...], ...]  # ids; one part but for a line that is split
    texts: tuple[str, ...] = ()  # the text of the parts, where they are not the whole line at once
    tokens: int = 0  # of the line
    unknown: int = 0  # of these
    concern: str | None = None  # what is to be said of a line that is too long
    prefix: tuple[int, ...] = ()  # the first tokens of the translation

    @classmethod
    def of(cls, tokenizer: Tokenizer, line: str, how: Long, reach: Reach | None) -> Reading:
        """The line, read in the way asked for if it is beyond `reach`."""
        ids = tokenizer.encode(line)
        unknown = ids.count(UNK)
        if reach is None or len(ids) <= reach.tokens:
            return cls(line, (tuple(ids),), (), len(ids), unknown)
        parts, texts, done = _shortened(tokenizer, line, ids, how, reach.tokens)
        concern = f"{len(ids):,} tokens, and {reach.why}; {done}"
        return cls(line, parts, texts, len(ids), unknown, concern)

    @property
    def prefixes(self) -> list[tuple[int, ...]]:
        """The prefix of each part: the first has that of the line."""
        return [self.prefix, *[()] * (len(self.parts) - 1)]

    @property
    def longest(self) -> int:
        """Tokens of the longest part."""
        return max(map(len, self.parts))


def encode_prefix(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The tokens that a translation begins with. Raises UserError for text with unknown tokens."""
    ids = tuple(tokenizer.encode(text))
    if UNK in ids:
        raise UserError(f"no translation can begin with {text!r}: the model does not know all of its tokens")
    return ids


def _shortened(
    tokenizer: Tokenizer, line: str, ids: list[int], how: Long, most: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...], str]:
    """Ids and texts of the parts, and what was done, for people."""
    if how == "whole":
        return (tuple(ids),), (), "translated whole all the same"
    if how == "truncate":
        kept = ids[:most]
        return (tuple(kept),), (tokenizer.decode(kept),), f"only the first {most:,} are translated"
    tag, rest = split_tag(tokenizer, line)  # which each part has
    room = max(1, most - 1) if tag else most
    texts = shorten(rest, room, lambda text: len(tokenizer.encode(text))) or [rest]
    texts = [f"{tag} {text}" if tag else text for text in texts]
    # A letter may have more tokens than there is room for: bytes, after the mark of a space.
    parts = tuple(tuple(tokenizer.encode(text)[:most]) for text in texts)
    return parts, tuple(texts), f"translated in {len(parts):,} parts"


def ranked(parts: Sequence[Sequence[Hypothesis]]) -> Iterator[tuple[Hypothesis, ...]]:
    """The best hypotheses of all parts together, then the second-best ones, and so on.

    A part that has fewer stays with its last.
    """
    for rank in range(max(map(len, parts))):
        yield tuple(some[min(rank, len(some) - 1)] for some in parts)


def joined_score(reading: Reading, hypotheses: Sequence[Hypothesis]) -> float:
    """The mean of the parts' scores, which source tokens weigh: those of better parts are never lower."""
    if len(hypotheses) == 1:
        return hypotheses[0].score
    weights = [len(part) for part in reading.parts]
    scores = zip(weights, hypotheses, strict=True)
    return sum(weight * one.score for weight, one in scores) / max(sum(weights), 1)

"""A source line as a search takes it: token ids, in segments where it is too long; and their hypotheses as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seq2attn.errors import UserError
from seq2attn.inference.long_inputs import SourceLimit, split_sentences, split_tokens
from seq2attn.search.config import LengthsConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.tags import split_tag
from seq2attn.tokenizers.vocabulary import UNK


@dataclass(frozen=True)
class SourceLine:
    """A line in token ids, and the warning if it is too long."""

    line: str
    segments: tuple[tuple[int, ...], ...]  # ids; one segment unless the line is split
    segment_texts: tuple[str, ...] = ()  # what is translated of a line that is too long
    num_tokens: int = 0
    num_unknown: int = 0
    warning: str | None = None
    prefix: tuple[int, ...] = ()  # first tokens of the translation

    @classmethod
    def encode(
        cls, tokenizer: Tokenizer, line: str, lengths: LengthsConfig, limit: SourceLimit | None
    ) -> SourceLine:
        """The line, split or truncated if it has more tokens than `limit`."""
        ids = tokenizer.encode(line)
        unknown = ids.count(UNK)
        if limit is None or len(ids) <= limit.max_tokens:
            return cls(line, (tuple(ids),), (), len(ids), unknown)
        if lengths.long_inputs == "truncate":
            segments: tuple[tuple[int, ...], ...] = (tuple(ids[: limit.max_tokens]),)
            texts: tuple[str, ...] = (tokenizer.decode(segments[0]),)
            action = f"only the first {limit.max_tokens:,} are translated"
        else:
            pairs = _split(tokenizer, line, limit.max_tokens, lengths.source_language)
            segments, texts = zip(*pairs, strict=True)
            action = f"translated in {len(segments):,} parts"
        warning = f"{len(ids):,} tokens, and {limit.reason}; {action}"
        return cls(line, segments, texts, len(ids), unknown, warning)

    @property
    def prefixes(self) -> list[tuple[int, ...]]:
        """The prefix of each segment: the first has that of the line."""
        return [self.prefix, *[()] * (len(self.segments) - 1)]


def _split(
    tokenizer: Tokenizer, line: str, max_tokens: int, language: str
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Ids and text of each sentence, in runs where it is too long; each with the tag of the line."""
    tag, rest = split_tag(tokenizer, line)
    tag_ids = tuple(tokenizer.encode(tag)) if tag else ()
    room = max(1, max_tokens - len(tag_ids))
    for sentence in split_sentences(rest, language):
        runs = [*split_tokens(tokenizer, tokenizer.encode(sentence), room)]
        for ids in runs:
            text = sentence if len(runs) == 1 else tokenizer.decode(ids)
            yield (*tag_ids, *ids), f"{tag} {text}" if tag else text


def encode_prefix(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The tokens that a translation begins with. Raises UserError for text with unknown tokens."""
    ids = tuple(tokenizer.encode(text))
    if UNK in ids:
        raise UserError(f"no translation can begin with {text!r}: the model does not know all of its tokens")
    return ids


def zip_by_rank(segments: Sequence[Sequence[Hypothesis]]) -> Iterator[tuple[Hypothesis, ...]]:
    """The best hypotheses of all segments together, then the second-best ones, and so on.

    A segment that has fewer stays with its last.
    """
    for rank in range(max(map(len, segments))):
        yield tuple(some[min(rank, len(some) - 1)] for some in segments)


def combined_score(line: SourceLine, hypotheses: Sequence[Hypothesis]) -> float:
    """The mean score of the segments, weighted by source tokens: never lower for better segments."""
    if len(hypotheses) == 1:
        return hypotheses[0].score
    weights = [len(segment) for segment in line.segments]
    scores = zip(weights, hypotheses, strict=True)
    return sum(weight * one.score for weight, one in scores) / max(sum(weights), 1)

"""A source line as a search takes it: token ids, in segments where it is too long; and their hypotheses as one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sentencex

from seq2attn.attention.config import AttentionConfig
from seq2attn.encoders import (
    BertEncoderConfig,
    ConvolutionalEncoderConfig,
    EncoderConfig,
    TransformerEncoderConfig,
)
from seq2attn.errors import UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.search.config import LengthsConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import collapse_whitespace
from seq2attn.tokenizers.unicode_scripts import is_unspaced
from seq2attn.tokenizers.vocabulary import UNK

_BLOCKS = re.compile(r".{1,10000}(?:(?<=[.!?…।] )|(?<=[。！？])|$)|.{1,10000}")
"""Text that is split into sentences at once: sentencex takes the square of the length where a quote does not end."""


@dataclass(frozen=True)
class SourceLimit:
    """Maximum tokens of a source, without the end."""

    max_tokens: int
    reason: str  # human-readable, after the number of tokens of a line


def model_source_limit(experiment: ExperimentConfig) -> SourceLimit:
    """The limit of a trained model: the longest pairs of its training, or its positions if these are fewer."""
    most = experiment.data.filters.max_length
    limits = [SourceLimit(most, f"the model was trained on none with more than {most:,} (`data.filters.max_length`)")]
    for positions, key in (_encoder_positions(experiment.model.encoder), _score_positions(experiment)):
        if positions is not None:
            most = max(1, positions - 1)  # the end has one
            limits.append(SourceLimit(most, f"the model has positions for {most:,} (`model.{key}`)"))
    return min(limits, key=lambda limit: limit.max_tokens)


def effective_source_limit(lengths: LengthsConfig, model: SourceLimit | None, engine: int | None) -> SourceLimit | None:
    """The limit of a search, before that of the model; never above the `max_source_length` of the engine."""
    own, most = model, lengths.max_source_length
    if most is not None:
        own = SourceLimit(most, f"`search.lengths.max_source_length` allows {most:,}")
    if engine is None or (own is not None and own.max_tokens <= engine):
        return own
    return SourceLimit(engine, f"the engine takes no more than {engine:,}")


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text by sentencex, in their order, with single spaces inside.

    `language` is an ISO 639 code: which full stops end an abbreviation, and no sentence. Unknown ones are as English.
    """
    # Line breaks and wide spaces would make sentencex cut paragraphs, or panic.
    blocks = _BLOCKS.findall(collapse_whitespace(text))
    sentences = (part.strip() for block in blocks for part in sentencex.segment(language, block))
    return [sentence for sentence in sentences if sentence]


def split_tokens(tokenizer: Tokenizer, ids: Sequence[int], max_tokens: int) -> Iterator[tuple[int, ...]]:
    """Ids in runs of at most `max_tokens`, cut between words; a word that is longer is cut between tokens."""
    words = tokenizer.word_ids(ids)
    start = 0
    while len(ids) - start > max_tokens:
        cuts = range(start + max_tokens, start, -1)
        end = next((cut for cut in cuts if words[cut] != words[cut - 1]), start + max_tokens)
        yield tuple(ids[start:end])
        start = end
    yield tuple(ids[start:])


def join_sentences(texts: Sequence[str]) -> str:
    """Translations of the segments of a line in one, with spaces where the script has them."""
    line = ""
    for text in filter(None, texts):
        space = " " if line and not (is_unspaced(line[-1]) or is_unspaced(text[0])) else ""
        line += space + text
    return line


def _encoder_positions(config: EncoderConfig) -> tuple[int | None, str]:
    """Number of positions that an encoder has vectors for, and its config key."""
    match config:
        case TransformerEncoderConfig(position_encoding="learned"):
            return config.max_positions, "encoder.max_positions"
        case ConvolutionalEncoderConfig():
            return config.max_positions, "encoder.max_positions"
        case BertEncoderConfig():
            return (
                config.required_architecture.max_position_embeddings,
                "encoder.architecture.max_position_embeddings",
            )
    return None, ""


def _score_positions(experiment: ExperimentConfig) -> tuple[int | None, str]:
    """Number of positions that attention scores by their number alone, and its config key."""
    attention = getattr(experiment.model.decoder, "attention", None)
    if not isinstance(attention, AttentionConfig) or attention.score.kind != "location":
        return None, ""
    return getattr(attention.score, "max_positions", None), "decoder.attention.score.max_positions"


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
    def encode(cls, tokenizer: Tokenizer, line: str, lengths: LengthsConfig, limit: SourceLimit | None) -> SourceLine:
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


def _split(tokenizer: Tokenizer, line: str, max_tokens: int, language: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Ids and text of each sentence, in runs where it is too long; each with the tag of the line."""
    tag, rest = tokenizer.split_tag(line)
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

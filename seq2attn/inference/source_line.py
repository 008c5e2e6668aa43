"""Encoding of source lines: token ids, in segments if a line is too long, and the combination of their hypotheses."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, filterfalse, islice
from typing import Self

import sentencex
import torch

from seq2attn.errors import UserError
from seq2attn.inference.engines.source_limit import SourceLimit
from seq2attn.inference.translation import Translation
from seq2attn.models import Seq2Seq
from seq2attn.models.ensemble import EnsembleSource
from seq2attn.search.search_config import LengthsConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.normalize import collapse_whitespace, is_blank, join_sentences
from seq2attn.tokenizers.tokenized_text import MAX_CHARACTER_TOKENS, whole_word_ids
from seq2attn.tokenizers.vocabulary import UNK

_BLOCKS = re.compile(r".{1,10000}(?:(?<=[.!?…।۔؟።։།។။] )|(?<=[。！？．｡])|$)|.{1,10000}")
"""Parts of a text that sentencex splits separately: its time is quadratic in the length after an unclosed quote."""
_UNKNOWN_ENDS = re.compile("(?<=[។།]) ")
"""Ends of sentences in Khmer and Tibetan, which sentencex does not know."""

_CODES = (
    "amh am, bak ba, bul bg, cat ca, ces cs, dan da, deu de, ell el, fin fi, fra fr, glg gl, hye hy, ita it, kaz kk,"
    "lim li, lin ln, ltz lb, mal ml, nld nl, oci oc, pol pl, por pt, rus ru, slk sk, spa es, tam ta, tat tt, ukr uk"
)
"""ISO 639-3 codes, as in the names of NLLB's languages, and those of 639-1, by which sentencex knows its rules."""
_TWO_LETTER_CODES = dict(pair.split() for pair in _CODES.split(","))
_SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Halves of UTF-16 characters: not text, but in strings that Python has decoded with `surrogateescape`."""


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text by sentencex, in their order, with single spaces inside.

    `language` is an ISO 639 code, whose abbreviations do not end a sentence. Unknown ones are treated as English.
    """
    # sentencex would split paragraphs at line breaks and wide spaces, or panic.
    blocks, code = _BLOCKS.findall(collapse_whitespace(text)), _TWO_LETTER_CODES.get(language, language)
    parts = (part for block in blocks for part in sentencex.segment(code, block))
    sentences = (sentence.strip() for part in parts for sentence in _UNKNOWN_ENDS.split(part))
    return [sentence for sentence in sentences if sentence]


def split_tokens(tokenizer: Tokenizer, ids: Sequence[int], max_tokens: int) -> Iterator[tuple[int, ...]]:
    """Ids in runs of at most `max_tokens`, split between words, in scripts without spaces between letters.

    A longer word is split between tokens, where possible not between the bytes of a letter.
    """
    words = whole_word_ids(tokenizer, ids)
    start = 0
    while len(ids) - start > max_tokens:
        cuts = range(start + max_tokens, start, -1)
        between_words = (cut for cut in cuts if words[cut] != words[cut - 1])
        between_letters = (
            cut for cut in cuts[:MAX_CHARACTER_TOKENS] if not tokenizer.decode(ids[start:cut]).endswith("\ufffd")
        )
        end = next(chain(between_words, between_letters, cuts))
        yield tuple(ids[start:end])
        start = end
    yield tuple(ids[start:])


@dataclass(frozen=True)
class SourceLine:
    """The token ids of a line, and a warning if it is too long."""

    line: str
    segments: tuple[tuple[int, ...], ...]  # ids; one segment unless the line is split
    segment_texts: tuple[str, ...] = ()  # translated parts of a line that is too long
    num_tokens: int = 0
    num_unknown: int = 0
    warning: str | None = None
    prefix: tuple[int, ...] = ()  # first tokens of the translation

    @classmethod
    def encode(cls, tokenizer: Tokenizer, line: str, lengths: LengthsConfig, limit: SourceLimit | None) -> Self:
        """The line, split or truncated if it has more tokens than `limit`; lone surrogates are replaced by U+FFFD."""
        line = _SURROGATES.sub("\ufffd", line)
        if tokenizer.is_right_to_left:
            forward = cls.encode(tokenizer.with_direction(right_to_left=False), line, lengths, limit)
            return replace(forward, segments=tuple(tokenizer.reverse(line, ids) for ids in forward.segments))
        ids = tokenizer.encode(line)
        unknown = ids.count(UNK)
        if limit is None or len(ids) <= limit.max_tokens:
            return cls(line, (tuple(ids),), (), len(ids), unknown)
        if lengths.long_inputs == "truncate":
            segments: tuple[tuple[int, ...], ...] = (tuple(ids[: limit.max_tokens]),)
            texts: tuple[str, ...] = (tokenizer.decode(segments[0]),)
            action = "only the beginning is translated"
        else:
            pairs = _split(tokenizer, line, limit.max_tokens, lengths.source_language)
            segments, texts = zip(*pairs, strict=True)
            action = "translated in parts"
        warning = f"too many tokens: {limit.reason}; {action}"
        return cls(line, segments, texts, len(ids), unknown, warning)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of each segment."""
        return self.segment_texts or (self.line,)

    def prefixes(self, line_prefix: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The prefix of each segment: that of the line for the first, `line_prefix` where there is none."""
        return [self.prefix or line_prefix, *[line_prefix] * (len(self.segments) - 1)]


@dataclass(frozen=True)
class Member:
    """A model of a translator, alone or in an ensemble."""

    model: Seq2Seq
    tokenizers: TokenizerPair
    source_limit: SourceLimit | None = None  # of the model

    def encode(self, line: str, lengths: LengthsConfig, max_tokens: int | None) -> SourceLine:
        """The line, split or truncated if it has more tokens than the config, else the model, or an engine takes."""
        limit, longest = self.source_limit, lengths.max_source_length
        if longest is not None:
            limit = SourceLimit(longest, f"`search.lengths.max_source_length` allows {longest:,}")
        if max_tokens is not None and (limit is None or limit.max_tokens > max_tokens):
            limit = SourceLimit(max_tokens, f"the engine takes no more than {max_tokens:,}")
        return SourceLine.encode(self.tokenizers.source, line, lengths, limit)

    def translating_into(self, language: str) -> Self:
        """The same for another language. Raises UserError for a model without that language."""
        return replace(self, tokenizers=self.tokenizers.translate_into(language))


def encode_line(members: Sequence[Member], line: str, lengths: LengthsConfig, max_tokens: int | None) -> SourceLine:
    """The line as token ids of the first model, split or truncated by each model of an ensemble in turn."""
    first, *others = members
    encoded = first.encode(line, lengths, max_tokens)
    texts, warning = encoded.texts, encoded.warning
    for member in others:
        parts = [member.encode(text, lengths, max_tokens) for text in texts]
        texts = tuple(text for part in parts for text in part.texts)
        warning = next((part.warning for part in parts if part.warning), warning)
    if texts == encoded.texts:
        return encoded
    segments = tuple(tuple(first.tokenizers.source.encode(text)) for text in texts)
    return replace(encoded, segments=segments, segment_texts=texts, warning=warning)


def engine_sources(members: Sequence[Member], line: SourceLine) -> Sequence[Sequence[int]]:
    """The segments of a line as an engine takes them: token ids, or those of all models of an ensemble."""
    if len(members) == 1:
        return line.segments
    others = [member.tokenizers.source for member in members[1:]]
    return [
        EnsembleSource((ids, *(tokenizer.encode(text) for tokenizer in others)))
        for ids, text in zip(line.segments, line.texts, strict=True)
    ]


def _split(tokenizer: Tokenizer, line: str, max_tokens: int, language: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Ids and text of each sentence, split if it is too long; each with the tag of the line."""
    tag, rest = tokenizer.split_tag(line)
    prefix = tokenizer.tagged_prefix(tag)
    room = max(1, max_tokens - len(prefix))
    for sentence in filterfalse(is_blank, split_sentences(rest, language)):
        runs = [*split_tokens(tokenizer, tokenizer.encode(sentence)[len(tokenizer.line_prefix) :], room)]
        for ids in runs:
            text = sentence if len(runs) == 1 else tokenizer.decode(ids)
            yield (*prefix, *ids), f"{tag} {text}" if tag else text


def encode_prefix(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The ids of a prefix of translations. Raises UserError for text with unknown tokens, and from right to left."""
    if not text:
        return ()
    if _SURROGATES.search(text):
        raise UserError(f"no translation can begin with {text!r}: it is not valid Unicode")
    if tokenizer.is_right_to_left:
        raise UserError(f"no translation can begin with {text!r}: the model writes from right to left")
    ids = tuple(tokenizer.encode(text))
    if UNK in ids:
        raise UserError(f"no translation can begin with {text!r}: the model does not know all of its tokens")
    return ids


def zip_by_rank(segments: Sequence[Sequence[Hypothesis]]) -> Iterator[tuple[Hypothesis, ...]]:
    """The best hypotheses of all segments, then the second-best ones, and so on; the last of a segment is repeated."""
    for rank in range(max(map(len, segments))):
        yield tuple(hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in segments)


def combined_score(line: SourceLine, hypotheses: Sequence[Hypothesis]) -> float:
    """The mean score of the segments, weighted by source tokens."""
    if len(hypotheses) == 1:
        return hypotheses[0].score
    weights = [len(segment) for segment in line.segments]
    scores = zip(weights, hypotheses, strict=True)
    return sum(weight * one.score for weight, one in scores) / max(sum(weights), 1)


def are_truncated(
    lines: Sequence[SourceLine], ranked: Sequence[Sequence[Sequence[Hypothesis]]], lengths: LengthsConfig
) -> list[bool]:
    """For each line, True if the best hypothesis of a segment has the maximum length, so that only EOS can follow."""
    sizes = torch.tensor([len(segment) for line in lines for segment in line.segments])
    limits = iter((lengths.limits(sizes).max_length - 1).tolist())
    return [max(len(best.tokens) - next(limits) for best, *_ in segments) >= 0 for segments in ranked]


def build_translation(
    line: SourceLine,
    encoded: Sequence[Sequence[int]],
    ranked: Sequence[Sequence[Hypothesis]],
    count: int | None,
    tokenizers: TokenizerPair,
    decode: Callable[[Hypothesis], str],
) -> Translation:
    """The best translation of a line, with its `alternatives`, `count` in all.

    `encoded`, `ranked`: the segments as the engine takes them, and hypotheses of each.
    """
    sources = [tokenizers.source.convert_ids_to_tokens(segment) for segment in line.segments]
    best, *others = [
        Translation(
            join_sentences([decode(hypothesis) for hypothesis in hypotheses]),
            combined_score(line, hypotheses),
            sum(one.log_prob for one in hypotheses),
            tuple(token for one in hypotheses for token in tokenizers.target.convert_ids_to_tokens(one.tokens)),
            tuple(token for tokens in sources for token in tokens),
            segments=line.segment_texts,
            ids=tuple((ids, one.tokens) for ids, one in zip(encoded, hypotheses, strict=True)),
        )
        for hypotheses in islice(zip_by_rank(ranked), count)
    ]
    return replace(best, alternatives=tuple(others))

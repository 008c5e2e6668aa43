"""Replacement of unknown words by the source words with the most attention (Luong et al. 2015b; Jean et al. 2015).

The attention is the mean of the heads of the top layer, by forced decoding; of an ensemble that of its first model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from seq2attn.errors import UserError
from seq2attn.inference.glossary import Glossary
from seq2attn.inference.source_line import SourceLine
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.vocabulary import UNK
from seq2attn.tokenizers.words import WordTokenizer


def check_replaces_unknown_words(model: Seq2Seq, tokenizers: TokenizerPair) -> None:
    """Raises UserError for a model without attention or from right to left, and for other tokenizers than `words`."""
    if cross_attention_weights(model, [((), ())])[0] is None:
        raise UserError("``replace_unk`` needs attention, and the decoder has none")
    if tokenizers[1].is_right_to_left:
        raise UserError("``replace_unk`` needs a model that writes from left to right, and this one does not")
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        if not isinstance(tokenizer, WordTokenizer):
            kind = getattr(tokenizer.config, "kind", "custom")
            raise UserError(f"``replace_unk`` needs `words` tokenizers on both sides; that of the {side} is `{kind}`")


def replace_unknown_words(
    model: Seq2Seq,
    tokenizers: TokenizerPair,
    lines: Sequence[SourceLine],
    hypotheses: Sequence[Sequence[Hypothesis]],
    glossary: Glossary | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each segment of all lines, with the texts of those that have unknown words.

    A source word with a term in the `glossary` gives that term.
    """
    source, target = tokenizers
    assert isinstance(source, WordTokenizer) and isinstance(target, WordTokenizer), "`load` has checked it"
    parts = [part for line in lines for part in zip(line.segments, _source_words(source, line), strict=True)]
    pairs = [
        (ids, one.tokens)
        for (ids, words), segment in zip(parts, hypotheses, strict=True)
        for one in segment
        if words and UNK in one.tokens
    ]
    weights = iter(cross_attention_weights(model, pairs))

    def with_text(one: Hypothesis, ids: Sequence[int], words: Sequence[str]) -> Hypothesis:
        if not words or UNK not in one.tokens:
            return one
        attention = next(weights)
        assert attention is not None, "`load` has checked it"
        aligned = attention[-1].mean(0)[:, len(ids) - len(words) : len(ids)].argmax(1)  # without a tag
        unknown = [words[aligned[step]] for step, id in enumerate(one.tokens) if id == UNK]
        unknown = unknown if glossary is None else [*map(glossary.word, unknown)]
        return replace(one, text=target.decode_with(one.tokens, unknown))

    return [[with_text(one, *part) for one in segment] for part, segment in zip(parts, hypotheses, strict=True)]


def _source_words(tokenizer: WordTokenizer, line: SourceLine) -> Iterator[list[str]]:
    """The words of each segment of a line in the order of its ids, without a tag and with unknown ones.

    Where the text of a part of a sentence is not known, an unknown word stays `<unk>`.
    """
    for text, ids in zip(line.texts, line.segments, strict=True):
        tag, rest = tokenizer.split_tag(line.line if len(line.segments) == 1 else text)
        count = len(ids) - bool(tag)
        words = tokenizer.words(rest)
        if len(line.segments) > 1 and len(words) != count:
            yield [tokenizer.decode([id]) for id in ids[len(ids) - count :]]
        else:
            yield words[:count][::-1] if tokenizer.is_right_to_left else words[:count]

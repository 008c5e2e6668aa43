"""Word alignments of a pair in Pharaoh format, `0-0 1-2`: source word and target word, counted from 0.

Words are separated by ASCII white space in the original line, as in alignment tools. A gold alignment may have possible
links, `1?2` or `1p2`, beside the sure ones (Och and Ney 2003).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from seq2attn.errors import DataError
from seq2attn.io.terminal import plural
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.normalize import is_blank

AlignmentLink: TypeAlias = tuple[int, int]
"""A source word and a target word."""


@dataclass(frozen=True)
class WordAlignment:
    """Links between the words of a pair."""

    sure: frozenset[AlignmentLink]
    possible: frozenset[AlignmentLink]  # including the sure ones


def split_words(line: str) -> list[str]:
    """The words of a line, as counted by links."""
    return re.findall(r"[^ \t\n\r\f\v]+", line)


def parse_pharaoh(text: str, pair: tuple[str, str], place: str) -> WordAlignment:
    """The alignment in a line; `place` is its file and line number.

    Raises DataError for invalid links, and for links to words that the pair does not have.
    """
    counts = [len(split_words(line)) for line in pair]
    sure, possible = set[AlignmentLink](), set[AlignmentLink]()
    for item in text.split():
        match = re.fullmatch(r"([0-9]{1,9})([-?p])([0-9]{1,9})", item)
        if match is None:
            raise DataError(
                f"{place}: `{item}` is not a link; expected a source and a target word, counted from 0,"
                " such as `0-1` (or `0?1` for a possible one)"
            )
        link = int(match[1]), int(match[3])
        for side, word, count in zip(("source", "target"), link, counts, strict=True):
            if word >= count:
                raise DataError(
                    f"{place}: the link `{item}` points at word {word} of the {side},"
                    f" which has {plural(count, 'word')}, counted from 0"
                )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return WordAlignment(frozenset(sure), frozenset(possible))


def format_pharaoh(links: Iterable[AlignmentLink]) -> str:
    """Links as a line, in the order of the target words."""
    ordered = sorted(links, key=lambda link: (link[1], link[0]))
    return " ".join(f"{source}-{target}" for source, target in ordered)


def pair_word_ids(
    tokenizers: TokenizerPair, texts: tuple[str, str], ids: tuple[list[int], list[int]]
) -> tuple[list[int], list[int]]:
    """The words of the ids of both sides of a pair. Raises DataError as `word_ids`."""
    source, target = (word_ids(*side) for side in zip(tokenizers, texts, ids, strict=True))
    return source, target


def word_ids(tokenizer: Tokenizer, line: str, ids: list[int]) -> list[int]:
    """The word of each of the ids of a line, in any segmentation; the number of words for a tag, which is not counted.

    The decoded text may have other words, since normalization may split a word and an unknown punctuation mark loses
    its joiners. So each word is also tokenized alone.

    Raises DataError when the words of the ids are not those of the line.
    """
    if tokenizer.is_right_to_left:
        forward = tokenizer.with_direction(right_to_left=False)
        return [*tokenizer.reverse(line, word_ids(forward, line, [*tokenizer.reverse(line, ids)]))]
    tag, line = tokenizer.split_tag(line)
    if tag:
        return [len(split_words(line)), *word_ids(tokenizer, line, ids[1:])]
    if not ids:
        return []
    ids_by_word = [_encode_word(tokenizer, word) for word in split_words(line)]
    parts, num_words = [tokenizer.word_ids(word) for word in ids_by_word], len(ids_by_word)
    if [id for word in ids_by_word for id in word] == ids:
        return [index if part >= 0 else num_words for index, word in enumerate(parts) for part in word]
    # Another segmentation: the decoded text still has as many words between spaces.
    line_words = [index for index, word in enumerate(parts) for _ in range(max(word, default=-1) + 1)]
    decoded_words = tokenizer.word_ids(ids)
    if max(decoded_words, default=-1) + 1 != len(line_words):
        return _word_ids_by_letters(tokenizer, line, ids)
    return [line_words[index] if index >= 0 else num_words for index in decoded_words]


def _encode_word(tokenizer: Tokenizer, word: str) -> list[int]:
    """The ids of a word within a line: unlike a blank line, a word without visible characters has some."""
    if not is_blank(word):
        return tokenizer.encode(word)
    return tokenizer.encode(f". {word}")[len(tokenizer.encode(".")) :]


def _word_ids_by_letters(tokenizer: Tokenizer, line: str, ids: list[int]) -> list[int]:
    """`word_ids` where normalization joins words, as Moses does `20 %`: the text still has as many letters."""
    words = [sum(_num_letters(tokenizer, _encode_word(tokenizer, word))) for word in split_words(line)]
    letter_words = [index for index, length in enumerate(words) for _ in range(length)]
    lengths = _num_letters(tokenizer, ids)
    if sum(lengths) != len(letter_words):
        raise DataError(f'cannot assign tokens to the words of "{line}"')
    starts = accumulate(lengths, initial=0)
    return [
        letter_words[min(start, len(letter_words) - 1)] if index >= 0 else len(words)
        for start, index in zip(starts, tokenizer.word_ids(ids), strict=False)
    ]


def _num_letters(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The number of characters of each token without spaces; zero for tags without text."""
    return [
        len(tokenizer.decode([id]).replace(" ", "")) if index >= 0 else 0
        for id, index in zip(ids, tokenizer.word_ids(ids), strict=True)
    ]

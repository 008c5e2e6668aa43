"""Which word of a line each of its tokens belongs to, however the line is cut.

The words are those of the line as it was written, which links count. What a tokenizer makes of the line need not tell
them apart: its normal form may split a word, and an unknown mark has lost its joiners. So words are also cut alone.
"""

from __future__ import annotations

from seq2attn.data.word_alignment import split_words
from seq2attn.errors import DataError
from seq2attn.tokenizers.base import Tokenizer

IdsWithWords = tuple[list[int], list[int]]
"""The ids of a line, and the number of the word of each."""


def encode_with_word_ids(tokenizer: Tokenizer, line: str) -> IdsWithWords:
    """The ids of a line, and the word of each.

    Raises: DataError when it cannot be told.
    """
    ids = tokenizer.encode(line)
    return ids, word_ids(tokenizer, line, ids)


def number_pair(
    tokenizers: tuple[Tokenizer, Tokenizer], texts: tuple[str, str], ids: tuple[list[int], list[int]]
) -> tuple[list[int], list[int]]:
    """The words of the ids of both sides of a pair.

    Raises: DataError when it cannot be told.
    """
    source, target = (word_ids(*side) for side in zip(tokenizers, texts, ids, strict=True))
    return source, target


def word_ids(tokenizer: Tokenizer, line: str, ids: list[int]) -> list[int]:
    """The word of each of the ids that a line was cut into.

    Raises: DataError when it cannot be told.
    """
    alone = [tokenizer.encode(word) for word in split_words(line)]
    if [id for word in alone for id in word] == ids:
        return [number for number, word in enumerate(alone) for _ in word]
    # Cut otherwise than alone: there are as many words between the spaces of the decoded text all the same.
    counts = [max(tokenizer.word_ids(word), default=-1) + 1 for word in alone]
    owners = [number for number, count in enumerate(counts) for _ in range(count)]
    indices = tokenizer.word_ids(ids)
    if max(indices, default=-1) + 1 != len(owners):
        raise DataError(f'cannot tell which tokens belong to which word of "{line}", so links cannot guide it')
    return [owners[index] for index in indices]

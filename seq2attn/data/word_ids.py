"""The word of each token, for word alignments, in any segmentation of a line.

Words are those of the original line, as in word alignments. The decoded text may have others, since normalization may
split a word and an unknown punctuation mark loses its joiners. So each word is also tokenized alone.
"""

from __future__ import annotations

from seq2attn.data.word_alignment import split_words
from seq2attn.errors import DataError
from seq2attn.tokenizers.base import Tokenizer

IdsWithWords = tuple[list[int], list[int]]
"""The ids of a line, and the index of the word of each."""


def encode_with_word_ids(tokenizer: Tokenizer, line: str) -> IdsWithWords:
    """The ids of a line, and the word of each. Raises DataError as `word_ids`."""
    ids = tokenizer.encode(line)
    return ids, word_ids(tokenizer, line, ids)


def pair_word_ids(
    tokenizers: tuple[Tokenizer, Tokenizer], texts: tuple[str, str], ids: tuple[list[int], list[int]]
) -> tuple[list[int], list[int]]:
    """The words of the ids of both sides of a pair. Raises DataError as `word_ids`."""
    source, target = (word_ids(*side) for side in zip(tokenizers, texts, ids, strict=True))
    return source, target


def word_ids(tokenizer: Tokenizer, line: str, ids: list[int]) -> list[int]:
    """The word of each of the ids of a line.

    Raises: DataError when the words of the ids are not those of the line.
    """
    ids_by_word = [tokenizer.encode(word) for word in split_words(line)]
    if [id for word in ids_by_word for id in word] == ids:
        return [index for index, word in enumerate(ids_by_word) for _ in word]
    # Another segmentation: the decoded text still has as many words between spaces.
    counts = [max(tokenizer.word_ids(word), default=-1) + 1 for word in ids_by_word]
    line_words = [index for index, count in enumerate(counts) for _ in range(count)]
    decoded_words = tokenizer.word_ids(ids)
    if max(decoded_words, default=-1) + 1 != len(line_words):
        raise DataError(f'cannot assign tokens to the words of "{line}", so links cannot guide attention')
    return [line_words[index] for index in decoded_words]

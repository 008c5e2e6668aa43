"""The tokens of a line, the words that they form, and attention weights between words."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import STACKERS, is_unspaced, join_sentences
from seq2attn.tokenizers.right_to_left import is_right_to_left

MAX_CHARACTER_TOKENS = 4
"""Maximum number of tokens of one character: the bytes of its UTF-8."""


@dataclass(frozen=True)
class TokenizedText:
    """Human-readable tokens and the whole words that they belong to; each special token is a separate word."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_ids: tuple[int, ...]  # for each token the index of its word in `words`: 0 0 1 2 2 2 ...
    text: str  # the line, without special tokens; its words may be in another order than `words`

    @classmethod
    def from_ids(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> TokenizedText:
        """The line with these ids, including special tokens. In scripts without spaces tokens are words."""
        tokens, word_ids, words, previous = tokenizer.convert_ids_to_tokens(ids), list[int](), list[list[int]](), -1
        order = slice(None, None, -1 if is_right_to_left(tokenizer) else 1)
        for id, number in zip(ids, tokenizer.word_ids(ids), strict=True):
            is_continuation = number == previous >= 0 and _are_of_one_word(
                *map(tokenizer.decode, [words[-1][-MAX_CHARACTER_TOKENS:], [id]][order])
            )
            if not is_continuation:
                words.append([])
            words[-1].append(id)
            word_ids.append(len(words) - 1)
            previous = number
        texts = (tokenizer.decode(word) or tokens[word_ids.index(index)] for index, word in enumerate(words))
        return cls(tuple(tokens), tuple(texts), tuple(word_ids), tokenizer.decode(ids))

    @classmethod
    def concat(cls, parts: Sequence[TokenizedText]) -> TokenizedText:
        """All parts in their order, including the special tokens of each."""
        tokens, words, word_ids = list[str](), list[str](), list[int]()
        for part in parts:
            word_ids += [len(words) + index for index in part.word_ids]
            tokens += part.tokens
            words += part.words
        return cls(tuple(tokens), tuple(words), tuple(word_ids), join_sentences([part.text for part in parts]))

    @classmethod
    def from_words(cls, words: Sequence[str], text: str) -> TokenizedText:
        """Words of one token each, of a line `text`."""
        return cls(tuple(words), tuple(words), tuple(range(len(words))), text)


def _are_of_one_word(left: str, right: str) -> bool:
    """True if two adjacent tokens without a space between them belong to one word."""
    if not left or not right or unicodedata.category(right[0]).startswith("M") or left[-1] in STACKERS:
        return True
    return not (is_unspaced(left[-1]) or is_unspaced(right[0]))


def pool_to_words(
    weights: NDArray[np.float32], queries: tuple[Sequence[int], int], keys: tuple[Sequence[int], int]
) -> NDArray[np.float32]:
    """Attention weights between words: [..., query tokens, key tokens] -> [..., query words, key words].

    `queries` and `keys` are the word of each token and the number of words. Weights are summed over the tokens of a
    key word and averaged over those of a query word, so that the sums of rows stay; a word without tokens has zeros.
    Tokens whose word is the number of words belong to none.
    """
    sides = queries, keys
    to_queries, to_keys = (np.eye(count + 1, count, dtype=np.float32)[list(word_ids)] for word_ids, count in sides)
    to_queries /= np.maximum(to_queries.sum(axis=0), 1)
    result: NDArray[np.float32] = to_queries.T @ (weights @ to_keys)
    return result

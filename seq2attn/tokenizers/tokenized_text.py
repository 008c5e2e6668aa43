"""A line in its tokens, and the words that they make."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.unicode_scripts import is_of_unspaced_script

MAX_CHARACTER_TOKENS = 4
"""Most tokens of one character: the bytes of its UTF-8."""


@dataclass(frozen=True)
class TokenizedText:
    """Tokens as shown to people, and the whole words that they belong to; a control is a word of its own."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_ids: tuple[int, ...]  # for each token the place of its word in `words`: 0 0 1 2 2 2 ...

    @classmethod
    def from_ids(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> TokenizedText:
        """The line with these ids, controls included.

        Where a script has no spaces, tokens are words.
        """
        tokens, word_of, last = tokenizer.convert_ids_to_tokens(ids), list[int](), -1
        words = list[list[int]]()
        for id, number in zip(ids, tokenizer.word_ids(ids), strict=True):
            if (
                number < 0
                or number != last
                or not _belong(tokenizer.decode(words[-1][-MAX_CHARACTER_TOKENS:]), tokenizer.decode([id]))
            ):
                words.append([])
            words[-1].append(id)
            word_of.append(len(words) - 1)
            last = number
        texts = (tokenizer.decode(word) or tokens[word_of.index(place)] for place, word in enumerate(words))
        return cls(tuple(tokens), tuple(texts), tuple(word_of))

    @classmethod
    def concat(cls, parts: Sequence[TokenizedText]) -> TokenizedText:
        """One after the other, each with the controls that it has."""
        tokens, words, word_of = list[str](), list[str](), list[int]()
        for part in parts:
            word_of += [len(words) + number for number in part.word_ids]
            tokens += part.tokens
            words += part.words
        return cls(tuple(tokens), tuple(words), tuple(word_of))

    @classmethod
    def from_words(cls, tokens: Sequence[str]) -> TokenizedText:
        """Tokens each of which is a word."""
        return cls(tuple(tokens), tuple(tokens), tuple(range(len(tokens))))


def _belong(left: str, right: str) -> bool:
    """Whether two tokens that touch are of one word."""
    if not left or not right or unicodedata.category(right[0]).startswith("M"):
        return True
    return not (is_of_unspaced_script(left[-1]) or is_of_unspaced_script(right[0]))

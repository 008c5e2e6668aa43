"""A line in its tokens, and the words that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2attn.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Segmented:
    """Tokens as shown to people, and the whole words that they belong to; a control is a word of its own."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int, ...]  # for each token the place of its word in `words`: 0 0 1 2 2 2 ...

    @classmethod
    def of(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> Segmented:
        """The line with these ids, controls included."""
        tokens, texts = tokenizer.tokens(ids), tokenizer.decode(ids).split()
        words, word_of, last = list[str](), list[int](), -1
        for token, number in zip(tokens, tokenizer.word_indices(ids), strict=True):
            if number < 0 or number != last:
                words.append(token if number < 0 else texts[number])
            word_of.append(len(words) - 1)
            last = number
        return cls(tuple(tokens), tuple(words), tuple(word_of))

    @classmethod
    def joined(cls, parts: Sequence[Segmented]) -> Segmented:
        """One after the other, each with the controls that it has."""
        tokens, words, word_of = list[str](), list[str](), list[int]()
        for part in parts:
            word_of += [len(words) + number for number in part.word_of]
            tokens += part.tokens
            words += part.words
        return cls(tuple(tokens), tuple(words), tuple(word_of))

    @classmethod
    def plain(cls, tokens: Sequence[str]) -> Segmented:
        """Tokens each of which is a word."""
        return cls(tuple(tokens), tuple(tokens), tuple(range(len(tokens))))

"""The tokens of a line, the words that they form, and attention weights between words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import STACKERS, is_unspaced, join_sentences

MAX_CHARACTER_TOKENS = 4
"""Maximum number of tokens of one character: the bytes of its UTF-8."""
_BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")


@dataclass(frozen=True)
class TokenizedText:
    """Human-readable tokens and the words that they belong to, for pictures of attention.

    Special tokens and tokens of punctuation at the ends of a word are separate words: attention to a full stop is not
    attention to the word before it. The apostrophe of `don't` stays in its word.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_ids: tuple[int, ...]  # for each token the index of its word in `words`: 0 0 1 2 2 2 ...
    text: str  # the line, without special tokens; its words may be in another order than `words`

    @classmethod
    def from_ids(cls, tokenizer: Tokenizer, ids: Sequence[int]) -> TokenizedText:
        """The line with these ids, including special tokens. In scripts without spaces tokens are words."""
        tokens, words, word_ids = tokenizer.convert_ids_to_tokens(ids), list[str](), list[int]()
        whole_words = whole_word_ids(tokenizer, ids)
        for _, word in groupby(join_bytes(tokens), lambda letter: whole_words[letter[0]]):
            letters = [*word]
            texts = [tokenizer.decode([ids[place] for place in letter]) for letter in letters]
            for part in _detach_punctuation(letters, texts):
                word_ids += [len(words)] * len(part)
                words.append(tokenizer.decode([ids[place] for place in part]) or tokens[part[0]])
        return cls(tuple(tokens), tuple(words), tuple(word_ids), tokenizer.decode(ids))

    def join_letters(self) -> tuple[TokenizedText, list[int]]:
        """The text with the bytes of a letter as one token, and for each token the index of its own."""
        letters = join_bytes(self.tokens)
        texts = tuple(_letter([self.tokens[place] for place in letter]) for letter in letters)
        word_ids = tuple(self.word_ids[letter[0]] for letter in letters)
        joined = TokenizedText(texts, self.words, word_ids, self.text)
        return joined, [index for index, letter in enumerate(letters) for _ in letter]

    def join_words(self) -> tuple[TokenizedText, Sequence[int]]:
        """The text with each word as one token, and for each token the index of its own."""
        return TokenizedText.from_words(self.words, self.text), self.word_ids

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


def whole_word_ids(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """For each id the index of its word, with its punctuation; in scripts without spaces tokens are words."""
    word_ids, previous, word = list[int](), -1, list[int]()
    order = slice(None, None, -1 if tokenizer.is_right_to_left else 1)
    for id, number in zip(ids, tokenizer.word_ids(ids), strict=True):
        is_continuation = number == previous >= 0 and _are_of_one_word(
            *map(tokenizer.decode, [word[-MAX_CHARACTER_TOKENS:], [id]][order])
        )
        if not is_continuation:
            word = []
        word.append(id)
        word_ids.append(word_ids[-1] + (not is_continuation) if word_ids else 0)
        previous = number
    return word_ids


def join_bytes(tokens: Sequence[str]) -> list[list[int]]:
    """The places of the tokens, those of the bytes of a letter together."""
    letters = list[list[int]]()
    for place, token in enumerate(tokens):
        last = [tokens[index] for index in letters[-1]] if letters else []
        if last and all(map(_BYTES.fullmatch, [*last, token])) and _decode_bytes(last) is None:
            letters[-1].append(place)
        else:
            letters.append([place])
    return letters


def _letter(tokens: Sequence[str]) -> str:
    """A token, or the letter of tokens of bytes if it can be printed, unlike a line break."""
    text = (_decode_bytes(tokens) or "\ufffd") if _BYTES.fullmatch(tokens[0]) else tokens[0]
    return text if text.isprintable() else tokens[0]


def _decode_bytes(tokens: Sequence[str]) -> str | None:
    """The letter of tokens of bytes, in either order; None if it is not complete."""
    content = bytes.fromhex("".join(tokens).replace("<0x", "").replace(">", ""))
    for text in (content, content[::-1]):
        with suppress(UnicodeDecodeError):
            return text.decode()
    return "\ufffd" if len(content) >= MAX_CHARACTER_TOKENS else None


def _detach_punctuation(letters: Sequence[list[int]], texts: Sequence[str]) -> list[list[int]]:
    """The parts of a word, with each punctuation mark before and after its text as one.

    A space without text belongs to the part before it, the first to the part after it.
    """
    inner = [place for place, text in enumerate(texts) if any(category(character)[0] != "P" for character in text)]
    parts = list[list[int]]()
    for place, letter in enumerate(letters):
        is_inner = bool(inner) and inner[0] < place <= inner[-1]
        if parts and (is_inner or not texts[place] or not any(texts[:place])):
            parts[-1] += letter
        else:
            parts.append([*letter])
    return parts


def _are_of_one_word(left: str, right: str) -> bool:
    """True if two adjacent tokens without a space between them belong to one word."""
    if not left or not right or category(right[0]).startswith("M") or left[-1] in STACKERS:
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
    return to_queries.T @ (weights @ to_keys)

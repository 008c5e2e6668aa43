"""Words and punctuation as tokens, segmented reversibly.

Tokens are words (runs of letters, marks, digits and `_`) and single other characters. Between tokens without a space,
the punctuation carries the joiner `￭` (U+FFED) on that side; between two punctuation marks, the right one:

    Don't wait, (she) said.   ->   Don ￭'￭ t wait ￭, (￭ she ￭) said ￭.

Joining with spaces and removing each `￭` with the space beside it restores the line. A `￭` in the text becomes `■`.
Punctuation that is not in the vocabulary with its joiners is searched with other joiners or none, or is `<unk>`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import FORMAT_CHARACTERS, SPACE_MARK, NormalizeConfig, collapse_whitespace
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, SPECIAL_TOKENS, UNK, Vocabulary

JOINER = "￭"
# `<unk>` is one token, so that a translation with unknown tokens has as many when it is scored.
CHARACTER = re.compile(f"{SPECIAL_TOKENS[UNK]}|.", re.DOTALL)


class WordTokenizerConfig(NormalizeConfig):
    """A token for each word and punctuation mark of the training text; `￭` marks where no space was."""

    kind: Literal["words"] = "words"
    pre_tokenizer: Literal["punctuation", "whitespace"] = "punctuation"
    """Split at spaces and punctuation, or at spaces only (for text that is tokenized already)."""
    min_frequency: PositiveInt = 1
    """Words that are rarer in the training text become `<unk>`."""
    vocab_size: Annotated[int, Field(gt=4)] | None = None
    """Maximum size of the vocabulary, including the four special tokens; none: no limit."""

    def train(self, lines: Iterable[str]) -> WordTokenizer:
        """A tokenizer whose vocabulary is the words of `lines`."""
        tokens = (token for line in lines for token in self.segment(line))
        return WordTokenizer(self, Vocabulary.from_counts(tokens, self.min_frequency, self.vocab_size))

    def load(self, folder: Path, vocabulary: Vocabulary) -> WordTokenizer:
        """The tokenizer saved in a folder, with its vocabulary."""
        return WordTokenizer(self, vocabulary)

    def segment(self, line: str) -> list[str]:
        """The tokens of a line, with joiners."""
        line = self.normalize(line.replace(JOINER, "■"))
        return line.split() if self.pre_tokenizer == "whitespace" else list(_tokens_with_joiners(line))


class WordTokenizer(Tokenizer):
    """Segmentation into words and punctuation."""

    config: WordTokenizerConfig

    def _encode(self, text: str) -> list[int]:
        return [self._id(token) for token in self.config.segment(text)]

    def words(self, line: str) -> list[str]:
        """The text of each token of a line, also of those that are not in the vocabulary."""
        return [token.strip(JOINER) for token in self.config.segment(line)]

    def decode_with(self, ids: Sequence[int], unknown: Iterable[str]) -> str:
        """`decode`, with the words of `unknown` in the place of each `<unk>`."""
        words, pairs = iter(unknown), zip(ids, self._surfaces(ids), strict=True)
        filled = (text.replace(SPECIAL_TOKENS[UNK], next(words)) if id == UNK else text for id, text in pairs)
        return collapse_whitespace("".join(filled))

    def _id(self, token: str) -> int:
        bare = token.strip(JOINER)
        forms = (token, bare, JOINER + bare, bare + JOINER, JOINER + bare + JOINER)
        # A `<s>` in the text is a word, not a special token.
        return next((id for id in map(self.pieces.id, forms) if id >= len(SPECIAL_TOKENS)), UNK)

    def _surfaces(self, ids: Sequence[int]) -> Iterator[str]:
        is_joined = False
        for id, token in zip(ids, self.convert_ids_to_tokens(ids), strict=True):
            if id in CONTROL_IDS:
                yield ""
                continue
            yield ("" if is_joined or token.startswith(JOINER) else " ") + token.strip(JOINER)
            is_joined = token.endswith(JOINER)


def _tokens_with_joiners(line: str) -> Iterator[str]:
    matches = list(_token_pattern().finditer(line))
    for previous, match, following in zip([None, *matches], matches, [*matches[1:], None], strict=False):
        if match.lastgroup == "word":
            yield match[0]
            continue
        left = JOINER if previous and previous.end() == match.start() else ""
        is_before_word = following and following.lastgroup == "word" and match.end() == following.start()
        yield left + match[0] + (JOINER if is_before_word else "")


@cache
def _token_pattern() -> re.Pattern[str]:
    # `\w` lacks the vowel signs and accents that many scripts write as separate characters.
    # Of the other planes, 2 and 3 are for ideographs, 4 to 13 unassigned, and 15 and 16 for private use.
    characters = map(chr, chain(range(0x20000), range(0xE0000, 0xF0000)))
    marks = "".join(character for character in characters if unicodedata.category(character)[0] == "M")
    part = rf"[\w{marks}]+"
    return re.compile(rf"(?P<word>{part}(?:[{FORMAT_CHARACTERS}]+{part})*|{SPECIAL_TOKENS[UNK]})|\S[{marks}]*")


class CharacterTokenizerConfig(NormalizeConfig):
    """A token for each character (code point) of the training text; a space is the token `▁`."""

    kind: Literal["characters"] = "characters"
    min_frequency: PositiveInt = 1
    """Characters that are rarer in the training text become `<unk>`."""
    vocab_size: Annotated[int, Field(gt=4)] | None = None
    """Maximum size of the vocabulary, including the four special tokens; none: no limit."""

    def train(self, lines: Iterable[str]) -> CharacterTokenizer:
        """A tokenizer whose vocabulary is the characters of `lines`."""
        characters = (character for line in lines for character in self.segment(line))
        return CharacterTokenizer(self, Vocabulary.from_counts(characters, self.min_frequency, self.vocab_size))

    def load(self, folder: Path, vocabulary: Vocabulary) -> CharacterTokenizer:
        """The tokenizer saved in a folder, with its vocabulary."""
        return CharacterTokenizer(self, vocabulary)

    def segment(self, line: str) -> list[str]:
        """The characters of a line, with `▁` for spaces; `<unk>` is one of them."""
        return CHARACTER.findall(self.normalize(line).replace(" ", SPACE_MARK))


class CharacterTokenizer(Tokenizer):
    """Segmentation into characters."""

    config: CharacterTokenizerConfig

    def _encode(self, text: str) -> list[int]:
        return [self.pieces.id(character) for character in self.config.segment(text)]

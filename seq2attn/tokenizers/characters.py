"""Characters as tokens: no unknown words, long sequences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import SPACE_MARK, NormalizeConfig
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, Vocabulary


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

    def segment(self, line: str) -> str:
        """The characters of a line, with `▁` for spaces."""
        return self.normalize(line).replace(" ", SPACE_MARK)


class CharacterTokenizer(Tokenizer):
    """Segmentation into characters."""

    config: CharacterTokenizerConfig

    def encode(self, line: str) -> list[int]:
        """The ids of a line's characters, without BOS and EOS."""
        return [self.vocabulary.id(character) for character in self.config.segment(line)]

    def _surface(self, id: int) -> str:
        return "" if id in CONTROL_IDS else self.vocabulary.tokens[int(id)].replace(SPACE_MARK, " ")

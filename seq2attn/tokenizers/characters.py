"""Characters as tokens: no unknown words, long sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from seq2attn.tokenizers.normalize import SPACE_MARK, NormalizeConfig, collapse_whitespace
from seq2attn.tokenizers.tokenizer_files import save_tokenizer_files
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, Vocabulary, ids_to_tokens
from seq2attn.tokenizers.word_ids import assign_word_ids


class CharacterTokenizerConfig(NormalizeConfig):
    """A token for each character (code point) of the training text; a space is the token `▁`."""

    kind: Literal["characters"] = "characters"
    min_frequency: PositiveInt = 1
    """Characters seen less often become `<unk>`."""
    vocab_size: Annotated[int, Field(gt=4)] | None = None
    """Largest vocabulary, the four special entries among it; none: no limit."""

    def train(self, lines: Iterable[str]) -> CharacterTokenizer:
        """Count the characters of `lines`."""
        characters = (character for line in lines for character in _cut(self.normalize(line)))
        return CharacterTokenizer(self, Vocabulary.from_counts(characters, self.min_frequency, self.vocab_size))


@dataclass(frozen=True)
class CharacterTokenizer:
    """Cuts between all characters."""

    config: CharacterTokenizerConfig
    vocabulary: Vocabulary
    is_stochastic: ClassVar[bool] = False

    def encode(self, line: str) -> list[int]:
        """The ids of a line's characters, without BOS and EOS."""
        return [self.vocabulary.id(character) for character in _cut(self.config.normalize(line))]

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line: there is one way to cut it."""
        return [self.encode(line) for line in lines]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The characters as shown to people."""
        return ids_to_tokens(self.vocabulary, ids)

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the number of the word of `decode(ids)` it belongs to; PAD, BOS and EOS: -1."""
        words = ids_to_tokens(self.vocabulary, ids)
        return assign_word_ids(
            "" if id in CONTROL_IDS else word.replace(SPACE_MARK, " ") for id, word in zip(ids, words, strict=True)
        )

    def decode(self, ids: Sequence[int]) -> str:
        """The text without PAD, BOS and EOS; an unknown character is shown as `<unk>`."""
        words = ids_to_tokens(self.vocabulary, [id for id in ids if id not in CONTROL_IDS])
        return collapse_whitespace("".join(words).replace(SPACE_MARK, " "))

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        save_tokenizer_files(folder, self.config, self.vocabulary)


def _cut(line: str) -> str:
    return line.replace(" ", SPACE_MARK)

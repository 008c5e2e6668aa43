"""What a tokenizer does, and how a saved one is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from seq2attn.errors import RunError
from seq2attn.io.files import read_object
from seq2attn.tokenizers.characters import CharacterTokenizer, CharacterTokenizerConfig
from seq2attn.tokenizers.config import TokenizerConfig
from seq2attn.tokenizers.subwords import MODEL_FILE, BPETokenizerConfig, UnigramTokenizerConfig, load_subwords
from seq2attn.tokenizers.tags import UntaggedTokenizer, with_tags
from seq2attn.tokenizers.tokenizer_files import TOKENIZER_FILE, VOCABULARY_FILE
from seq2attn.tokenizers.vocabulary import Vocabulary, check_same
from seq2attn.tokenizers.wordpiece import (
    HF_TOKENIZER_FILE,
    WordPieceTokenizer,
    WordPieceTokenizerConfig,
    load_wordpiece,
)
from seq2attn.tokenizers.words import WordTokenizer, WordTokenizerConfig

TOKENIZER_HINT = "prepare the data again, or copy the whole folder from where it was prepared"


class Tokenizer(Protocol):
    """A line to ids and back: `decode(encode(line))` is the normalised line, but for what is unknown."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens and their ids."""

    @property
    def is_stochastic(self) -> bool:
        """Whether `sample` differs from `encode`."""

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, perhaps cut at random: a function of `lines` and `seed` alone."""

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as shown to people, special ones and marks of spaces included."""

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the number of the word of `decode(ids)` it belongs to; PAD, BOS and EOS: -1."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text, always one line, without PAD, BOS and EOS; what is unknown is shown as `<unk>`."""

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer saved in `folder`.

    Raises: RunError when a file is missing or the files do not fit together.
    """
    header = read_object(folder / TOKENIZER_FILE, TOKENIZER_HINT)
    adapter: TypeAdapter[TokenizerConfig] = TypeAdapter(TokenizerConfig)
    try:
        config = adapter.validate_python(header.get("config"))
    except ValidationError:
        raise RunError(
            f"{folder / TOKENIZER_FILE}: describes no tokenizer known to this version; {TOKENIZER_HINT}"
        ) from None
    tokenizer = _loaded(config, folder)
    return tokenizer if isinstance(tokenizer, WordPieceTokenizer) else with_tags(tokenizer, folder, TOKENIZER_HINT)


def _loaded(config: TokenizerConfig, folder: Path) -> UntaggedTokenizer | WordPieceTokenizer:
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    match config:
        case WordTokenizerConfig():
            return WordTokenizer(config, vocabulary)
        case CharacterTokenizerConfig():
            return CharacterTokenizer(config, vocabulary)
        case BPETokenizerConfig() | UnigramTokenizerConfig():
            subwords = load_subwords(config, folder, TOKENIZER_HINT)
            check_same(vocabulary, subwords.vocabulary, folder / MODEL_FILE)
            return subwords
        case WordPieceTokenizerConfig():
            wordpiece = load_wordpiece(config, folder, TOKENIZER_HINT)
            check_same(vocabulary, wordpiece.vocabulary, folder / HF_TOKENIZER_FILE)
            return wordpiece

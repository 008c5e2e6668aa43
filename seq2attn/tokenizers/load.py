"""Tokenizers from the folders that they were saved in."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from seq2attn.errors import RunError
from seq2attn.io.files import read_object
from seq2attn.tokenizers.base import TOKENIZER_FILE, VOCABULARY_FILE, Tokenizer
from seq2attn.tokenizers.characters import CharacterTokenizer, CharacterTokenizerConfig
from seq2attn.tokenizers.config import TokenizerConfig
from seq2attn.tokenizers.subwords import MODEL_FILE, BPETokenizerConfig, UnigramTokenizerConfig, load_subwords
from seq2attn.tokenizers.tags import load_tags
from seq2attn.tokenizers.vocabulary import Vocabulary, check_same
from seq2attn.tokenizers.wordpiece import HF_TOKENIZER_FILE, WordPieceTokenizerConfig, load_wordpiece
from seq2attn.tokenizers.words import WordTokenizer, WordTokenizerConfig

TOKENIZER_HINT = "prepare the data again, or copy the whole folder from where it was prepared"


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer saved in `folder`.

    Raises: RunError when a file is missing or the files do not belong together.
    """
    header = read_object(folder / TOKENIZER_FILE, TOKENIZER_HINT)
    adapter: TypeAdapter[TokenizerConfig] = TypeAdapter(TokenizerConfig)
    try:
        config = adapter.validate_python(header.get("config"))
    except ValidationError:
        raise RunError(
            f"{folder / TOKENIZER_FILE}: describes no tokenizer known to this version; {TOKENIZER_HINT}"
        ) from None
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    tokenizer: Tokenizer
    match config:
        case WordTokenizerConfig():
            tokenizer = WordTokenizer(config, vocabulary)
        case CharacterTokenizerConfig():
            tokenizer = CharacterTokenizer(config, vocabulary)
        case BPETokenizerConfig() | UnigramTokenizerConfig():
            tokenizer = load_subwords(config, folder, TOKENIZER_HINT)
            check_same(vocabulary, tokenizer.vocabulary, folder / MODEL_FILE)
        case WordPieceTokenizerConfig():
            tokenizer = load_wordpiece(config, folder, TOKENIZER_HINT)
            check_same(vocabulary, tokenizer.vocabulary, folder / HF_TOKENIZER_FILE)
    return load_tags(tokenizer, folder, TOKENIZER_HINT)

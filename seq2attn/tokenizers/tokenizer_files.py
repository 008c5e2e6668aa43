"""What the folder of any tokenizer holds: how it was made, its vocabulary, and for some a model."""

from __future__ import annotations

from pathlib import Path

from seq2attn.config.base import Config
from seq2attn.io.files import write_json
from seq2attn.tokenizers.vocabulary import Vocabulary

TOKENIZER_FILE, VOCABULARY_FILE = "tokenizer.json", "vocabulary.json"
TAGS = "tags.json"
MODEL_FILES = ("sentencepiece.model", "wordpiece.json", TAGS)
"""What lies beside them, by kind, and the tags where there are some."""


def save_tokenizer_files(folder: Path, config: Config, vocabulary: Vocabulary) -> None:
    """Write the vocabulary, then the config: a folder with a header is whole."""
    vocabulary.save(folder / VOCABULARY_FILE)
    write_json(folder / TOKENIZER_FILE, {"config": config.model_dump(mode="json")})

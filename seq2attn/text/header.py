"""What the folder of any tokeniser holds: how it was made, and its vocabulary."""

from __future__ import annotations

from pathlib import Path

from seq2attn.config.base import Config
from seq2attn.formats import TOKENIZER
from seq2attn.text.files import write_json
from seq2attn.text.vocabulary import Vocabulary

HEADER, VOCABULARY = "tokenizer.json", "vocabulary.json"


def save_header(folder: Path, config: Config, vocabulary: Vocabulary) -> None:
    """Write the vocabulary, then the config: a folder with a header is whole."""
    vocabulary.save(folder / VOCABULARY)
    write_json(folder / HEADER, {"format": TOKENIZER, "config": config.model_dump(mode="json")})

"""What the folder of any tokeniser holds: how it was made, its vocabulary, and for some a model.

The header says the digest of all of it: a model of pieces with one number changed would cut otherwise, and not show it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2attn.config.base import Config
from seq2attn.errors import DamagedError
from seq2attn.formats import TOKENIZER
from seq2attn.text.files import read_bytes, write_json
from seq2attn.text.vocabulary import Vocabulary

HEADER, VOCABULARY = "tokenizer.json", "vocabulary.json"
TAGS = "tags.json"
MODELS = ("sentencepiece.model", "wordpiece.json", TAGS)
"""What lies beside them, by kind, and the tags where there are some."""


def save_header(folder: Path, config: Config, vocabulary: Vocabulary) -> None:
    """Write the vocabulary, then the config: a folder with a header is whole."""
    vocabulary.save(folder / VOCABULARY)
    about = {"format": TOKENIZER, "config": config.model_dump(mode="json")}
    write_json(folder / HEADER, {**about, "digest": _digest(folder, about["config"])})


def check_digest(folder: Path, header: Mapping[str, Any], fix: str) -> None:
    """Refuse a folder that does not hold what was written to it. Of format 1 this is not known.

    Raises: DamagedError.
    """
    if header["format"] > 1 and header.get("digest") != _digest(folder, header.get("config")):
        raise DamagedError(
            f"{folder}: is damaged: it does not hold what was written to it (the digest differs); {fix}"
        )


def _digest(folder: Path, config: Any) -> str:
    found = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for name in (VOCABULARY, *MODELS):
        if (folder / name).is_file():
            found.update(name.encode() + hashlib.sha256(read_bytes(folder / name, "")).digest())
    return found.hexdigest()

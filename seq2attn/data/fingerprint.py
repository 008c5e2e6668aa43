"""Whether prepared data still fit the config and the files they were made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seq2attn.config.base import Config
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.readers import CorpusConfig
from seq2attn.errors import DataError
from seq2attn.io.files import open_regular, sha256_json
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.words import WordTokenizerConfig


def fingerprint(corpora: Sequence[CorpusConfig], filters: FiltersConfig, text: TokenizersConfig) -> str:
    """SHA-256 of all that decides what `prepare` makes: options and the content of files, wherever they lie.

    Raises: DataError when a file cannot be read.
    """
    lists = [side.vocab_file for side in text.per_side if isinstance(side, WordTokenizerConfig) and side.vocab_file]
    parts = {
        "corpora": [[_options(corpus), *map(_content, corpus.files)] for corpus in corpora],
        "filters": _options(filters),
        "tokenizer": [text.is_joint, *map(_options, text.per_side), *map(_content, lists)],
    }
    return sha256_json(parts)


def _options(config: Config) -> dict[str, Any]:
    """All but paths: a corpus that was moved is the same corpus."""
    values = {key: getattr(config, key) for key in type(config).model_fields}
    return {key: value for key, value in values.items() if not _is_elsewhere(value)}


def _is_elsewhere(value: Any) -> bool:
    files = value if isinstance(value, tuple) else (value,)
    return all(isinstance(file, Path | Config) for file in files)


def _content(path: Path) -> list[Any]:
    return [path.suffix, file_digest(path)]


def file_digest(path: Path) -> str:
    """SHA-256 of the content of a file. Raises: DataError when it cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None

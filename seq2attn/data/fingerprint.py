"""Fingerprints of text and config, by which prepared data are recognized."""

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
    """SHA-256 of everything that determines the output of `prepare`: options and the content of files.

    Raises: DataError when a file cannot be read.
    """
    vocab_files = [one.vocab_file for one in text.per_side if isinstance(one, WordTokenizerConfig) and one.vocab_file]
    of_a_run = [] if text.run_dir is None else ["of a run"]  # `prepare` compares the vocabularies
    parts = {
        "corpora": [[_options(corpus), *map(_content, corpus.files)] for corpus in corpora],
        "filters": _options(filters),
        "tokenizer": [text.is_joint, *map(_options, text.per_side), *map(_content, vocab_files), *of_a_run],
    }
    return sha256_json(parts)


def _options(config: Config) -> dict[str, Any]:
    """All options except paths, so that files can be moved."""
    return {key: value for key, value in dict(config).items() if not isinstance(value, Path | tuple)}


def _content(path: Path) -> list[str]:
    return [path.suffix, file_digest(path)]


def file_digest(path: Path) -> str:
    """SHA-256 of the content of a file. Raises DataError when it cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None

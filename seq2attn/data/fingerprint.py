"""Fingerprints of text: SHA-256 of options and of the content of files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seq2attn.config.base import Config, to_list
from seq2attn.data.filter import FiltersConfig
from seq2attn.data.readers import CorpusConfig
from seq2attn.errors import DataError
from seq2attn.io.files import sha256_json, sha256_of
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig


def fingerprint(corpora: Sequence[CorpusConfig], filters: FiltersConfig, text: TokenizersConfig) -> str:
    """SHA-256 of everything that determines the output of `prepare`: options and the content of files.

    Raises DataError when a file cannot be read.
    """
    parts = text_options(corpora, filters, text)
    for part, corpus in zip(parts["corpora"], corpora, strict=True):
        part += [(file.suffix, file_digest(file)) for file in corpus.files]
    return sha256_json(parts)


def text_options(corpora: Sequence[CorpusConfig], filters: FiltersConfig, text: TokenizersConfig) -> dict[str, Any]:
    """The options that determine the output of `prepare`, without the content of files."""
    of_a_run = [] if text.run_dir is None else ["of a run"]  # `prepare` compares the vocabularies
    reversed_sides = ["source"] * text.reverse_source + ["target"] * text.right_to_left
    return {
        "corpora": [[_options(corpus)] for corpus in corpora],
        "filters": _options(filters),
        "tokenizer": [text.is_joint, *map(_options, text.per_side), *of_a_run, *reversed_sides],
    }


def _options(config: Config) -> dict[str, Any]:
    """All options except paths, so that files can be moved."""
    return {
        key: value for key, value in dict(config).items() if not all(isinstance(part, Path) for part in to_list(value))
    }


def file_digest(path: Path) -> str:
    """SHA-256 of the content of a file. Raises DataError when it cannot be read."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None

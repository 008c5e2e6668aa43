"""Weights of a model: saving, loading, and comparison with the model and its vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from seq2attn.config.plugin import plugin_modules
from seq2attn.errors import ConfigError, RunError
from seq2attn.io.weights import (
    WEIGHTS_HINT,
    check_tensor_specs,
    copy_weights,
    load_tensors,
    read_metadata,
    read_tensor_specs,
    save_tensors,
)
from seq2attn.models.build import build_model, build_on_meta_device
from seq2attn.models.config import ModelConfig
from seq2attn.models.seq2seq import Seq2Seq
from seq2attn.tokenizers.vocabulary import Vocabulary, check_same


def load_model(weights: Path, config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """The model of a config, with the weights in a file.

    The model is first built on the meta device and compared with the header of the file, so that an untrusted config
    cannot allocate more memory than the size of the file. Models with plug-ins, which are trusted, are not.

    Raises: RunError when the file is missing or corrupt, or does not have the weights of this model.
    """
    if not plugin_modules(config):
        try:
            empty = build_on_meta_device(config, source_size, target_size)
        except ConfigError as error:
            raise RunError(f"{weights}: {error}") from None
        check_tensor_specs(empty, read_tensor_specs(weights), weights)
    model = build_model(config, source_size, target_size)
    copy_weights(model, load_tensors(weights), weights)
    return model


Vocabularies = tuple[Vocabulary, Vocabulary]


def save_weights(
    weights: Mapping[str, Tensor], vocabularies: Vocabularies, path: Path, origin: Mapping[str, Any] | None = None
) -> str:
    """Write the weights of a model, its vocabularies, and the origin of the weights. Returns the digest of the file."""
    source, target = vocabularies
    metadata: dict[str, Any] = {"source": source.tokens, "target": target.tokens}
    return save_tensors(weights, path, metadata if origin is None else {**metadata, "origin": dict(origin)})


def check_vocabularies(weights: Path, folder: Path, vocabularies: Vocabularies) -> None:
    """Refuse weights that were trained with other vocabularies than those of the run in `folder`.

    Raises: RunError with both files, their sizes, and the first entry that differs.
    """
    metadata = read_metadata(weights)
    for side, vocabulary in zip(("source", "target"), vocabularies, strict=True):
        if side in metadata:  # not in files that other programs wrote
            tokens = metadata[side]
            if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
                raise RunError(f"{weights}: its metadata `{side}` is not a vocabulary; {WEIGHTS_HINT}")
            try:
                check_same(Vocabulary(tuple(tokens)), vocabulary, folder / side / "vocabulary.json")
            except (RunError, ValueError) as error:
                raise RunError(f"{weights}: was trained with another vocabulary. {error}") from None

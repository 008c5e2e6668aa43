"""The whole of a config file."""

from __future__ import annotations

from pathlib import Path

from seq2attn.config.base import Config, Mistake
from seq2attn.data.prepare import DataConfig
from seq2attn.encoders import BertEncoderConfig
from seq2attn.model.config import ModelConfig
from seq2attn.search.config import BeamConfig, SearchConfig
from seq2attn.text.config import TextConfig
from seq2attn.text.wordpiece import WordPieceConfig
from seq2attn.training.config import TrainingConfig


def _tied_is_joint(text: TextConfig, model: ModelConfig) -> list[Mistake]:
    if model.embeddings.tie != "all" or text.is_joint:
        return []
    return [Mistake("model.embeddings.tie", "`all` needs one vocabulary for both sides: give `text.joint`")]


def _bert_reads_its_own_pieces(text: TextConfig, model: ModelConfig) -> list[Mistake]:
    if not isinstance(model.encoder, BertEncoderConfig):
        return []
    path = model.encoder.path
    if not isinstance(text.source, WordPieceConfig):
        side = "joint" if text.is_joint else "source"
        return [
            Mistake(
                f"text.{side}", f"BERT reads its own pieces: give `source: {{kind: wordpiece, path: {path}}}`"
            )
        ]
    if text.source.path == path:
        return []
    return [Mistake("text.source.path", f"should be the folder of `model.encoder`, {path}")]


class Experiment(Config):
    """A model, the text it learns from, and how."""

    rules = (_tied_is_joint, _bert_reads_its_own_pieces)

    run: Path
    """The run directory: where all that training makes is kept, relative to the working directory."""
    data: DataConfig
    text: TextConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = BeamConfig(kind="beam")
    """How `translate` and `evaluate` search unless told otherwise."""

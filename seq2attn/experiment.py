"""The whole of a config file."""

from __future__ import annotations

from pathlib import Path

from seq2attn.config.base import Config, Mistake
from seq2attn.data.prepare import DataConfig
from seq2attn.model.config import ModelConfig
from seq2attn.search.config import BeamConfig, SearchConfig
from seq2attn.text.config import TextConfig
from seq2attn.training.config import TrainingConfig


def _tied_is_joint(text: TextConfig, model: ModelConfig) -> list[Mistake]:
    if model.embeddings.tie != "all" or text.is_joint:
        return []
    return [Mistake("model.embeddings.tie", "`all` needs one vocabulary for both sides: give `text.joint`")]


class Experiment(Config):
    """A model, the text it learns from, and how."""

    rules = (_tied_is_joint,)

    run: Path
    """The run directory: where all that training makes is kept, relative to the working directory."""
    data: DataConfig
    text: TextConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = BeamConfig(kind="beam")
    """How `translate` and `evaluate` search unless told otherwise."""

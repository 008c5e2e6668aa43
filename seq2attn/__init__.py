"""A toolkit for neural machine translation: encoders, decoders and attention combined in one YAML file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2attn.config.base import Config as Config
    from seq2attn.config.base import FieldError as FieldError
    from seq2attn.config.base import FieldErrors as FieldErrors
    from seq2attn.config.base import InputPath as InputPath
    from seq2attn.errors import TrainingInterrupted as TrainingInterrupted
    from seq2attn.errors import UserError as UserError
    from seq2attn.experiment.experiment_config import ExperimentConfig as ExperimentConfig
    from seq2attn.experiment.experiment_config import load_config as load_config
    from seq2attn.inference.load import load as load
    from seq2attn.inference.translator import Translator as Translator
    from seq2attn.options import AttentionSelection as AttentionSelection
    from seq2attn.options import TranslationOptions as TranslationOptions
    from seq2attn.training.train import train as train
    from seq2attn.version import __version__ as __version__
    from seq2attn.visualization.attention import attention_text as attention_text
    from seq2attn.visualization.attention import draw_attention as draw_attention

_LAZY_IMPORTS = {
    "AttentionSelection": "seq2attn.options",
    "Config": "seq2attn.config.base",
    "ExperimentConfig": "seq2attn.experiment.experiment_config",
    "FieldError": "seq2attn.config.base",
    "FieldErrors": "seq2attn.config.base",
    "InputPath": "seq2attn.config.base",
    "TrainingInterrupted": "seq2attn.errors",
    "TranslationOptions": "seq2attn.options",
    "Translator": "seq2attn.inference.translator",
    "UserError": "seq2attn.errors",
    "__version__": "seq2attn.version",
    "attention_text": "seq2attn.visualization.attention",
    "draw_attention": "seq2attn.visualization.attention",
    "load": "seq2attn.inference.load",
    "load_config": "seq2attn.experiment.experiment_config",
    "train": "seq2attn.training.train",
}

__all__ = [name for name in _LAZY_IMPORTS if name != "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are imported at their first use, so that `import seq2attn` is fast and imports no torch."""
    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY_IMPORTS[name]), name)


def __dir__() -> list[str]:
    return [*_LAZY_IMPORTS]

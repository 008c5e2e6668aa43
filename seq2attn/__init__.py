"""A toolkit for neural machine translation: encoders, decoders and attention combined in one YAML file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2attn.attention.attention_config import AttentionConfig
    from seq2attn.config.base import Config, FieldError, FieldErrors, InputPath
    from seq2attn.config.plugin import allow_code
    from seq2attn.data.batch_planner import plan_batches
    from seq2attn.data.collate import make_batch
    from seq2attn.data.corpus import Corpus
    from seq2attn.data.prepared_data import load_prepared
    from seq2attn.errors import ConfigError, TrainingInterrupted, UserError
    from seq2attn.evaluation.aligner import align, select_alignment_head
    from seq2attn.evaluation.compare import compare
    from seq2attn.evaluation.evaluate_runs import evaluate
    from seq2attn.experiment.experiment_config import ExperimentConfig, load_config
    from seq2attn.explorer.page import explore
    from seq2attn.exporters.export_run import export
    from seq2attn.inference.input_checks import InputWarning
    from seq2attn.inference.load import load
    from seq2attn.inference.scoring import score
    from seq2attn.inference.translator import Translator
    from seq2attn.models import ModelConfig, Seq2Seq, build_model
    from seq2attn.options import AttentionSelection, TranslationOptions
    from seq2attn.options.runs import (
        AlignOptions,
        CompareOptions,
        EvaluateOptions,
        ExportOptions,
        ImportOptions,
        ScoreOptions,
    )
    from seq2attn.pretrained.import_run import import_model
    from seq2attn.search.search_config import BeamConfig, GreedyConfig, SampleConfig
    from seq2attn.tokenizers.base import Tokenizer
    from seq2attn.tokenizers.subwords import BPETokenizerConfig
    from seq2attn.training.checkpoints.averaging import average
    from seq2attn.training.prepare_run import prepare
    from seq2attn.training.train import train
    from seq2attn.version import __version__ as __version__
    from seq2attn.visualization.attention import attention_text, draw_attention

__all__ = [
    "AlignOptions", "AttentionConfig", "AttentionSelection", "BPETokenizerConfig", "BeamConfig", "CompareOptions",
    "Config", "ConfigError", "Corpus", "EvaluateOptions", "ExperimentConfig", "ExportOptions", "FieldError",
    "FieldErrors", "GreedyConfig", "ImportOptions", "InputPath", "InputWarning", "ModelConfig", "SampleConfig",
    "ScoreOptions", "Seq2Seq", "Tokenizer", "TrainingInterrupted", "TranslationOptions", "Translator", "UserError",
    "align", "allow_code", "attention_text", "average", "build_model", "compare", "draw_attention", "evaluate",
    "explore", "export", "import_model", "load", "load_config", "load_prepared", "make_batch",
    "plan_batches", "prepare", "score", "select_alignment_head", "train",
]  # fmt: skip
_MODULES = {
    "seq2attn.attention.attention_config": "AttentionConfig",
    "seq2attn.config.base": "Config FieldError FieldErrors InputPath",
    "seq2attn.config.plugin": "allow_code",
    "seq2attn.data.batch_planner": "plan_batches",
    "seq2attn.data.collate": "make_batch",
    "seq2attn.data.corpus": "Corpus",
    "seq2attn.data.prepared_data": "load_prepared",
    "seq2attn.errors": "ConfigError TrainingInterrupted UserError",
    "seq2attn.evaluation.aligner": "align select_alignment_head",
    "seq2attn.evaluation.compare": "compare",
    "seq2attn.evaluation.evaluate_runs": "evaluate",
    "seq2attn.experiment.experiment_config": "ExperimentConfig load_config",
    "seq2attn.explorer.page": "explore",
    "seq2attn.exporters.export_run": "export",
    "seq2attn.inference.input_checks": "InputWarning",
    "seq2attn.inference.load": "load",
    "seq2attn.inference.scoring": "score",
    "seq2attn.inference.translator": "Translator",
    "seq2attn.models": "ModelConfig Seq2Seq build_model",
    "seq2attn.options": "AttentionSelection TranslationOptions",
    "seq2attn.options.runs": "AlignOptions CompareOptions EvaluateOptions ExportOptions ImportOptions ScoreOptions",
    "seq2attn.pretrained.import_run": "import_model",
    "seq2attn.search.search_config": "BeamConfig GreedyConfig SampleConfig",
    "seq2attn.tokenizers.base": "Tokenizer",
    "seq2attn.tokenizers.subwords": "BPETokenizerConfig",
    "seq2attn.training.checkpoints.averaging": "average",
    "seq2attn.training.prepare_run": "prepare",
    "seq2attn.training.train": "train",
    "seq2attn.version": "__version__",
    "seq2attn.visualization.attention": "attention_text draw_attention",
}
_LAZY_IMPORTS = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Public names are imported at their first use, so that `import seq2attn` is fast and imports no torch."""
    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY_IMPORTS[name]), name)


def __dir__() -> list[str]:
    return [*_LAZY_IMPORTS]

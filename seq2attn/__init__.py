"""A toolkit for neural machine translation: encoders, decoders and attention combined in one YAML file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2attn.attention.attention_config import AttentionConfig as AttentionConfig
    from seq2attn.config.base import Config as Config
    from seq2attn.config.base import FieldError as FieldError
    from seq2attn.config.base import FieldErrors as FieldErrors
    from seq2attn.config.base import InputPath as InputPath
    from seq2attn.config.plugin import allow_code as allow_code
    from seq2attn.data.batch_planner import plan_batches as plan_batches
    from seq2attn.data.collate import make_batch as make_batch
    from seq2attn.data.corpus import Corpus as Corpus
    from seq2attn.data.prepared_data import load_prepared as load_prepared
    from seq2attn.errors import TrainingInterrupted as TrainingInterrupted
    from seq2attn.errors import UserError as UserError
    from seq2attn.evaluation.aligner import align as align
    from seq2attn.evaluation.aligner import select_alignment_head as select_alignment_head
    from seq2attn.evaluation.compare import compare as compare
    from seq2attn.evaluation.evaluate_runs import evaluate as evaluate
    from seq2attn.experiment.experiment_config import ExperimentConfig as ExperimentConfig
    from seq2attn.experiment.experiment_config import load_config as load_config
    from seq2attn.exporters.export_run import export as export
    from seq2attn.inference.load import load as load
    from seq2attn.inference.scoring import score as score
    from seq2attn.inference.translator import Translator as Translator
    from seq2attn.models import ModelConfig as ModelConfig
    from seq2attn.models import Seq2Seq as Seq2Seq
    from seq2attn.models import build_model as build_model
    from seq2attn.options import AttentionSelection as AttentionSelection
    from seq2attn.options import TranslationOptions as TranslationOptions
    from seq2attn.options.runs import AlignOptions as AlignOptions
    from seq2attn.options.runs import CompareOptions as CompareOptions
    from seq2attn.options.runs import EvaluateOptions as EvaluateOptions
    from seq2attn.options.runs import ExportOptions as ExportOptions
    from seq2attn.options.runs import ImportOptions as ImportOptions
    from seq2attn.options.runs import ScoreOptions as ScoreOptions
    from seq2attn.pretrained.import_run import import_model as import_model
    from seq2attn.tokenizers.base import Tokenizer as Tokenizer
    from seq2attn.tokenizers.subwords import BPETokenizerConfig as BPETokenizerConfig
    from seq2attn.training.checkpoints.averaging import average as average
    from seq2attn.training.prepare_run import prepare as prepare
    from seq2attn.training.train import train as train
    from seq2attn.version import __version__ as __version__
    from seq2attn.visualization.attention import attention_text as attention_text
    from seq2attn.visualization.attention import draw_attention as draw_attention

_LAZY_IMPORTS = {
    "AlignOptions": "seq2attn.options.runs",
    "AttentionConfig": "seq2attn.attention.attention_config",
    "AttentionSelection": "seq2attn.options",
    "BPETokenizerConfig": "seq2attn.tokenizers.subwords",
    "CompareOptions": "seq2attn.options.runs",
    "Config": "seq2attn.config.base",
    "Corpus": "seq2attn.data.corpus",
    "EvaluateOptions": "seq2attn.options.runs",
    "ExperimentConfig": "seq2attn.experiment.experiment_config",
    "ExportOptions": "seq2attn.options.runs",
    "FieldError": "seq2attn.config.base",
    "FieldErrors": "seq2attn.config.base",
    "ImportOptions": "seq2attn.options.runs",
    "InputPath": "seq2attn.config.base",
    "ModelConfig": "seq2attn.models",
    "ScoreOptions": "seq2attn.options.runs",
    "Seq2Seq": "seq2attn.models",
    "Tokenizer": "seq2attn.tokenizers.base",
    "TrainingInterrupted": "seq2attn.errors",
    "TranslationOptions": "seq2attn.options",
    "Translator": "seq2attn.inference.translator",
    "UserError": "seq2attn.errors",
    "__version__": "seq2attn.version",
    "align": "seq2attn.evaluation.aligner",
    "allow_code": "seq2attn.config.plugin",
    "attention_text": "seq2attn.visualization.attention",
    "average": "seq2attn.training.checkpoints.averaging",
    "build_model": "seq2attn.models",
    "compare": "seq2attn.evaluation.compare",
    "draw_attention": "seq2attn.visualization.attention",
    "evaluate": "seq2attn.evaluation.evaluate_runs",
    "export": "seq2attn.exporters.export_run",
    "import_model": "seq2attn.pretrained.import_run",
    "load": "seq2attn.inference.load",
    "load_config": "seq2attn.experiment.experiment_config",
    "load_prepared": "seq2attn.data.prepared_data",
    "make_batch": "seq2attn.data.collate",
    "plan_batches": "seq2attn.data.batch_planner",
    "prepare": "seq2attn.training.prepare_run",
    "score": "seq2attn.inference.scoring",
    "select_alignment_head": "seq2attn.evaluation.aligner",
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

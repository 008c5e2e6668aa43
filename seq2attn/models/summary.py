"""Summary of a model: components and numbers of parameters, as a table."""

from __future__ import annotations

import torch
from torch import nn

from seq2attn.errors import ConfigError
from seq2attn.io.tables import format_table
from seq2attn.models.build import build_model
from seq2attn.models.config import ModelConfig
from seq2attn.models.seq2seq import Seq2Seq
from seq2attn.nn.initialization import SkipInit
from seq2attn.tokenizers.config import TokenizerConfig, TokenizersConfig

ASSUMED_VOCAB_SIZE = 8000
"""Assumed vocabulary size where it depends on the text."""


def build_on_meta_device(model: ModelConfig, tokenizers: TokenizersConfig) -> Seq2Seq:
    """The model of a config, built without data and without memory for its weights.

    Raises ConfigError for sizes that no tensor can have.
    """
    try:
        with SkipInit(), torch.device("meta"):
            return build_model(model, *map(_vocab_size, tokenizers.per_side))
    except (RuntimeError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"`model`: cannot be built from this config ({reason})") from None


def count_parameters(model: nn.Module) -> int:
    """Number of parameters of a model; tied parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _vocab_size(tokenizer: TokenizerConfig) -> int:
    return getattr(tokenizer, "vocab_size", None) or ASSUMED_VOCAB_SIZE


def dry_run_summary(config: ModelConfig, tokenizers: TokenizersConfig) -> str:
    """The components of a config's model, their shapes and numbers of parameters; tied parameters count once."""
    model = build_on_meta_device(config, tokenizers)
    rows = [("part", "type or shape", "parameters")]
    for name, part in model.named_children():
        rows.append((name, type(part).__name__, f"{count_parameters(part):,}"))
        for key, parameter in part.named_parameters():
            shape = " x ".join(map(str, parameter.shape)) or "1"
            rows.append((f"{name}.{key}", shape, f"{parameter.numel():,}"))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    rows.append(("all parts (tied parameters counted once)", "", f"{count_parameters(model):,}"))
    rows.append(("trained", "", f"{trained:,}"))
    source, target = map(_vocab_size, tokenizers.per_side)
    return f"{format_table(rows, num_text_columns=2)}\nvocabularies of {source:,} and {target:,} entries (at most)"

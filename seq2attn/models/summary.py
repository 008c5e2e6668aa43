"""Summary of a model: its parts and numbers of parameters, as a table."""

from __future__ import annotations

import torch

from seq2attn.errors import ConfigError
from seq2attn.io.tables import format_table
from seq2attn.models.build import build_model
from seq2attn.models.config import ModelConfig
from seq2attn.models.seq2seq import Seq2Seq
from seq2attn.nn.initialization import SkipInit
from seq2attn.tokenizers.config import TokenizerConfig, TokenizersConfig

ASSUMED_VOCAB_SIZE = 8000
"""Assumed vocabulary size where it depends on the text."""


def dry_run_summary(model: ModelConfig, text: TokenizersConfig) -> str:
    """The parts of a config's model, as a table."""
    sizes = [_size(tokenizer) for tokenizer in text.per_side]
    table = model_summary(build_on_meta_device(model, text))
    return f"{table}\nvocabularies of {sizes[0]:,} and {sizes[1]:,} entries (at most)"


def build_on_meta_device(model: ModelConfig, text: TokenizersConfig) -> Seq2Seq:
    """The model of a config, built without data and without memory for its weights.

    Raises ConfigError for sizes that no tensor can have.
    """
    try:
        with SkipInit(), torch.device("meta"):
            return build_model(model, *(_size(tokenizer) for tokenizer in text.per_side))
    except (RuntimeError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"`model`: cannot be built as the config says ({reason})") from None


def count_parameters(model: Seq2Seq) -> int:
    """Number of parameters of a model; tied parameters count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _size(tokenizer: TokenizerConfig) -> int:
    return getattr(tokenizer, "vocab_size", None) or ASSUMED_VOCAB_SIZE


def model_summary(model: Seq2Seq) -> str:
    """The parts of a model with their shapes and numbers of parameters; what is tied is counted once."""
    rows = [("part", "type or shape", "parameters")]
    for name, part in model.named_children():
        parameters = {id(p): p.numel() for p in part.parameters()}
        rows.append((name, type(part).__name__, f"{sum(parameters.values()):,}"))
        for key, parameter in part.named_parameters():
            shape = " x ".join(map(str, parameter.shape)) or "1"
            rows.append((f"{name}.{key}", shape, f"{parameter.numel():,}"))
    total = count_parameters(model)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    rows.append(("all parts (what is tied counted once)", "", f"{total:,}"))
    rows.append(("of which training changes", "", f"{trained:,}"))
    return format_table(rows, num_text_columns=2)

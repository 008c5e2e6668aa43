"""Floating-point operations of a model's matrix products, from its parameters and the lengths of the text."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from benchmark.text import Lengths
from seq2attn.attention.attention import Attention
from seq2attn.models import Seq2Seq

BACKWARD = 2
"""Cost of the backward pass relative to the forward pass: gradients of inputs and of weights."""


def flops_per_token(model: Seq2Seq, lengths: Lengths) -> float:
    """FLOPs of a model's matrix products in training per target token, without padding.

    Matrices of the encoder, and of keys and values of the source, apply to source tokens; other matrices of the decoder
    and the output layer to target tokens; scores and contexts to pairs of tokens. The initial state is ignored.
    """
    source, target = lengths.source, lengths.target
    s, t = sum(source), sum(target)
    per_source = matrices(model.encoder)
    per_target = matrices(model.decoder) + model.output_projection.weight.numel()
    across = sum(n * m for n, m in zip(source, target, strict=True))
    products = 0
    for _, attention in _attentions(model.encoder):
        products += _widths(attention, model) * sum(n * n for n in source)
    for name, attention in _attentions(model.decoder):
        if name.endswith("self_attention"):
            products += _widths(attention, model) * sum(n * n for n in target)
            continue
        products += _widths(attention, model) * across
        keys_values = matrices(attention.score.get_submodule("key_proj")) + matrices(attention.value_proj)
        per_source, per_target = per_source + keys_values, per_target - keys_values
    return (1 + BACKWARD) * 2 * (per_source * s + per_target * t + products) / t


def matrices(module: nn.Module) -> int:
    """Number of elements of all matrices that apply to tokens: without embeddings and initial states."""
    return sum(
        parameter.numel()
        for name, part in module.named_modules()
        if not isinstance(part, nn.Embedding) and "bridge" not in name.split(".")
        for parameter in part.parameters(recurse=False)
        if parameter.dim() == 2
    )


def _attentions(module: nn.Module) -> Iterator[tuple[str, Attention]]:
    return ((name, part) for name, part in module.named_modules() if isinstance(part, Attention))


def _widths(attention: Attention, model: Seq2Seq) -> int:
    """Multiplications of a query with a key, and of a weight with a value, over all heads."""
    sharing = attention.score.heads // attention.score.kv_heads
    key, value = attention.score.get_submodule("key_proj"), attention.value_proj
    assert isinstance(key, nn.Linear)
    values = sharing * value.out_features if isinstance(value, nn.Linear) else model.encoder.value_dim
    return sharing * key.out_features + values

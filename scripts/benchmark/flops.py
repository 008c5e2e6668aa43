"""The multiplications that a model cannot do without, from its matrices and the lengths of the real text."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from benchmark.text import Lengths
from seq2attn.attention import Attention
from seq2attn.models import Seq2Seq

BACKWARD = 2
"""Times the forward pass: the gradients of what was multiplied, and of the weights."""


def flops_a_word(model: Seq2Seq, lengths: Lengths) -> float:
    """Floating-point operations of a model's matrix products in training, for each target token; padding has none.

    The encoder's matrices multiply each source word, and so do those of the decoder that make keys and values of the
    source; its others and the output layer's multiply each target word. Scores and contexts are of each pair of words.
    What is made once a sentence, as a decoder's first state is, counts for nothing.
    """
    source, target = lengths.source, lengths.target
    s, t = sum(source), sum(target)
    of_source, of_target = (
        matrices(model.encoder),
        matrices(model.decoder) + model.output_projection.weight.numel(),
    )
    across = sum(n * m for n, m in zip(source, target, strict=True))
    products = 0
    for _, attention in _attentions(model.encoder):
        products += _widths(attention, model) * sum(n * n for n in source)
    for name, attention in _attentions(model.decoder):
        if name.endswith("self_attention"):
            products += _widths(attention, model) * sum(n * n for n in target)
            continue
        products += _widths(attention, model) * across
        looks = matrices(attention.score.get_submodule("key_proj")) + matrices(attention.value_proj)
        of_source, of_target = of_source + looks, of_target - looks
    return (1 + BACKWARD) * 2 * (of_source * s + of_target * t + products) / t


def matrices(module: nn.Module) -> int:
    """The numbers in what multiplies words: no tables in which they are looked up, and nothing for first states."""
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
    """Multiplications of a query with a key for its scores, and of its weight with a value, of all heads."""
    sharing = attention.score.heads // attention.score.kv_heads
    key, value = attention.score.get_submodule("key_proj"), attention.value_proj
    assert isinstance(key, nn.Linear)
    values = sharing * value.out_features if isinstance(value, nn.Linear) else model.encoder.value_dim
    return sharing * key.out_features + values

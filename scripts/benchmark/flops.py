"""The multiplications that T cannot do without, from the lengths of the real text."""

from __future__ import annotations

from benchmark.text import Lengths

DIM, HIDDEN, WORDS, LAYERS = 256, 1024, 8000, 3
BACKWARD = 2
"""Times the forward pass: the gradients of what was multiplied, and of the weights."""


def flops_a_word(lengths: Lengths) -> float:
    """Floating-point operations of T's matrix products in training, for each target token; padding has none.

    Encoder: in each layer four projections and two of the feed-forward part for each source word, and scores and
    contexts of each pair of words. Decoder: six projections of target words and two of source words. Then the output.
    """
    source, target = lengths.source, lengths.target
    s, t = sum(source), sum(target)
    encoder = (4 * DIM**2 + 2 * DIM * HIDDEN) * s + 2 * DIM * sum(n * n for n in source)
    pairs = sum(n * m for n, m in zip(source, target, strict=True))
    decoder = (
        (6 * DIM**2 + 2 * DIM * HIDDEN) * t + 2 * DIM**2 * s + 2 * DIM * (sum(n * n for n in target) + pairs)
    )
    forward = 2 * (LAYERS * (encoder + decoder) + DIM * WORDS * t)
    return (1 + BACKWARD) * forward / t

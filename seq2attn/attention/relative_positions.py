"""Relative and rotary positions in multi-head self-attention.

Shapes: B sentences, H heads, G heads of keys, T queries, S keys, d the width of a head.
"""

import math

import torch
from torch import Tensor, nn

from seq2attn.attention.base import QueryInfo


class RelativePositionEmbedding(nn.Embedding):
    """Vectors a of a score (W q) . (U k + a) / sqrt(d), one for each distance from q to k: Shaw et al. 2018, 3.2.

    The heads share the vectors. Distances beyond `max_distance` are clipped. Values have no vectors: in the paper's
    section 4.3 they add nothing to those of the keys.
    """

    def __init__(self, max_distance: int, dim: int) -> None:
        super().__init__(2 * max_distance + 1, dim)
        self.max_distance = max_distance

    def bias(self, q: Tensor, num_keys: int, info: QueryInfo) -> Tensor:
        """(W q) . a / sqrt(d), [B, H, T, S]: computed for all distances, then gathered for those of the keys"""
        by_distance = q @ self.weight.T / math.sqrt(q.size(-1))  # [B, H, T, 2 * max_distance + 1]
        # In a shared KV cache the tokens of several hypotheses are mixed: each counts its own.
        key_position = torch.arange(num_keys, device=q.device) if info.mask is None else info.mask.cumsum(-1) - 1
        distance = key_position - info.position[:, None, :, None]
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return by_distance.gather(-1, row.expand(-1, q.size(1), -1, -1))


def apply_rotary(x: Tensor, position: Tensor) -> Tensor:
    """x [B, H, T, d] at positions [B, T] -> [B, H, T, d], each pair i rotated by position * 10,000 ** (-2i / d).

    Of queries and keys: (R_t W q) . (R_s U k) / sqrt(d) (Su et al. 2021, eq. 14 to 16). The product of R_t and R_s is
    R_(s - t). Keys are cached after the rotation.

    The two elements of a pair are d / 2 apart, as in GPT-NeoX and LLaMA; in the paper they are adjacent, which is the
    same up to a permutation of the rows of W.
    """
    dtype, half = torch.promote_types(x.dtype, torch.float32), x.size(-1) // 2
    exponent = torch.arange(half, device=x.device, dtype=dtype) * (-math.log(10_000.0) / half)
    angle = position[:, None, :, None] * exponent.exp()
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class RelativePositionBias(nn.Module):
    """A learned term of the scores for each head and bucket of distances: Raffel et al. 2020, section 2.1.

    The layers of an encoder or a decoder share it. Half of the buckets are for a single distance each; the others grow
    with the logarithm, and the last has all distances from `max_distance` on. If bidirectional, half of all buckets are
    for later keys; otherwise later keys are as distant as the query's own position.
    """

    def __init__(self, heads: int, num_buckets: int, max_distance: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_buckets, heads)
        self.max_distance, self.bidirectional = max_distance, bidirectional

    def forward(self, position: Tensor, mask: Tensor) -> Tensor:
        """Queries at positions [B, T], bool mask [B, 1, 1 or T, S] -> [B, H, T, S], minus infinity where it is False.

        The position of a key is the number of earlier keys that the mask allows.
        """
        distance = mask.cumsum(-1) - 1 - position[:, None, :, None]
        bias: Tensor = self.embedding(self.bucket(distance.squeeze(1)))
        return bias.permute(0, 3, 1, 2).masked_fill(~mask, -torch.inf).contiguous()

    def bucket(self, distance: Tensor) -> Tensor:
        """Distances from query to key -> rows of the table"""
        buckets, first = self.embedding.num_embeddings, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            first, distance = (distance > 0) * buckets, -distance.abs()
        distance, exact = -distance.clamp_max(0), buckets // 2
        log_ratio = (distance.clamp_min(exact) / exact).log() / math.log(self.max_distance / exact)
        return first + (distance.clamp_max(exact) + (log_ratio * (buckets - exact)).long()).clamp_max(buckets - 1)

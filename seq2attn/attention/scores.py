"""Score functions: f(query, key).

Shapes: B sentences, H heads, G heads of keys, T queries, S keys, d the common width of query and key.

A score consists of the projections of both sides (`project_query`, `project_key`) and their comparison (`forward`).
Keys are projected once per sentence, queries at each step, so a single weight matrix is applied to the keys.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from seq2attn.attention.base import AttentionComponent, QueryInfo, ScoreConfig
from seq2attn.attention.relative_positions import RelativePositionEmbedding, apply_rotary
from seq2attn.config.base import FieldError
from seq2attn.nn.kernels.additive import additive_scores
from seq2attn.nn.kernels.linear import Linear
from seq2attn.nn.layers import repeat_kv, split_heads, width_per_head


class ScoreFunction(AttentionComponent, ABC):
    """Base class: f(query, key) for one or several heads; without `query_proj` and `key_proj` nothing is projected.

    Positions are counted from 0; most scores ignore them.
    """

    def __init__(
        self,
        heads: int = 1,
        kv_heads: int | None = None,
        *,
        query_proj: nn.Module | None = None,
        key_proj: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads  # number of heads of keys and values
        self.query_proj = query_proj or nn.Identity()
        self.key_proj = key_proj or nn.Identity()

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, Dq], at positions [B, T] -> [B, H, T, d]"""
        return split_heads(self.query_proj(x), self.heads)

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk], at positions [B, S] -> [B, G, S, d]"""
        return split_heads(self.key_proj(x), self.kv_heads)

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, G, S, d] -> [B, H, T, S]"""


class DotScore(ScoreFunction):
    """q . k (Luong et al. 2015, section 3.1, dot); divided by sqrt(d) when scaled (Vaswani et al. 2017, eq. 1).

    Between projected queries and keys it is the score of multi-head attention, W q . U k; with W alone for the keys it
    is Luong's general, q W k. Positions are those of self-attention: `rotary`, or a `relative_embedding`.
    """

    def __init__(
        self,
        heads: int = 1,
        kv_heads: int | None = None,
        *,
        scaled: bool = False,
        query_proj: nn.Module | None = None,
        key_proj: nn.Module | None = None,
        rotary: bool = False,
        relative_embedding: RelativePositionEmbedding | None = None,
    ) -> None:
        super().__init__(heads, kv_heads, query_proj=query_proj, key_proj=key_proj)
        self.scaled = scaled
        self.rotary = rotary
        self.relative_embedding = relative_embedding

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, Dq], at positions [B, T] -> [B, H, T, d]"""
        q = super().project_query(x, position)
        return apply_rotary(q, position) if self.rotary else q

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk], at positions [B, S] -> [B, G, S, d]"""
        k = super().project_key(x, position)
        return apply_rotary(k, position) if self.rotary else k

    def bias(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor | None:
        """A term [B, H, T, S] that is added to the dot products; None without one."""
        return None if self.relative_embedding is None else self.relative_embedding.bias(q, k.size(-2), info)

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, G, S, d] -> [B, H, T, S]"""
        scores = q @ repeat_kv(k, q.size(1)).transpose(-2, -1)
        scores = scores / math.sqrt(q.size(-1)) if self.scaled else scores
        bias = self.bias(q, k, info)
        return scores if bias is None else scores + bias


class DotProductConfig(ScoreConfig):
    """Base class of the configs of dot products."""

    heads_divide_query = True

    kind: str
    scaled: bool = False
    """Divide by the square root of the width, of a head if there are several."""

    @property
    def is_scaled_dot(self) -> bool:
        """True with `scaled`."""
        return self.scaled


class DotScoreConfig(DotProductConfig):
    """Dot product: no parameters, so query and key must have the same width."""

    needs_equal_widths = True

    kind: Literal["dot"] = "dot"
    heads: PositiveInt = 1
    """Number of heads; each compares its share of the width."""

    def build(self, query_dim: int, key_dim: int) -> DotScore:
        """Raises ValueError when query and key differ in width, or the heads do not divide it."""
        if query_dim != key_dim:
            raise ValueError(f"dot needs query and key of one width, not {query_dim} and {key_dim}")
        width_per_head(query_dim, self.heads)
        return DotScore(self.heads, scaled=self.scaled)


class GeneralScoreConfig(DotProductConfig):
    """Bilinear form."""

    kind: Literal["general"] = "general"
    heads: PositiveInt = 1
    """Number of heads; must divide the width of the query."""

    def build(self, query_dim: int, key_dim: int) -> DotScore:
        """q W k (Luong et al. 2015, section 3.1, general); W projects the keys, once per sentence.

        Divided by sqrt(d) when scaled: otherwise one step of Adam changes the scores in proportion to the width.
        Raises ValueError when the heads do not divide `query_dim`.
        """
        width_per_head(query_dim, self.heads)
        return DotScore(self.heads, scaled=self.scaled, key_proj=Linear(key_dim, query_dim, bias=False))


class CosineScore(ScoreFunction):
    """beta * cos(q, W k): content-based addressing with a trained sharpness per head (Graves et al. 2014, eq. 5 and 6).

    W projects keys to the width of the query, once per sentence.
    """

    def __init__(self, query_dim: int, key_dim: int, heads: int) -> None:
        width_per_head(query_dim, heads)
        super().__init__(heads, key_proj=Linear(key_dim, query_dim, bias=False))
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 10.0))

    def project_query(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, T, Dq] -> [B, H, T, d], of length 1"""
        return F.normalize(super().project_query(x, position), dim=-1)

    def project_key(self, x: Tensor, position: Tensor) -> Tensor:
        """[B, S, Dk] -> [B, H, S, d], of length 1"""
        return F.normalize(super().project_key(x, position), dim=-1)

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, H, S, d] -> [B, H, T, S]"""
        return self.sharpness.to(q.dtype) * (q @ k.transpose(-2, -1))


class CosineScoreConfig(ScoreConfig):
    """Cosine of query and key (content-based addressing)."""

    heads_divide_query = True

    kind: Literal["cosine"] = "cosine"
    heads: PositiveInt = 1
    """Number of heads; must divide the width of the query."""

    def build(self, query_dim: int, key_dim: int) -> CosineScore:
        """Raises ValueError when the heads do not divide `query_dim`."""
        return CosineScore(query_dim, key_dim, self.heads)


class AdditiveScore(ScoreFunction):
    """v . tanh(W q + U k): Bahdanau et al. 2015, section A.1.2.

    Luong's concat, v . tanh(W [q; k]) (Luong et al. 2015, section 3.1), is the same function: its matrix is [W U].
    """

    def __init__(self, query_dim: int, key_dim: int, dim: int, heads: int) -> None:
        query_proj, key_proj = Linear(query_dim, dim, bias=False), Linear(key_dim, dim, bias=False)
        super().__init__(heads, query_proj=query_proj, key_proj=key_proj)
        self.v = nn.Parameter(torch.empty(heads, 1, dim // heads))
        nn.init.uniform_(self.v, -0.1, 0.1)

    def forward(self, q: Tensor, k: Tensor, info: QueryInfo) -> Tensor:
        """[B, H, T, d], [B, H, S, d] -> [B, H, T, S]"""
        return additive_scores(q, k, self.v)


class HiddenLayerScoreConfig(ScoreConfig):
    """Base class of the configs of additive scores."""

    kind: str
    dim: PositiveInt = 256
    """Width of the hidden layer of the score."""
    heads: PositiveInt = 1
    """Number of heads."""

    def check_fields(self) -> list[FieldError]:
        """The error of heads that do not divide the width."""
        message = f"{self.heads} heads do not divide the width {self.dim}"
        return [FieldError("heads", message)] if self.dim % self.heads else []


class AdditiveScoreConfig(HiddenLayerScoreConfig):
    """Bahdanau's score; `concat` is Luong's name for it."""

    kind: Literal["additive", "concat"]

    def build(self, query_dim: int, key_dim: int) -> AdditiveScore:
        """For queries [*, query_dim] and keys [*, key_dim]."""
        return AdditiveScore(query_dim, key_dim, self.dim, self.heads)


def check_kv_heads(kv_heads: int | None, heads: int) -> list[FieldError]:
    """The error of heads of keys and values that do not divide those of the query."""
    if kv_heads is None or heads % kv_heads == 0:
        return []
    return [FieldError("kv_heads", f"{kv_heads} key-value heads do not divide {heads} heads")]


class MultiHeadScoreConfig(ScoreConfig):
    """Scaled dot products of projected queries and keys."""

    heads_divide_query = True
    is_scaled_dot: ClassVar[bool] = True

    kind: Literal["multi-head"] = "multi-head"
    heads: PositiveInt = 8
    """Number of heads; without `head_dim` it must divide the width of the query."""
    kv_heads: PositiveInt | None = None
    """Number of heads of keys and values (grouped-query attention); none: as many as `heads`."""
    head_dim: PositiveInt | None = None
    """Width of a head; none: the width of the query, divided by `heads`."""
    bias: bool = True
    """Biases of the projections, those of values and context too."""

    def check_fields(self) -> list[FieldError]:
        """The error of heads of keys and values that do not divide those of the query."""
        return check_kv_heads(self.kv_heads, self.heads)

    @property
    def has_own_widths(self) -> bool:
        """True with `head_dim`."""
        return self.head_dim is not None

    def build(self, query_dim: int, key_dim: int, *, rotary: bool = False, max_distance: int | None = None) -> DotScore:
        """(W q) . (U k) / sqrt(d) in every head: Vaswani et al. 2017, section 3.2.2.

        With fewer `kv_heads` than heads, each head of keys and values serves heads / kv_heads heads of the query
        (grouped-query attention, Ainslie et al. 2023, section 2.2), which makes the KV cache smaller. `rotary`,
        `max_distance`: positions of self-attention, by rotation or by learned distances.

        Raises ValueError when the heads do not divide `query_dim`, and there is no `head_dim`, or for rotary heads of
        an odd width.
        """
        width = self.head_dim or width_per_head(query_dim, self.heads)
        if rotary and width % 2:
            raise ValueError(f"rotary positions need heads of an even width, not {width}")
        return DotScore(
            self.heads,
            self.kv_heads,
            scaled=True,
            query_proj=Linear(query_dim, width * self.heads, self.bias),
            key_proj=Linear(key_dim, width * (self.kv_heads or self.heads), self.bias),
            rotary=rotary,
            relative_embedding=None if max_distance is None else RelativePositionEmbedding(max_distance, width),
        )

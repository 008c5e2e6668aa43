"""Which scores and alignments there are, and how a config joins them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from seq2attn.attention.alignment import GlobalConfig, LocalMonotonicConfig, LocalPredictiveConfig
from seq2attn.attention.attention import Attention
from seq2attn.attention.cosine import CosineConfig
from seq2attn.attention.coverage import CoverageConfig
from seq2attn.attention.entmax import SparseConfig
from seq2attn.attention.hard import GumbelConfig, ReinforceConfig
from seq2attn.attention.monotonic import MonotonicConfig
from seq2attn.attention.position_scores import LocationConfig, OffsetConfig
from seq2attn.attention.scores import AdditiveConfig, DotConfig, GeneralConfig, MultiHeadConfig
from seq2attn.config.base import Config
from seq2attn.config.plugin import Pluggable
from seq2attn.nn.linear import Linear

ScoreConfig = Annotated[
    DotConfig
    | GeneralConfig
    | AdditiveConfig
    | CoverageConfig
    | MultiHeadConfig
    | CosineConfig
    | LocationConfig
    | OffsetConfig,
    Field(discriminator="kind"),
    Pluggable("score"),
]
AlignConfig = Annotated[
    GlobalConfig
    | LocalMonotonicConfig
    | LocalPredictiveConfig
    | SparseConfig
    | ReinforceConfig
    | GumbelConfig
    | MonotonicConfig,
    Field(discriminator="kind"),
    Pluggable("alignment"),
]


class AttentionConfig(Config):
    """Any score with any alignment."""

    score: ScoreConfig
    """How a query and a key are compared."""
    align: AlignConfig = GlobalConfig(kind="global")
    """How the scores become weights."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Share of the weights that training leaves out (CPU: anything but 0 costs the fused kernel)."""

    @property
    def is_scaled_dot(self) -> bool:
        """Whether it is a softmax of scaled dot products, for which there are fused kernels."""
        score = self.score
        scaled = isinstance(score, DotConfig | GeneralConfig) and score.scaled
        return (scaled or isinstance(score, MultiHeadConfig)) and isinstance(self.align, GlobalConfig)

    def build(self, query_dim: int, key_dim: int, value_dim: int, output_dim: int | None = None) -> Attention:
        """An attention whose context is `output_dim` wide, projected, or `value_dim`, as the encoder made it.

        Several heads always project the values (Vaswani et al. 2017, section 3.2.2: head_i = Attention(QW, KW, VW)).
        Raises ValueError when they do not divide that width.
        """
        score = self.score.build(query_dim, key_dim)
        if output_dim is None and score.heads > 1:
            output_dim = value_dim
        if output_dim is None:
            return Attention(score, self.align.build(query_dim), dropout=self.dropout)
        if output_dim % score.heads:
            raise ValueError(f"{score.heads} heads do not divide values {output_dim} wide")
        return Attention(
            score,
            self.align.build(query_dim),
            value=Linear(value_dim, output_dim // score.heads * score.groups),
            output=Linear(output_dim, output_dim),
            dropout=self.dropout,
        )

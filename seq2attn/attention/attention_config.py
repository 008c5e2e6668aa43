"""The `attention` section of a config: the kinds of scores and alignment functions."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo

from seq2attn.attention.align_functions import (
    GlobalAlignmentConfig,
    LocalMonotonicAlignmentConfig,
    LocalPredictiveAlignmentConfig,
)
from seq2attn.attention.attention import Attention, ValueProjection
from seq2attn.attention.base import Width
from seq2attn.attention.coverage import CoverageScoreConfig
from seq2attn.attention.entmax import EntmaxAlignmentConfig
from seq2attn.attention.hard import GumbelAlignmentConfig, ReinforceAlignmentConfig
from seq2attn.attention.monotonic import MonotonicAlignmentConfig
from seq2attn.attention.position_scores import LocationScoreConfig, OffsetScoreConfig
from seq2attn.attention.scores import (
    AdditiveScoreConfig,
    CosineScoreConfig,
    DotScoreConfig,
    GeneralScoreConfig,
    MultiHeadScoreConfig,
)
from seq2attn.config.base import Config, FieldError
from seq2attn.config.plugin import Pluggable, is_plugin

ScoreFunctionConfig = Annotated[
    DotScoreConfig
    | GeneralScoreConfig
    | AdditiveScoreConfig
    | CoverageScoreConfig
    | MultiHeadScoreConfig
    | CosineScoreConfig
    | LocationScoreConfig
    | OffsetScoreConfig,
    Field(discriminator="kind"),
    Pluggable("score"),
]
AlignmentFunctionConfig = Annotated[
    GlobalAlignmentConfig
    | LocalMonotonicAlignmentConfig
    | LocalPredictiveAlignmentConfig
    | EntmaxAlignmentConfig
    | ReinforceAlignmentConfig
    | GumbelAlignmentConfig
    | MonotonicAlignmentConfig,
    Field(discriminator="kind"),
    Pluggable("alignment"),
]


class AttentionConfig(Config):
    """A score function and an alignment function."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required"))  # `score` has a default

    score: ScoreFunctionConfig
    """Comparison of a query with a key. Default: that of the decoder."""
    align: AlignmentFunctionConfig = GlobalAlignmentConfig()
    """Conversion of scores into weights."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout of the attention weights (on a CPU anything but 0 disables the fused kernel)."""

    @property
    def supports_sdpa(self) -> bool:
        """True for a softmax of scaled dot products, which have fused kernels."""
        if is_plugin(self.score) or is_plugin(self.align):
            return False
        return self.score.is_scaled_dot and self.align.is_softmax

    @property
    def sampling(self) -> str:
        """The reason that minimum risk training cannot score candidates, for sampled positions."""
        return "" if is_plugin(self.align) else self.align.sampling

    @property
    def heads(self) -> int | None:
        """Number of heads; None for the score of a plug-in."""
        return None if is_plugin(self.score) else self.score.heads

    def check_widths(self, query: Width, key: Width | None, context: Width | None) -> Iterator[FieldError]:
        """Errors of widths that do not fit; None: that of a plug-in."""
        score = self.score
        if is_plugin(score):
            return
        for width in (query if score.heads_divide_query else None, context):
            if width is not None and not score.has_own_widths:
                yield from width.check_heads("score.heads", score.heads)
        if score.needs_equal_widths and key is not None and key.dim != query.dim:
            widths = f"`{score.kind}` compares {query.owner}, {query.dim} wide, with an encoder {key.dim} wide"
            yield FieldError("score", f"{widths}; make them equal, or use `general`")

    def build(self, query_dim: int, key_dim: int, value_dim: int, output_dim: int | None = None) -> Attention:
        """An attention with a context of width `output_dim`, projected, or `value_dim`, not projected.

        Several heads always project the values (Vaswani et al. 2017, section 3.2.2: head_i = Attention(QW, KW, VW)).
        Raises ValueError when they do not divide that width.
        """
        score = self.score.build(query_dim, key_dim)
        projection = None
        if isinstance(self.score, MultiHeadScoreConfig):
            projection = ValueProjection(value_dim, output_dim or value_dim, self.score.head_dim, self.score.bias)
        elif output_dim is not None or score.heads > 1:
            projection = ValueProjection(value_dim, output_dim or value_dim)
        return Attention(score, self.align.build(query_dim), projection=projection, dropout=self.dropout)


def default_score(score: Mapping[str, Any], *shared: str) -> BeforeValidator:
    """The score of a decoder's attention whose config has none; `shared` are options that it has from the decoder."""

    def with_score(attention: Any, info: ValidationInfo) -> Any:
        if not isinstance(attention, Mapping) or "score" in attention:
            return attention
        return {**attention, "score": {**score, **{name: info.data[name] for name in shared if name in info.data}}}

    return BeforeValidator(with_score)

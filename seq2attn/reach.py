"""How long a source may be for a model to know what to do with it."""

from __future__ import annotations

from dataclasses import dataclass

from seq2attn.attention.config import AttentionConfig
from seq2attn.encoders import (
    BertEncoderConfig,
    ConvolutionalEncoderConfig,
    EncoderConfig,
    TransformerEncoderConfig,
)
from seq2attn.experiment import Experiment
from seq2attn.search.config import LengthsConfig


@dataclass(frozen=True)
class Reach:
    """The most tokens of a source, its end not counted."""

    tokens: int
    why: str  # for people, after the number of tokens that a line has


def reach_of(experiment: Experiment) -> Reach:
    """That of a trained model: no pair that it learnt from was longer, and it has positions for no more."""
    most = experiment.data.filters.max_length
    reaches = [Reach(most, f"the model learnt from none with more than {most:,} (`data.filters.max_length`)")]
    for positions, key in (_encoder(experiment.model.encoder), _score(experiment)):
        if positions is not None:
            most = max(1, positions - 1)  # the end has one
            reaches.append(Reach(most, f"the model has positions for {most:,} (`model.{key}`)"))
    return min(reaches, key=lambda reach: reach.tokens)


def reach_in(lengths: LengthsConfig, reach: Reach | None) -> Reach | None:
    """What a search has been told, before what is known of the model."""
    if lengths.max_source is None:
        return reach
    return Reach(lengths.max_source, f"`search.lengths.max_source` allows {lengths.max_source:,}")


def _encoder(config: EncoderConfig) -> tuple[int | None, str]:
    """How many positions it has vectors for, and where that is said."""
    match config:
        case TransformerEncoderConfig(positions="learned"):
            return config.max_positions, "encoder.max_positions"
        case ConvolutionalEncoderConfig():
            return config.max_positions, "encoder.max_positions"
        case BertEncoderConfig():
            return config.described.max_position_embeddings, "encoder.shape.max_position_embeddings"
    return None, ""


def _score(experiment: Experiment) -> tuple[int | None, str]:
    """How many positions attention can tell apart by their number alone."""
    attention = getattr(experiment.model.decoder, "attention", None)
    if not isinstance(attention, AttentionConfig) or attention.score.kind != "location":
        return None, ""
    return getattr(attention.score, "positions", None), "decoder.attention.score.positions"

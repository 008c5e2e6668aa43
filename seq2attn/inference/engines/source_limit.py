"""Maximum number of tokens of a source, by the config of a run."""

from collections.abc import Iterator
from dataclasses import dataclass

from seq2attn.attention.attention_config import AttentionConfig
from seq2attn.attention.position_scores import LocationScoreConfig
from seq2attn.encoders.bert import BertEncoderConfig
from seq2attn.encoders.convolutional import ConvolutionalEncoderConfig
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.models import ModelConfig


@dataclass(frozen=True)
class SourceLimit:
    """Maximum tokens of a source, without EOS."""

    max_tokens: int
    reason: str  # human-readable


def model_source_limit(experiment: ExperimentConfig) -> SourceLimit:
    """The limit of a trained model: the longest pairs of its training, or its positions if these are fewer."""
    longest, _ = experiment.data.filters.max_lengths
    reason = f"the model was trained on none with more than {longest:,} (`data.filters.max_length`)"
    limits = [SourceLimit(longest, reason)]
    for positions, key in _num_positions(experiment.model):
        longest = max(1, positions - 1)  # without that of EOS
        limits.append(SourceLimit(longest, f"the model has positions for {longest:,} (`model.{key}`)"))
    return min(limits, key=lambda limit: limit.max_tokens)


def max_source_length(experiment: ExperimentConfig) -> int:
    """Maximum tokens of a source, without EOS: that of its search, else of the model."""
    return experiment.search.lengths.max_source_length or model_source_limit(experiment).max_tokens


def _num_positions(model: ModelConfig) -> Iterator[tuple[int, str]]:
    """Numbers of positions that the parts of a model have weights for, and their config keys."""
    match model.encoder:
        case TransformerEncoderConfig(position_encoding="learned") | ConvolutionalEncoderConfig() as encoder:
            yield encoder.max_positions, "encoder.max_positions"
        case BertEncoderConfig(required_architecture=architecture):
            yield architecture.max_position_embeddings, "encoder.architecture.max_position_embeddings"
    match getattr(model.decoder, "attention", None):
        case AttentionConfig(score=LocationScoreConfig() as score):
            yield score.max_positions, "decoder.attention.score.max_positions"

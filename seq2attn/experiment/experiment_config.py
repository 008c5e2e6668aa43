"""The config of an experiment."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from pydantic import model_validator

from seq2attn.config.base import Config, FieldError, RunPath
from seq2attn.config.load import load
from seq2attn.config.plugin import is_plugin
from seq2attn.data.data_config import DataConfig
from seq2attn.data.filter import MAX_CHARACTERS, MAX_TOKENS
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.models.model_config import ModelConfig
from seq2attn.search.search_config import BeamConfig, SearchConfig
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from seq2attn.tokenizers.words import CharacterTokenizerConfig


def _check_tied_needs_shared_vocab(tokenizer: TokenizersConfig, model: ModelConfig) -> Iterator[FieldError]:
    if model.embeddings.tie == "all" and not tokenizer.shares_vocabulary:
        yield FieldError("model.embeddings.tie", "`all` needs one vocabulary for both sides: set `tokenizer.joint`")


def _check_bert_tokenizer(tokenizer: TokenizersConfig, model: ModelConfig) -> Iterator[FieldError]:
    path = model.encoder_checkpoint
    if path is None:
        return
    if not isinstance(tokenizer.source, WordPieceTokenizerConfig):
        side = "joint" if tokenizer.is_joint else "source"
        message = f"BERT needs its own tokenizer: set `source: {{kind: wordpiece, path: {path}}}`"
        yield FieldError(f"tokenizer.{side}", message)
    elif tokenizer.source.path != path:
        yield FieldError("tokenizer.source.path", f"should be the folder of `model.encoder`, {path}")


def _check_tags(data: DataConfig, tokenizer: TokenizersConfig) -> Iterator[FieldError]:
    if data.tags and isinstance(tokenizer.source, WordPieceTokenizerConfig):
        yield FieldError("data.train", "has a `tag`, for which the vocabulary of `wordpiece` has no entry")


def _check_guided_alignment(data: DataConfig, model: ModelConfig, training: TrainingConfig) -> Iterator[FieldError]:
    guided, shape = training.guided_alignment, model.attention_shape
    if guided is None:
        return
    if not data.has_alignments:
        message = "needs word alignments: set `data.train.alignment`, next to `kind: plain`"
        yield FieldError("training.guided_alignment", message)
    if shape is not None and (mistake := guided.unsupported(*shape)):
        yield mistake


def _check_minimum_risk(model: ModelConfig, training: TrainingConfig) -> Iterator[FieldError]:
    """All candidates of a sentence are scored by the same model, and all that it samples is trained."""
    name, decoder, attention = "training.minimum_risk", model.decoder, model.cross_attention
    if training.minimum_risk is None:
        return
    if attention is not None and attention.sampling:
        yield FieldError(name, f"needs another alignment than `{attention.align.kind}`, {attention.sampling}")
    if not is_plugin(decoder) and decoder.skips_layers:
        yield FieldError(name, "needs `model.decoder.layer_dropout: 0`: candidates would be scored by different layers")


def _check_padding_free(model: ModelConfig, training: TrainingConfig) -> Iterator[FieldError]:
    if not training.batch.padding_free:
        return
    name, attention = "training.batch.padding_free", model.cross_attention
    needs = "padding-free batches need Transformers, with another `position_encoding` than `relative`"
    for side, part in (("encoder", model.encoder), ("decoder", model.decoder)):
        if is_plugin(part) or not part.supports_padding_free:
            yield FieldError(name, f"{needs}; see `model.{side}`")
    if attention is not None and not attention.supports_sdpa:
        yield FieldError(name, "padding-free batches need scaled dot products; see `model.decoder.attention`")
    if training.guided_alignment is not None:
        yield FieldError(name, "computes no attention weights, which `training.guided_alignment` needs")


def _check_coverage_penalty(model: ModelConfig, search: SearchConfig) -> Iterator[FieldError]:
    if search.coverage_penalty and model.attention_shape == (0, 0):
        yield FieldError("search.coverage_penalty", f"needs attention, and the decoder `{model.decoder.kind}` has none")


class ExperimentConfig(Config):
    """Run directory, data, tokenizers, model, training, search and evaluation."""

    rules = (
        _check_tied_needs_shared_vocab,
        _check_bert_tokenizer,
        _check_tags,
        _check_guided_alignment,
        _check_minimum_risk,
        _check_padding_free,
        _check_coverage_penalty,
    )

    run_dir: RunPath
    """Directory for all files of the run, relative to the working directory."""
    data: DataConfig
    tokenizer: TokenizersConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = BeamConfig()
    """Default search of `translate` and `evaluate`."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Metrics of translations."""

    @model_validator(mode="after")
    def _resolve_max_length(self) -> Self:
        """Default maximum lengths: longer ones for characters, and translations as long as the training targets."""
        config = self
        if "max_length" not in config.data.filters.model_fields_set:
            sides = [isinstance(side, CharacterTokenizerConfig) for side in config.tokenizer.per_side]
            source, target = (MAX_CHARACTERS if are_characters else MAX_TOKENS for are_characters in sides)
            config = config.with_value("data.filters.max_length", source if source == target else (source, target))
        if "max_length" not in config.search.lengths.model_fields_set:
            longest = max(MAX_TOKENS, min(config.data.filters.max_lengths[1], MAX_CHARACTERS))
            config = config.with_value("search.lengths.max_length", longest)
        return config


def load_config(path: Path | str, overrides: str | Sequence[str] = ()) -> ExperimentConfig:
    """The experiment of a YAML file, with one or several overrides such as `search.beam_size=10`.

    Raises ConfigError with all mistakes at once, each with its file, line and column.
    """
    return load(Path(path), ExperimentConfig, [overrides] if isinstance(overrides, str) else overrides)

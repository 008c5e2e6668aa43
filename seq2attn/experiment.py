"""The whole of a config file."""

from __future__ import annotations

from pathlib import Path

from seq2attn.attention.config import AttentionConfig
from seq2attn.config.base import Config, Mistake
from seq2attn.data.config import DataConfig
from seq2attn.data.readers import AlignedConfig
from seq2attn.decoders import (
    ConvolutionalDecoderConfig,
    DecoderConfig,
    FixedConfig,
    TransformerDecoderConfig,
)
from seq2attn.decoders.recurrent import AttentiveConfig
from seq2attn.encoders import BertEncoderConfig
from seq2attn.encoders.transformer import TransformerConfig
from seq2attn.evaluation.config import EvaluationConfig
from seq2attn.models.config import ModelConfig
from seq2attn.search.config import BeamConfig, SearchConfig
from seq2attn.tokenizers.config import TextConfig
from seq2attn.tokenizers.wordpiece import WordPieceConfig
from seq2attn.training.config import TrainingConfig


def _tied_is_joint(text: TextConfig, model: ModelConfig) -> list[Mistake]:
    if model.embeddings.tie != "all" or text.is_joint:
        return []
    return [Mistake("model.embeddings.tie", "`all` needs one vocabulary for both sides: give `text.joint`")]


def _bert_reads_its_own_pieces(text: TextConfig, model: ModelConfig) -> list[Mistake]:
    if not isinstance(model.encoder, BertEncoderConfig):
        return []
    path = model.encoder.path
    if not isinstance(text.source, WordPieceConfig):
        side = "joint" if text.is_joint else "source"
        return [
            Mistake(
                f"text.{side}", f"BERT reads its own pieces: give `source: {{kind: wordpiece, path: {path}}}`"
            )
        ]
    if text.source.path == path:
        return []
    return [Mistake("text.source.path", f"should be the folder of `model.encoder`, {path}")]


def _tags_have_vectors(data: DataConfig, text: TextConfig) -> list[Mistake]:
    if not data.tags or not isinstance(text.source, WordPieceConfig):
        return []
    return [Mistake("data.train", "has a `tag`, for which the vocabulary of `wordpiece` has no entry")]


def _guided_can_be(data: DataConfig, model: ModelConfig, training: TrainingConfig) -> list[Mistake]:
    guided, shape = training.guided, _attentions(model.decoder)
    if guided is None:
        return []
    mistakes = []
    if not any(isinstance(corpus, AlignedConfig) and corpus.alignment for corpus in data.train):
        message = "learns from links between words: give `data.train.alignment`, beside `kind: aligned`"
        mistakes.append(Mistake("training.guided", message))
    if shape is not None and (found := guided.missing(*shape)):
        mistakes.append(Mistake(".".join(filter(None, ("training.guided", found[0]))), found[1]))
    return mistakes


def _packed_can_be(model: ModelConfig, training: TrainingConfig) -> list[Mistake]:
    if not training.batch.packed:
        return []
    name, attention = "training.batch.packed", getattr(model.decoder, "attention", None)
    needs = "sentences in one row are read by Transformers alone, with other `positions` than relative ones"
    mistakes = [
        Mistake(name, f"{needs}; see `model.{side}`")
        for side, part in (("encoder", model.encoder), ("decoder", model.decoder))
        if not isinstance(part, TransformerConfig) or part.positions == "relative"
    ]
    if isinstance(attention, AttentionConfig) and not attention.is_scaled_dot:
        message = "sentences in one row are asked by scaled dot products alone; see `model.decoder.attention`"
        mistakes.append(Mistake(name, message))
    if training.guided is not None:
        mistakes.append(Mistake(name, "makes no weights, which `training.guided` needs"))
    return mistakes


def _attentions(decoder: DecoderConfig) -> tuple[int, int] | None:
    """The layers with attention and the heads of each; None where only a stranger's decoder knows."""
    attention = getattr(decoder, "attention", None)
    if isinstance(decoder, FixedConfig):
        return 0, 0
    if not isinstance(attention, AttentionConfig) or ":" in attention.score.kind:
        return None
    heads = getattr(attention.score, "heads", 1)
    if isinstance(decoder, TransformerDecoderConfig | ConvolutionalDecoderConfig):
        return decoder.layers, heads
    return (1, heads) if isinstance(decoder, AttentiveConfig) else None


class Experiment(Config):
    """A model, the text it learns from, and how."""

    rules = (_tied_is_joint, _bert_reads_its_own_pieces, _tags_have_vectors, _guided_can_be, _packed_can_be)

    run: Path
    """The run directory: where all that training makes is kept, relative to the working directory."""
    data: DataConfig
    text: TextConfig
    model: ModelConfig
    training: TrainingConfig = TrainingConfig()
    search: SearchConfig = BeamConfig(kind="beam")
    """How `translate` and `evaluate` search unless told otherwise."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How translations are scored."""

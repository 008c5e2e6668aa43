"""From our Transformer to CTranslate2's description of one.

Its layers follow from the config, its weights are our own tensors. What our attention projects in three layers, theirs
projects in one: query, key and value in self-attention, key and value in attention to the source.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn

from seq2attn.attention import Attention
from seq2attn.attention.relative_positions import RelativePositionScore
from seq2attn.attention.scores import MultiHeadScore
from seq2attn.decoders import TransformerDecoderConfig
from seq2attn.decoders.transformer import TransformerDecoder, TransformerDecoderLayer
from seq2attn.encoders.transformer import TransformerConfig, TransformerEncoder, TransformerEncoderLayer
from seq2attn.models import ModelConfig, Seq2Seq
from seq2attn.models.seq2seq import TokenEmbedding
from seq2attn.nn.layers import (
    FeedForward,
    GatedFeedForward,
    LearnedPositionEmbedding,
    ResidualConnection,
    SinusoidalPositionEncoding,
)
from seq2attn.tokenizers.vocabulary import BOS, EOS, UNK, Vocabulary

Spec: TypeAlias = Any
"""A part of `ctranslate2.specs`, which has no types."""
MAX_POSITIONS = 2048
"""How many words a sentence may have whose positions are a table; that is made longer by its last row."""


def build_spec(config: ModelConfig, model: Seq2Seq, vocabularies: Sequence[Vocabulary]) -> Spec:
    """The whole model with its weights and vocabularies, to be validated, optimised and saved."""
    specs = importlib.import_module("ctranslate2.specs")
    encoder, decoder = (
        cast("TransformerConfig", config.encoder),
        cast("TransformerDecoderConfig", config.decoder),
    )
    made = specs.TransformerSpec(
        specs.TransformerEncoderSpec(encoder.layers, encoder.heads, **_choices(encoder)),
        specs.TransformerDecoderSpec(decoder.layers, decoder.heads, **_choices(decoder)),
    )
    _fill_encoder(made.encoder, model)
    _fill_decoder(made.decoder, model)
    source, target = vocabularies
    made.register_source_vocabulary(list(source.tokens))
    made.register_target_vocabulary(list(target.tokens))
    made.config.unk_token, made.config.bos_token = target.tokens[UNK], target.tokens[BOS]
    made.config.decoder_start_token, made.config.eos_token = target.tokens[BOS], target.tokens[EOS]
    made.config.add_source_eos = True
    norm = next(part for part in model.modules() if isinstance(part, nn.LayerNorm | nn.RMSNorm))
    made.config.layer_norm_epsilon = norm.eps
    return made


def _choices(config: TransformerConfig) -> dict[str, Any]:
    """Options that encoder and decoder share."""
    kinds = importlib.import_module("ctranslate2.specs").common_spec.Activation
    activations = {"relu": kinds.RELU, "gelu": kinds.GELU, "swiglu": kinds.SWISH}
    return {
        "pre_norm": config.norm_order == "pre",
        "activation": activations[config.activation],
        "ffn_glu": config.activation == "swiglu",
        "rms_norm": config.norm_type == "rmsnorm",
        "relative_position": config.position_encoding == "relative",
        "rotary_dim": 0 if config.position_encoding == "rotary" else None,  # 0: the whole width of a head
        "rotary_interleave": False,
        "num_heads_kv": config.kv_heads or config.heads,
    }


def _fill_encoder(spec: Spec, model: Seq2Seq) -> None:
    encoder = cast("TransformerEncoder", model.encoder)
    _fill_embedding(spec, spec.embeddings[0], cast("TokenEmbedding", model.source_embedding), encoder.position_encoding)
    for theirs, layer in zip(spec.layer, cast("list[TransformerEncoderLayer]", encoder.layers), strict=True):
        _fill_self_attention(theirs.self_attention, layer.self_attention, layer.self_attention_residual)
        _fill_feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual)
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec.layer_norm, encoder.norm)


def _fill_decoder(spec: Spec, model: Seq2Seq) -> None:
    decoder = cast("TransformerDecoder", model.decoder)
    _fill_embedding(spec, spec.embeddings, model.target_embedding, decoder.position_encoding)
    for theirs, layer in zip(spec.layer, cast("list[TransformerDecoderLayer]", decoder.layers), strict=True):
        _fill_self_attention(theirs.self_attention, layer.self_attention, layer.self_attention_residual)
        _fill_attention(theirs.attention, layer.cross_attention, layer.cross_attention_residual)
        _fill_feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual)
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec.layer_norm, decoder.norm)
    _fill_linear(spec.projection, model.output_projection)


def _fill_embedding(spec: Spec, table: Spec, ours: TokenEmbedding, positions: nn.Module) -> None:
    table.weight = ours.embedding.weight
    spec.scale_embeddings = ours.scale != 1.0
    if isinstance(positions, SinusoidalPositionEncoding | LearnedPositionEmbedding):
        spec.position_encodings.encodings = positions(torch.arange(MAX_POSITIONS)).detach()


def _fill_self_attention(spec: Spec, ours: Attention, branch: ResidualConnection) -> None:
    score = cast("MultiHeadScore", ours.score)
    _fill_linear(spec.linear[0], score.query_proj, score.key_proj, cast("nn.Linear", ours.value_proj))
    _fill_linear(spec.linear[1], cast("nn.Linear", ours.output_proj))
    _fill_norm(spec.layer_norm, branch.norm)
    if isinstance(score, RelativePositionScore):  # our values have no vectors
        spec.relative_position_keys = score.relative_embedding.weight
        spec.relative_position_values = torch.zeros_like(score.relative_embedding.weight)


def _fill_attention(spec: Spec, ours: Attention, branch: ResidualConnection) -> None:
    score = cast("MultiHeadScore", ours.score)
    _fill_linear(spec.linear[0], score.query_proj)
    _fill_linear(spec.linear[1], score.key_proj, cast("nn.Linear", ours.value_proj))
    _fill_linear(spec.linear[2], cast("nn.Linear", ours.output_proj))
    spec.num_heads_kv = np.int32(score.kv_heads)  # which need not be those of self-attention
    _fill_norm(spec.layer_norm, branch.norm)


def _fill_feed_forward(spec: Spec, ours: nn.Module, branch: ResidualConnection) -> None:
    if isinstance(ours, GatedFeedForward):
        _fill_linear(spec.linear_0, ours.gate_proj)
        _fill_linear(spec.linear_0_noact, ours.up_proj)
        _fill_linear(spec.linear_1, ours.down_proj)
    else:
        plain = cast("FeedForward", ours)
        _fill_linear(spec.linear_0, plain.up_proj)
        _fill_linear(spec.linear_1, plain.down_proj)
    _fill_norm(spec.layer_norm, branch.norm)


def _fill_linear(spec: Spec, *ours: nn.Linear) -> None:
    """One layer that makes all that `ours` make, side by side; a tied weight stays the same tensor."""
    weights, biases = [one.weight for one in ours], [one.bias for one in ours]
    spec.weight = weights[0] if len(ours) == 1 else torch.cat(weights).detach()
    if all(bias is not None for bias in biases):
        spec.bias = biases[0] if len(ours) == 1 else torch.cat(cast("list[Tensor]", biases)).detach()


def _fill_norm(spec: Spec, ours: nn.Module) -> None:
    norm = cast("nn.LayerNorm", ours)  # or RMSNorm, which has no bias
    spec.gamma = norm.weight
    if hasattr(spec, "beta"):
        spec.beta = norm.bias

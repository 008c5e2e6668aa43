"""CTranslate2 as an export target: supported models, export, and loading."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import nn

from seq2attn.config.base import FieldError
from seq2attn.decoders.transformer import TransformerDecoderConfig, TransformerDecoderLayer
from seq2attn.encoders.transformer import GATED_ACTIVATIONS, TransformerConfig, TransformerLayersConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.export_target import ExportTarget, no_option, unsupported_parts
from seq2attn.inference.engines.ctranslate2_engine import ENGINE_NAME, MAX_POSITIONS, import_ctranslate2
from seq2attn.models import ModelConfig, Seq2Seq
from seq2attn.nn.layers import GatedFeedForward, LearnedPositionEmbedding, SinusoidalPositionEncoding
from seq2attn.tokenizers.vocabulary import BOS, EOS, UNK, Vocabulary

Spec: TypeAlias = Any
"""A part of `ctranslate2.specs`, which has no types."""


def build_spec(config: ModelConfig, model: Seq2Seq, vocabularies: Sequence[Vocabulary]) -> Spec:
    """The whole model with its weights and vocabularies, for `save_spec`."""
    specs = import_ctranslate2().specs
    encoder, decoder = cast("TransformerConfig", config.encoder), cast("TransformerDecoderConfig", config.decoder)
    dim = config.embeddings.dim
    spec = specs.TransformerSpec(
        specs.TransformerEncoderSpec(encoder.layers, encoder.heads, **_options(encoder, dim)),
        specs.TransformerDecoderSpec(decoder.layers, decoder.heads, **_options(decoder, dim)),
    )
    _fill_stack(spec.encoder, spec.encoder.embeddings[0], model.source_embedding, model.encoder)
    _fill_stack(spec.decoder, spec.decoder.embeddings, model.target_embedding, model.decoder)
    _fill_linear(spec.decoder.projection, model.output_projection)
    source, target = vocabularies
    spec.register_source_vocabulary(list(source.tokens))
    spec.register_target_vocabulary(list(target.tokens))
    spec.config.unk_token, spec.config.bos_token = target.tokens[UNK], target.tokens[BOS]
    spec.config.decoder_start_token, spec.config.eos_token = target.tokens[BOS], target.tokens[EOS]
    spec.config.add_source_eos = True
    norm = next(part for part in model.modules() if isinstance(part, nn.LayerNorm | nn.RMSNorm))
    spec.config.layer_norm_epsilon = norm.eps
    return spec


def _options(config: TransformerConfig, dim: int) -> dict[str, Any]:
    """Options of an encoder or a decoder of width `dim`."""
    kinds = import_ctranslate2().specs.common_spec.Activation
    activations = {"relu": kinds.RELU, "gelu": kinds.GELU, "gelu_tanh": kinds.GELUTanh, "silu": kinds.SWISH}
    return {
        "pre_norm": config.norm_order == "pre",
        "activation": activations[GATED_ACTIVATIONS.get(config.activation, config.activation)],
        "ffn_glu": config.activation in GATED_ACTIVATIONS,
        "layernorm_embedding": config.embedding_norm,
        "rms_norm": config.norm_type == "rmsnorm",
        "relative_position": config.position_encoding == "relative",
        "relative_attention_bias": config.position_encoding == "relative-bias",
        "rotary_dim": 0 if config.position_encoding == "rotary" else None,  # 0: the whole width of a head
        "rotary_interleave": False,
        "num_heads_kv": config.kv_heads or config.heads,
        "head_dim": config.head_dim or dim // config.heads,
    }


def _fill_stack(spec: Spec, table: Spec, embedding: Any, stack: Any) -> None:
    """An encoder or a decoder with its embedding, without the output layer."""
    table.weight = embedding.embedding.weight
    spec.scale_embeddings = embedding.scale != 1.0
    if isinstance(stack.position_encoding, SinusoidalPositionEncoding | LearnedPositionEmbedding):
        spec.position_encodings.encodings = stack.position_encoding(torch.arange(MAX_POSITIONS)).detach()
    if hasattr(spec, "layernorm_embedding"):
        _fill_norm(spec.layernorm_embedding, stack.embedding_norm)
    for theirs, ours in zip(spec.layer, stack.layers, strict=True):
        _fill_self_attention(theirs.self_attention, ours.self_attention, ours.self_attention_residual.norm)
        if stack.position_bias is not None:
            theirs.self_attention.relative_attention_bias = stack.position_bias.embedding.weight
            theirs.self_attention.relative_attention_max_distance = np.int32(stack.position_bias.max_distance)
        if isinstance(ours, TransformerDecoderLayer):
            _fill_cross_attention(theirs.attention, ours.cross_attention, ours.cross_attention_residual.norm)
        _fill_feed_forward(theirs.ffn, ours.feed_forward, ours.feed_forward_residual.norm)
    if hasattr(spec, "layer_norm"):
        _fill_norm(spec.layer_norm, stack.norm)


def _fill_self_attention(spec: Spec, attention: Any, norm: nn.Module) -> None:
    score = attention.score
    _fill_linear(spec.linear[0], score.query_proj, score.key_proj, attention.value_proj)
    _fill_linear(spec.linear[1], attention.output_proj)
    _fill_norm(spec.layer_norm, norm)
    if score.relative_embedding is not None:  # our values have no position vectors
        spec.relative_position_keys = score.relative_embedding.weight
        spec.relative_position_values = torch.zeros_like(score.relative_embedding.weight)


def _fill_cross_attention(spec: Spec, attention: Any, norm: nn.Module) -> None:
    score = attention.score
    _fill_linear(spec.linear[0], score.query_proj)
    _fill_linear(spec.linear[1], score.key_proj, attention.value_proj)
    _fill_linear(spec.linear[2], attention.output_proj)
    spec.num_heads_kv = np.int32(score.kv_heads)  # may differ from self-attention
    spec.head_dim = np.int32(score.key_proj.out_features // score.kv_heads)
    _fill_norm(spec.layer_norm, norm)


def _fill_feed_forward(spec: Spec, ours: Any, norm: nn.Module) -> None:
    if isinstance(ours, GatedFeedForward):
        _fill_linear(spec.linear_0, ours.gate_proj)
        _fill_linear(spec.linear_0_noact, ours.up_proj)
    else:
        _fill_linear(spec.linear_0, ours.up_proj)
    _fill_linear(spec.linear_1, ours.down_proj)
    _fill_norm(spec.layer_norm, norm)


def _fill_linear(spec: Spec, *layers: nn.Linear) -> None:
    """One layer with the concatenated outputs of `layers`; a tied weight stays the same tensor."""
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    spec.weight = weights[0] if len(layers) == 1 else torch.cat(weights).detach()
    if all(bias is not None for bias in biases):
        spec.bias = biases[0] if len(layers) == 1 else torch.cat([*biases]).detach()


def _fill_norm(spec: Spec, norm: Any) -> None:
    spec.gamma = norm.weight
    if hasattr(spec, "beta"):  # RMSNorm has no bias
        spec.beta = norm.bias


def save_spec(spec: Spec, folder: Path, dtype: str) -> None:
    """Write a whole model with weights of type `dtype`.

    int8 weights have 7 bits: with 8, sums of products saturate on CPUs without VNNI instructions.
    """
    spec.validate()
    spec.optimize(dtype)
    variables = spec.variables()
    for name, weight in variables.items():
        if not isinstance(weight, str) and weight.dtype == "int8" and f"{name}_scale" in variables:  # a str is an alias
            weight.array = np.rint(weight.array / 2).astype(np.int8)
            variables[f"{name}_scale"].array /= 2
    spec.save(str(folder))


class CTranslate2Target(ExportTarget):
    """Export of Transformers by CTranslate2's model specification."""

    name = hub_library = ENGINE_NAME
    dtypes = ("float32", "float16", "int8")

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Options of a model that CTranslate2 has no layer for, with their config keys."""
        import_ctranslate2()
        mistakes = unsupported_parts(ENGINE_NAME, experiment.model)
        parts = experiment.model.encoder, experiment.model.decoder
        norms = [part.norm_type for part in parts if isinstance(part, TransformerLayersConfig)]
        if len({*norms}) > 1:
            message = f"norm for the decoder that differs from the encoder's, `{norms[0]}`"
            mistakes.append(no_option(ENGINE_NAME, "decoder.norm_type", message))
        return mistakes

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write weights, vocabularies and a config in the format of CTranslate2."""
        loaded = run.load()
        spec = build_spec(loaded.experiment.model, loaded.model, loaded.tokenizers.vocabularies)
        save_spec(spec, folder, dtype)

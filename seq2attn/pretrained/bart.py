"""Architectures that descend from BART (Lewis et al. 2020): their fields, weights and layers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt

from seq2attn.pretrained.family import Architecture, Family, ImportOptions
from seq2attn.pretrained.hf_weights import Tables, WeightNames

LAYER_NAMES = (
    ("self_attention_residual.norm", "self_attn_layer_norm"),
    ("cross_attention_residual.norm", "encoder_attn_layer_norm"),
    ("feed_forward_residual.norm", "final_layer_norm"),
    ("self_attention", "self_attn"),
    ("cross_attention", "encoder_attn"),
    ("score.query_proj", "q_proj"),
    ("score.key_proj", "k_proj"),
    ("value_proj", "v_proj"),
    ("output_proj", "out_proj"),
    ("feed_forward.up_proj", "fc1"),
    ("feed_forward.down_proj", "fc2"),
    ("coder.norm", "coder.layer_norm"),
)
"""Parts of our names, and theirs."""
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def hf_name(name: str) -> str:
    """The name of a weight of our encoder or decoder in a file of Hugging Face."""
    for ours, theirs in LAYER_NAMES:
        name = name.replace(ours, theirs)
    return f"model.{name}"


BART_NAMES = WeightNames(
    layer=hf_name,
    shared="model.shared.weight",
    source="model.encoder.embed_tokens.weight",
    target="model.decoder.embed_tokens.weight",
    output="lm_head.weight",
    bias="final_logits_bias",
    sinusoids=POSITIONS,
)


class BartArchitecture(Architecture):
    """Fields of `config.json` of a model that descends from BART, with their names there."""

    d_model: PositiveInt
    encoder_layers: PositiveInt
    decoder_layers: PositiveInt
    encoder_attention_heads: PositiveInt
    decoder_attention_heads: PositiveInt
    encoder_ffn_dim: PositiveInt
    decoder_ffn_dim: PositiveInt
    max_position_embeddings: PositiveInt = 1024
    activation_function: Literal["swish", "silu", "relu", "gelu"] = "gelu"
    scale_embedding: bool = False
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    encoder_layerdrop: float = Field(0.0, ge=0, lt=1)
    decoder_layerdrop: float = Field(0.0, ge=0, lt=1)


class BartFamily(Family):
    """A model that descends from BART; its norms are ours, and embeddings are shared, unless a subclass says more."""

    architecture: BartArchitecture
    names = BART_NAMES

    @property
    def tables(self) -> Tables:
        """The embeddings and the output layer."""
        one = self.architecture
        return Tables(self.names, one.vocab_size, one.vocab_size, one.d_model, True, one.tie_word_embeddings)

    @property
    def max_positions(self) -> int:
        """Positions of the original, for source and translation each."""
        return self.architecture.max_position_embeddings

    def layers(self, options: ImportOptions) -> dict[str, Any]:
        """Settings that encoder and decoder share: the order of norms and the positions."""
        raise NotImplementedError

    def model(self, options: ImportOptions) -> dict[str, Any]:
        """The model section."""
        one, tables = self.architecture, self.tables
        both = {
            "kind": "transformer",
            "activation": {"swish": "silu"}.get(one.activation_function, one.activation_function),
            "dropout": one.dropout,
            "attention_dropout": one.attention_dropout,
            "activation_dropout": one.activation_dropout,
        } | self.layers(options)
        score = {"kind": "multi-head", "heads": one.decoder_attention_heads}
        tie = "none" if not tables.tied else "all" if tables.shared else "output"
        return {
            "embeddings": {"dim": one.d_model, "tie": tie, "scaled": one.scale_embedding},
            "encoder": both
            | {"layers": one.encoder_layers, "heads": one.encoder_attention_heads, "ffn_dim": one.encoder_ffn_dim}
            | {"layer_dropout": one.encoder_layerdrop},
            "decoder": both
            | {"layers": one.decoder_layers, "heads": one.decoder_attention_heads, "ffn_dim": one.decoder_ffn_dim}
            | {"attention": {"score": score, "dropout": one.attention_dropout}, "layer_dropout": one.decoder_layerdrop},
        }

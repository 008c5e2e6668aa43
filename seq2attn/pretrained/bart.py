"""BART (Lewis et al. 2020), and the fields, weights and layers of what descends from it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from seq2attn.config.base import NumLayers
from seq2attn.errors import DataError
from seq2attn.io.files import FILE_HINT, MAX_FILE_BYTES, read_object
from seq2attn.pretrained.family import (
    HF_TOKENIZER_FILE,
    OUR_START,
    Architecture,
    Family,
    NumPositions,
    Size,
    VocabularyFile,
)
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
    ("embedding_norm", "layernorm_embedding"),
    ("position_encoding.embedding", "embed_positions"),
    ("^", "model."),
)
"""Parts of our names of weights, and of those of Hugging Face."""
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

BART_NAMES = WeightNames(
    layers=LAYER_NAMES,
    shared="model.shared.weight",
    source="model.encoder.embed_tokens.weight",
    target="model.decoder.embed_tokens.weight",
    output="lm_head.weight",
    bias="final_logits_bias",
    sinusoids=POSITIONS,
)
LEARNED_NAMES = replace(BART_NAMES, sinusoids=(), learned=POSITIONS, first_position=2)
"""Those with tables of learned positions."""

SIDE_FIELDS = {"layers": "layers", "heads": "attention_heads", "ffn_dim": "ffn_dim", "layer_dropout": "layerdrop"}
"""Our fields of an encoder or a decoder, and theirs after `encoder_` or `decoder_`."""
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
"""Fields that encoder and decoder share."""


class BartArchitecture(Architecture):
    """Fields of `config.json` of a model that descends from BART, with their names there."""

    d_model: Size
    encoder_layers: NumLayers
    decoder_layers: NumLayers
    encoder_attention_heads: Size
    decoder_attention_heads: Size
    encoder_ffn_dim: Size
    decoder_ffn_dim: Size
    max_position_embeddings: NumPositions = 1024
    activation_function: Literal["swish", "silu", "relu", "gelu"] = "gelu"
    scale_embedding: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)  # not the default of `transformers`, which few models were trained with
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    encoder_layerdrop: float = Field(0.0, ge=0, lt=1)
    decoder_layerdrop: float = Field(0.0, ge=0, lt=1)


class BartFamily(Family):
    """A model that descends from BART; its norms are ours, and embeddings are shared, unless a subclass says more."""

    architecture: BartArchitecture
    names = BART_NAMES
    norms: ClassVar[Mapping[str, Any]]
    """Settings of norms, which encoder and decoder share."""

    @property
    def tables(self) -> Tables:
        """The embeddings and the output layer."""
        fields, size = self.architecture, self.architecture.vocab_size
        return Tables(self.names, size, size, fields.d_model, True, fields.tie_word_embeddings)

    @property
    def max_positions(self) -> int:
        """Positions of the original, for source and translation each."""
        return self.architecture.max_position_embeddings

    @property
    def layers(self) -> dict[str, Any]:
        """Settings that encoder and decoder share: norms and positions."""
        positions = {"position_encoding": "learned", "max_positions": self.max_positions}
        return {**self.norms, **(positions if self.names.learned else {})}

    def model(self) -> dict[str, Any]:
        """The model section."""
        fields, tables = self.architecture.model_dump(), self.tables
        tie = "none" if not tables.tied else "all" if tables.shared else "output"
        model: dict[str, Any] = {
            "embeddings": {"dim": fields["d_model"], "tie": tie, "scaled": fields["scale_embedding"]}
        }
        for side in ("encoder", "decoder"):
            activation = fields["activation_function"]
            model[side] = {"kind": "transformer", "activation": {"swish": "silu"}.get(activation, activation)}
            model[side] |= {name: fields[name] for name in DROPOUTS} | self.layers
            model[side] |= {ours: fields[f"{side}_{theirs}"] for ours, theirs in SIDE_FIELDS.items()}
        score = {"kind": "multi-head", "heads": fields["decoder_attention_heads"]}
        model["decoder"]["attention"] = {"score": score, "dropout": fields["attention_dropout"]}
        return model


class BartModelArchitecture(BartArchitecture):
    """Fields of `config.json` that define a BART, with their names there."""

    normalize_before: Literal[False] = False
    normalize_embedding: Literal[True] = True
    add_final_layer_norm: Literal[False] = False
    static_position_embeddings: Literal[False] = False


class Bart(BartFamily):
    """Post-norm layers with a norm of the embeddings, and learned positions; lines of both sides begin with `<s>`."""

    model_type = "bart"
    architecture_class = BartModelArchitecture
    names = LEARNED_NAMES
    tokenizer_class = "BartTokenizer"
    norms: ClassVar[Mapping[str, Any]] = {"norm_order": "post", "embedding_norm": True}

    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides."""
        self.check_target_language()
        section = {"kind": "hugging-face", "path": (self.folder / HF_TOKENIZER_FILE).resolve(), "tag": OUR_START}
        return section, section

    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """A file and its id of each token, for both sides."""
        file = self.folder / HF_TOKENIZER_FILE
        content = read_object(file, FILE_HINT, MAX_FILE_BYTES)
        try:
            added = {entry["content"]: int(entry["id"]) for entry in content["added_tokens"]}
            ids = {**content["model"]["vocab"], **added}
            ids[OUR_START] = ids.pop("<s>")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{file}: is not the tokenizer of a BART ({error!r})") from None
        return (file, ids), (file, ids)

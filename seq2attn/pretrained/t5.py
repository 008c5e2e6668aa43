"""T5 and mT5 models in a folder of Hugging Face (Raffel et al. 2020; Xue et al. 2021).

config.json generation_config.json    architecture, tasks and search
model.safetensors                     weights
spiece.model                          one SentencePiece model for all languages
"""

import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pydantic import Field, NonNegativeInt
from torch import Tensor, nn

from seq2attn.config.base import NumLayers
from seq2attn.io.hf_folder import CONFIG_FILE, validate_fields
from seq2attn.pretrained.family import Architecture, Encode, Family, Generation, Size, VocabularyFile
from seq2attn.pretrained.hf_weights import OUR_OUTPUT, Tables, WeightNames
from seq2attn.tokenizers.sentencepiece_model import read_model_pieces

PIECES_FILE = "spiece.model"
MAX_UNUSED_ROWS = 2**10
"""Maximum number of rows without a token."""
NUM_EXTRA_IDS = 100
"""Entries after the pieces that mark masked text in the first training."""
LAYER_NAMES = (
    ("^(encoder.*)feed_forward_residual.norm", r"\1layer.1.layer_norm"),
    ("^(decoder.*)feed_forward_residual.norm", r"\1layer.2.layer_norm"),
    ("^(encoder.*)feed_forward", r"\1layer.1.DenseReluDense"),
    ("^(decoder.*)feed_forward", r"\1layer.2.DenseReluDense"),
    ("self_attention_residual.norm", "layer.0.layer_norm"),
    ("cross_attention_residual.norm", "layer.1.layer_norm"),
    ("self_attention", "layer.0.SelfAttention"),
    ("cross_attention", "layer.1.EncDecAttention"),
    ("score.query_proj", "q"),
    ("score.key_proj", "k"),
    ("value_proj", "v"),
    ("output_proj", "o"),
    ("gate_proj", "wi_0"),
    ("down_proj", "wo"),
    ("coder.layers", "coder.block"),
    ("coder.norm", "coder.final_layer_norm"),
    ("coder.position_bias.embedding", "coder.block.0.layer.0.SelfAttention.relative_attention_bias"),
)
"""Parts of our names of weights, and of those of Hugging Face."""
ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu"}


class T5Architecture(Architecture):
    """Fields of `config.json` that define a T5 model, with their names there."""

    d_model: Size
    d_kv: Size
    d_ff: Size
    num_layers: NumLayers
    num_decoder_layers: NumLayers | None = None
    num_heads: Size
    decoder_start_token_id: NonNegativeInt = 0
    n_positions: Size = 512
    relative_attention_num_buckets: Size = 32
    relative_attention_max_distance: Size = 128
    feed_forward_proj: Literal["relu", "gated-gelu", "gated-silu"] = "relu"
    dropout_rate: float = Field(0.0, ge=0, lt=1)  # not the default of `transformers`
    layer_norm_epsilon: float = Field(1e-6, ge=1e-6, le=1e-6)
    task_specific_params: dict[str, dict[str, Any]] | None = None
    scale_decoder_outputs: bool = Field(default_factory=lambda fields: fields.get("tie_word_embeddings", True))


class MT5Architecture(T5Architecture):
    """Fields of `config.json` of mT5."""

    feed_forward_proj: Literal["relu", "gated-gelu", "gated-silu"] = "gated-gelu"
    scale_decoder_outputs: Literal[False] = False


class T5Tables(Tables):
    """Tables of T5; an output that is not tied may be missing where `transformers` 5 has tied it."""

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """For each of our tables its names in a file, the first of which counts."""
        groups = super().groups
        return groups if self.tied else groups | {OUR_OUTPUT: (self.names.output, self.names.shared)}


class T5(Family):
    """Pre-norm layers without biases, a relative position bias, and one vocabulary."""

    model_type = "t5"
    architecture_class = T5Architecture
    architecture: T5Architecture
    own_options = ("source_prefix",)
    names = WeightNames(
        layers=LAYER_NAMES,
        shared="shared.weight",
        source="encoder.embed_tokens.weight",
        target="decoder.embed_tokens.weight",
        output="lm_head.weight",
        unused=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    )

    @property
    def tables(self) -> Tables:
        """The embeddings and the output layer, which is tied where it is scaled: in T5 1.0."""
        fields = self.architecture
        up_proj = "wi_1" if fields.feed_forward_proj.startswith("gated") else "wi"
        names = replace(self.names, layers=(*LAYER_NAMES, ("up_proj", up_proj)))
        return T5Tables(names, fields.vocab_size, fields.vocab_size, fields.d_model, True, fields.scale_decoder_outputs)

    @property
    def max_positions(self) -> int:
        """Positions of the training; there are no weights for them."""
        return self.architecture.n_positions

    def model(self) -> dict[str, Any]:
        """The model section."""
        fields = self.architecture
        attention = {"heads": fields.num_heads, "head_dim": fields.d_kv, "bias": False}
        both = attention | {
            "kind": "transformer",
            "ffn_dim": fields.d_ff,
            "activation": ACTIVATIONS[fields.feed_forward_proj],
            "norm_type": "rmsnorm",
            "position_encoding": "relative-bias",
            "num_buckets": fields.relative_attention_num_buckets,
            "max_distance": fields.relative_attention_max_distance,
            "dropout": fields.dropout_rate,
            "attention_dropout": fields.dropout_rate,
        }
        cross_attention = {"score": {"kind": "multi-head"} | attention, "dropout": fields.dropout_rate}
        tied = self.tables.tied
        return {
            "embeddings": {"dim": fields.d_model, "tie": "all" if tied else "none", "scaled": tied},
            "encoder": both | {"layers": fields.num_layers},
            "decoder": both | {"layers": fields.num_decoder_layers or fields.num_layers, "attention": cross_attention},
        }

    def convert(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights of the same function with our scores, which are divided by sqrt(d), and our embeddings.

        Tied tables are multiplied by sqrt(D) as embeddings, where T5 divides the output by it.
        """
        fields, names = self.architecture, self.names
        shrunk = {names.shared, names.source, names.target, names.output} if self.tables.tied else set()
        factors = {name: math.sqrt(fields.d_kv) for name in tensors if name.endswith("Attention.q.weight")}
        factors |= dict.fromkeys(shrunk, fields.d_model**-0.5)
        return {name: tensor * factors[name] if name in factors else tensor for name, tensor in tensors.items()}

    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides; the source has its task before each line."""
        path = self.folder.resolve() / PIECES_FILE
        special_tokens = [*self.token_ids()[0][1]][len(self.pieces) :]
        target = {"kind": "sentencepiece", "path": path, "special_tokens": special_tokens}
        return target | {"prefix": self.task[1].get("prefix")}, target

    @cached_property
    def pieces(self) -> dict[str, int]:
        """The id of each piece. Raises RunError."""
        return read_model_pieces(self.folder / PIECES_FILE)

    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """The model of the pieces, and the id of each token: pieces, extra ids from the last to 0, unused rows."""
        extra = [f"<extra_id_{number}>" for number in reversed(range(NUM_EXTRA_IDS))]
        first, size = len(self.pieces), self.architecture.vocab_size
        extra += [f"<unused{id}>" for id in range(first + len(extra), min(size, first + MAX_UNUSED_ROWS))]
        tokens = [*self.pieces, *extra[: max(0, size - first)]]
        side = self.folder / PIECES_FILE, {token: id for id, token in enumerate(tokens)}
        return side, side

    def search(self) -> dict[str, Any]:
        """The search section, with the settings of the task."""
        language, task = self.task
        fields = self.generation.model_dump() | task
        generation = validate_fields(Generation, fields, self.folder / CONFIG_FILE)
        return generation.search(self.max_positions, language)

    def load_original(self, tensors: Mapping[str, Tensor]) -> Any:
        """The original model with its `tensors`; `transformers` ties all tables of a model that it makes."""
        model = super().load_original(tensors)
        if not self.tables.tied:
            tables = self.tables.all_names(tensors)
            model.shared.weight.data.copy_(tables[self.names.source])
            model.lm_head.weight = nn.Parameter(tables[self.names.output])
        return model

    def original_encoder(self) -> Encode:
        """The original tokenizer, with the prefix of the task."""
        from transformers import T5Tokenizer

        with TemporaryDirectory() as alone:  # `from_pretrained` would follow other files
            shutil.copy(self.folder / PIECES_FILE, alone)
            tokenizer = T5Tokenizer.from_pretrained(alone, local_files_only=True)
        prefix = self.task[1].get("prefix", "")
        return lambda line: list(tokenizer(f"{prefix} {line}").input_ids)

    @cached_property
    def task(self) -> tuple[str | None, dict[str, Any]]:
        """Language of the sources, and parameters of a task such as `translation_en_to_de` in `config.json`.

        Raises UserError for a language that the model lacks, or that is missing.
        """
        options = self.options
        own = {} if options.source_prefix is None else {"prefix": options.source_prefix}
        if own and options.target_language is None:
            return options.source_language, own
        tasks = self.architecture.task_specific_params or {}
        pairs = {name: match.groups() for name in tasks if (match := re.fullmatch("translation_(.+)_to_(.+)", name))}
        if options.source_language is not None:
            sources = dict.fromkeys(source for source, _ in pairs.values())
            self.check_language(options.source_language, sources, "source_language")
            pairs = {name: pair for name, pair in pairs.items() if pair[0] == options.source_language}
        targets = dict.fromkeys(target for _, target in pairs.values())
        self.check_language(options.target_language, targets, "target_language")
        for name, (source, target) in pairs.items():
            if target == options.target_language:
                return source, tasks[name] | own
        return None, {}


class MT5(T5):
    """T5 for many languages: gated layers, and an output of its own that is not scaled."""

    model_type = "mt5"
    architecture_class = MT5Architecture

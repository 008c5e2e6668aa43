"""BERT as an encoder (Devlin et al. 2019), from a checkpoint in the format of Hugging Face.

The model is that of `transformers`, split into its embeddings and the layers above them. The vocabulary of a checkpoint
is read by seq2attn/tokenizers/wordpiece.py.
Shapes: B sentences, S source tokens with [CLS] and [SEP], D width, L layers, H heads.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from seq2attn.config.base import Config, FieldError, InputPath, NumLayers
from seq2attn.config.plugin import fill_in
from seq2attn.encoders.base import Encoder, EncoderBaseConfig, EncoderOutput
from seq2attn.errors import DataError, UserError
from seq2attn.io.files import FILE_HINT, read_object
from seq2attn.io.hf_folder import CONFIG_FILE, check_files, read_hf_specs, read_hf_tensors, validate_fields
from seq2attn.nn.layers import masked_mean, split_heads
from seq2attn.nn.packing import Sequences
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.vocabulary import EOS, PAD
from seq2attn.tokenizers.wordpiece import WordPieceTokenizer, check_dependency, resolve_folder

WORD_EMBEDDINGS_KEY = "embeddings.word_embeddings.weight"
"""Key in the weights of any BERT, perhaps with a prefix."""


class BertArchitectureConfig(Config):
    """Fields of `config.json` that define a BERT, with their names there."""

    vocab_size: PositiveInt
    hidden_size: PositiveInt
    num_hidden_layers: NumLayers
    num_attention_heads: PositiveInt
    intermediate_size: PositiveInt
    max_position_embeddings: PositiveInt
    type_vocab_size: PositiveInt = 2
    hidden_act: Literal["gelu", "gelu_new", "relu", "silu", "swish"] = "gelu"
    hidden_dropout_prob: float = Field(0.1, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(0.1, ge=0, lt=1)
    layer_norm_eps: PositiveFloat = 1e-12
    initializer_range: NonNegativeFloat = 0.02


def read_bert_config(folder: Path) -> BertArchitectureConfig:
    """Architecture of the BERT in `folder`, after the checks of its files that are fast.

    Raises FieldError for `path` when a file is missing or corrupt, or of another type of model.
    """
    try:
        check_files(folder)
        architecture = _read_architecture(folder / CONFIG_FILE)
        rows, width = _embeddings_shape(folder)
    except UserError as error:
        raise FieldError("path", str(error)) from None
    if (rows, width) != (architecture.vocab_size, architecture.hidden_size):
        expected = f"{architecture.vocab_size} x {architecture.hidden_size}"
        raise FieldError("path", f"{folder}: the embeddings are {rows} x {width}, and {expected} in {CONFIG_FILE}")
    return architecture


def _read_architecture(file: Path) -> BertArchitectureConfig:
    content = read_object(file, FILE_HINT)
    model_type = content.get("model_type", "bert")
    if model_type != "bert":
        raise DataError(f"{file} is not of a `bert` but of a `{model_type}`")
    if content.get("is_decoder") or content.get("position_embedding_type", "absolute") != "absolute":
        raise DataError(f"{file} is of a BERT with causal attention or relative positions: not supported")
    architecture = validate_fields(BertArchitectureConfig, content, file)
    heads, width = architecture.num_attention_heads, architecture.hidden_size
    if width % heads:
        raise DataError(f"{file}: {heads} heads do not divide {width}")
    return architecture


def _embeddings_shape(folder: Path) -> tuple[int, ...]:
    """Shape of the word embeddings, from the headers of the files. Raises UserError when there are none."""
    shapes = [spec.shape for name, spec in read_hf_specs(folder).items() if name.endswith(WORD_EMBEDDINGS_KEY)]
    if len(shapes) != 1 or len(shapes[0]) != 2:
        raise DataError(f"{folder}: its weights are not of a BERT: there is no `{WORD_EMBEDDINGS_KEY}`")
    return shapes[0]


def read_bert_tensors(folder: Path) -> dict[str, Tensor]:
    """Tensors of the BERT in `folder`, with the names of `BertModel`; those of its heads are left out.

    `from_pretrained` is not used: it follows other files in the folder, which is untrusted.

    Raises DataError when they cannot be read.
    """
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected that of a BERT checkpoint")
    try:
        _embeddings_shape(folder)
        tensors = read_hf_tensors(folder)
    except UserError as error:
        raise DataError(f"{folder}: its weights cannot be read: {error}") from None
    (prefix,) = (name.removesuffix(WORD_EMBEDDINGS_KEY) for name in tensors if name.endswith(WORD_EMBEDDINGS_KEY))
    return {
        # Google's checkpoints call the weights of a layer norm gamma and beta.
        name.removeprefix(prefix)
        .replace("LayerNorm.gamma", "LayerNorm.weight")
        .replace("LayerNorm.beta", "LayerNorm.bias"): tensor.float()
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


class _PartlyFrozen(nn.Module):
    """A module with frozen parts, which stay in eval mode, so that their dropout is off."""

    frozen: Sequence[nn.Module]

    def freeze(self, parts: Sequence[nn.Module]) -> None:
        """Freeze `parts` for good."""
        self.frozen = parts
        for part in parts:
            part.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Training mode for all parts but the frozen ones."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self


class BertEmbedding(_PartlyFrozen):
    """Sum of word, position and segment embeddings, normalized (Devlin et al. 2019, figure 2).

    Tokens after the first [SEP] have the second segment. Positions beyond the last one share its embedding.
    """

    def __init__(self, architecture: BertArchitectureConfig, *, frozen: bool) -> None:
        from transformers.models.bert.modeling_bert import BertEmbeddings

        super().__init__()
        self.embeddings = BertEmbeddings(_bert_config(architecture))
        self.max_positions, self.num_segments = architecture.max_position_embeddings, architecture.type_vocab_size
        self.freeze([self.embeddings] if frozen else [])

    def forward(self, ids: Tensor) -> Tensor:
        """[B, S] -> [B, S, D]"""
        is_sep = (ids == EOS).long()
        segment = (is_sep.cumsum(1) - is_sep).clamp_max(self.num_segments - 1)
        position = torch.arange(ids.size(1), device=ids.device).clamp_max(self.max_positions - 1)
        return self.embeddings(ids, token_type_ids=segment, position_ids=position.expand_as(ids))


class BertEncoder(_PartlyFrozen, Encoder):
    """The layers of a BERT over embedded tokens; the lowest `frozen` ones are not trained."""

    def __init__(self, architecture: BertArchitectureConfig, *, frozen: int) -> None:
        from transformers import BertModel

        super().__init__()
        self.bert = BertModel(_bert_config(architecture), add_pooling_layer=False)
        self.bert.embeddings = _IdentityEmbeddings()
        self.key_dim = self.value_dim = self.final_dim = architecture.hidden_size
        self.heads = architecture.num_attention_heads
        self.freeze(list(self.bert.encoder.layer[:frozen]))

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        """embedded [B, S, D]"""
        # A mask of two dimensions is read on the CPU, and a GPU waited for, to drop one without padding.
        mask = sequences.mask[:, None, None]
        output = self.bert(inputs_embeds=embedded, attention_mask=mask, output_hidden_states=need_weights)
        x, final_state = output.last_hidden_state, (masked_mean(output.last_hidden_state, sequences.mask),)
        weights = self._weights(output.hidden_states[:-1], mask) if need_weights else None
        return EncoderOutput(x, x, sequences.mask, final_state, weights=weights)

    def _weights(self, inputs: Sequence[Tensor], mask: Tensor) -> Tensor:
        """Weights of all layers from the `inputs` [B, S, D] of each, as the fused kernel returns none."""
        weights = []
        for layer, x in zip(self.bert.encoder.layer, inputs, strict=True):
            attention = layer.attention.self
            query, key = (split_heads(projection(x), self.heads) for projection in (attention.query, attention.key))
            scores = query @ key.transpose(-1, -2) * attention.scaling
            weights.append(scores.masked_fill(~mask, -torch.inf).softmax(-1))
        return torch.stack(weights, 1)


class _IdentityEmbeddings(nn.Module):
    """Identity in the place of BERT's embeddings, for embedded tokens."""

    def forward(self, *, inputs_embeds: Tensor, **_: object) -> Tensor:
        return inputs_embeds


class BertEncoderConfig(EncoderBaseConfig):
    """BERT: its embeddings and its layers, with the weights of a checkpoint."""

    kind: Literal["bert"] = "bert"
    path: InputPath
    """Folder of the checkpoint; `tokenizer.source` is `wordpiece` with the same path."""
    frozen: Literal["all", "none"] | Annotated[int, Field(ge=0, strict=True)] = "none"
    """Parts that are not trained and have no dropout: all, none, or the embeddings and this number of lowest layers."""
    architecture: BertArchitectureConfig | None = None
    """The checkpoint's `config.json`; filled in, and then the folder is only needed for the initial weights."""

    @model_validator(mode="before")
    @classmethod
    def _read_architecture(cls, data: Any) -> Any:
        check_dependency()
        return fill_in(data, "architecture", lambda fields: read_bert_config(resolve_folder(fields["path"])))

    def check_fields(self) -> Iterator[FieldError]:
        """The error of more frozen layers than there are."""
        layers = self.required_architecture.num_hidden_layers
        if not isinstance(self.frozen, str) and self.frozen > layers:
            yield FieldError("frozen", f"there are {layers} layers to freeze, not {self.frozen}")

    @property
    def required_architecture(self) -> BertArchitectureConfig:
        """The architecture, which every validated config has."""
        assert self.architecture is not None
        return self.architecture

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint."""
        return self.path

    def output_dim(self, input_dim: int) -> int:
        """The width of BERT."""
        return self.required_architecture.hidden_size

    def check_embeddings(self, tie: str, source_vectors: Path | None) -> Iterator[FieldError]:
        """Errors of options of source embeddings, which are those of BERT."""
        message = "BERT has its own source embeddings"
        if tie == "all":
            yield FieldError("tie", f"{message}; use `tie: output` or `none`")
        if source_vectors is not None:
            yield FieldError("source_vectors", f"{message}; leave this out")

    def build_embedding(self) -> BertEmbedding:
        """Embedding of `wordpiece` ids, with random weights until `load_bert_weights` is called."""
        return BertEmbedding(self.required_architecture, frozen=self.frozen != "none")

    def build(self, input_dim: int) -> BertEncoder:
        """For tokens of `build_embedding` [B, S, D]: D is BERT's width, not `input_dim`."""
        architecture, frozen = self.required_architecture, self.frozen
        if isinstance(frozen, str):
            frozen = architecture.num_hidden_layers if frozen == "all" else 0
        return BertEncoder(architecture, frozen=frozen)

    def load_checkpoint(self, embedding: nn.Module, encoder: Encoder, tokenizer: Tokenizer) -> None:
        """Load the weights in `path`. Raises DataError if they do not fit."""
        assert isinstance(embedding, BertEmbedding)
        assert isinstance(encoder, BertEncoder)
        assert isinstance(tokenizer, WordPieceTokenizer), "a rule of the config"
        load_bert_weights(self.path, embedding, encoder, tokenizer.bert_ids)


def load_bert_weights(folder: Path, embedding: BertEmbedding, encoder: BertEncoder, bert_ids: Sequence[int]) -> None:
    """Load the weights in `folder` into both modules; `bert_ids`: BERT's id of each id of the vocabulary.

    Raises DataError when the weights cannot be read, have other shapes, or fewer rows than the vocabulary.
    """
    tensors = read_bert_tensors(folder)
    vectors = tensors[WORD_EMBEDDINGS_KEY]
    if max(bert_ids) >= len(vectors):
        raise DataError(f"{folder}: its vocabulary has {max(bert_ids) + 1} entries, and its weights {len(vectors)}")
    rest = sorted({*range(len(vectors))} - {*bert_ids})  # rows without a token, which some checkpoints have
    tensors[WORD_EMBEDDINGS_KEY] = vectors[[*bert_ids, *rest]]
    modules = {"embeddings.": embedding.embeddings, "encoder.": encoder.bert.encoder}
    keys = {prefix: list(module.state_dict()) for prefix, module in modules.items()}
    if missing := [prefix + key for prefix in modules for key in keys[prefix] if prefix + key not in tensors]:
        raise DataError(f"{folder}: its weights lack `{missing[0]}`, and {len(missing) - 1} more")
    try:
        for prefix, module in modules.items():
            module.load_state_dict({key: tensors[prefix + key] for key in keys[prefix]})
    except RuntimeError:
        raise DataError(f"{folder}: its weights are not of the config's `architecture`; leave that out") from None


def _bert_config(architecture: BertArchitectureConfig) -> Any:
    from transformers import BertConfig

    return BertConfig(**architecture.model_dump(), pad_token_id=PAD)

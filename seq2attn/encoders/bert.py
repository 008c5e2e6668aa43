"""BERT as an encoder: Devlin et al. 2019, from a checkpoint in the format of Hugging Face.

It is `transformers`' own, cut in two where our contract cuts: what embeds ids, and the layers above.
Shapes: B sentences, S source pieces with [CLS] and [SEP], D its width, L its layers, H its heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, PositiveFloat, ValidationInfo, model_validator
from torch import Tensor, nn

from seq2attn.config.base import Config, FieldError, FieldErrors, InputPath
from seq2attn.config.trust import is_of_run
from seq2attn.encoders.base import Encoder, EncoderOutput, masked_mean
from seq2attn.encoders.bert_checkpoint import (
    WORD_EMBEDDINGS_KEY,
    BertArchitectureConfig,
    read_bert_config,
    read_bert_tensors,
)
from seq2attn.errors import DataError
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.tokenizers.vocabulary import EOS, PAD
from seq2attn.tokenizers.wordpiece import check_dependency, resolve_folder


class _PartlyFrozen(nn.Module):
    """A module of which some parts stay as they are, also in that they have no dropout."""

    frozen: Sequence[nn.Module]

    def freeze(self, parts: Sequence[nn.Module]) -> None:
        """From now on `parts` stay as they are."""
        self.frozen = parts
        for part in parts:
            part.requires_grad_(False)

    def train(self, mode: bool = True) -> Self:
        """Noise would be of no use in what cannot learn to do with it."""
        super().train(mode)
        for part in self.frozen:
            part.eval()
        return self


class BertEmbedding(_PartlyFrozen):
    """Word, position and segment vectors, summed and normalised (Devlin et al. 2019, figure 2).

    What stands after the first end is of the second segment. Positions past the last learned one share that.
    """

    def __init__(self, shape: BertArchitectureConfig, *, frozen: bool, rate: float) -> None:
        from transformers.models.bert.modeling_bert import BertEmbeddings

        super().__init__()
        self.embeddings = BertEmbeddings(_config(shape))
        self.num_positions, self.num_segments = shape.max_position_embeddings, shape.type_vocab_size
        self.lr_scale = rate
        initialize_parameters(self)
        self.freeze([self.embeddings] if frozen else [])

    def forward(self, words: Tensor) -> Tensor:
        """ids [B, S] -> [B, S, D]"""
        ends = (words == EOS).long()
        segment = (ends.cumsum(1) - ends).clamp_max(self.num_segments - 1)
        position = torch.arange(words.size(1), device=words.device).clamp_max(self.num_positions - 1)
        vectors: Tensor = self.embeddings(words, token_type_ids=segment, position_ids=position.expand_as(words))
        return vectors


class BertEncoder(_PartlyFrozen, Encoder):
    """Layers of a BERT over embedded tokens."""

    def __init__(self, shape: BertArchitectureConfig, *, frozen: int, rate: float) -> None:
        """The lowest `frozen` layers stay as they are."""
        from transformers import BertModel

        super().__init__()
        self.bert = BertModel(_config(shape), add_pooling_layer=False)
        self.bert.embeddings = _IdentityEmbeddings()
        self.key_dim = self.value_dim = self.final_dim = shape.hidden_size
        self.heads = shape.num_attention_heads
        self.lr_scale = rate
        self.freeze(list(self.bert.encoder.layer[:frozen]))

    def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:
        """words [B, S, D], mask [B, S]."""
        x = self.bert(inputs_embeds=words, attention_mask=mask).last_hidden_state
        return EncoderOutput(x, x, mask, (masked_mean(x, mask),))

    def forward_with_weights(self, words: Tensor, mask: Tensor) -> tuple[EncoderOutput, Tensor | None]:
        """words [B, S, D], mask [B, S]; the weights are those of all layers."""
        output = self.bert(inputs_embeds=words, attention_mask=mask, output_hidden_states=True)
        x = output.last_hidden_state
        return EncoderOutput(x, x, mask, (masked_mean(x, mask),)), self._weights(output.hidden_states, mask)

    def _weights(self, inputs: Sequence[Tensor], mask: Tensor) -> Tensor:
        """What each layer is given [B, S, D] -> where it looks [B, L, H, S, S]; its fused attention does not tell."""
        looked = []
        for layer, x in zip(self.bert.encoder.layer, inputs, strict=False):  # the last is what leaves the last layer
            own = layer.attention.self
            query, key = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (own.query, own.key))
            scores = query @ key.transpose(-1, -2) * own.scaling
            looked.append(scores.masked_fill(~mask[:, None, None], -torch.inf).softmax(-1))
        return torch.stack(looked, 1)


class _IdentityEmbeddings(nn.Module):
    """Identity in the place of BERT's embeddings, for embedded tokens."""

    def forward(self, *, inputs_embeds: Tensor, **_: object) -> Tensor:
        return inputs_embeds


class BertEncoderConfig(Config):
    """BERT: its embeddings and its layers, with the weights of a checkpoint."""

    kind: Literal["bert"]
    path: InputPath
    """The folder of the checkpoint; `tokenizer.source` is `wordpiece` of the same."""
    frozen: Literal["all", "none"] | Annotated[int, Field(ge=0, strict=True)] = "none"
    """What stays as it is: all, none, or its embeddings and so many layers from below. Frozen parts have no dropout."""
    lr_scale: PositiveFloat = 0.05
    """Its learning rate, as a share of the optimiser's: what has learnt much shall change little at a time."""
    architecture: BertArchitectureConfig | None = None
    """What the checkpoint's `config.json` says; filled in, and then the folder is only needed for first weights."""

    @model_validator(mode="before")
    @classmethod
    def _look(cls, data: Any, info: ValidationInfo) -> Any:
        check_dependency()
        if not isinstance(data, dict) or data.get("architecture") or not isinstance(data.get("path"), str | Path):
            return data
        if is_of_run(data["path"]):
            raise FieldError("architecture", "is missing, which a run has: the folder that it names is not looked into")
        return {**data, "architecture": read_bert_config(resolve_folder(data["path"]))}

    @model_validator(mode="after")
    def _layers_to_freeze(self) -> BertEncoderConfig:
        if isinstance(self.frozen, int) and self.frozen > self.required_architecture.num_hidden_layers:
            layers = self.required_architecture.num_hidden_layers
            raise FieldErrors([FieldError("frozen", f"there are {layers} layers to freeze, not {self.frozen}")])
        return self

    @property
    def required_architecture(self) -> BertArchitectureConfig:
        """The architecture, which is there in every config that was read."""
        assert self.architecture is not None
        return self.architecture

    @property
    def frozen_layers(self) -> int:
        """How many layers from below stay as they are."""
        if isinstance(self.frozen, int):
            return self.frozen
        return self.required_architecture.num_hidden_layers if self.frozen == "all" else 0

    def build_embedding(self) -> BertEmbedding:
        """What embeds ids of `wordpiece`, with first weights of no use: `load_bert_weights` brings the checkpoint's."""
        return BertEmbedding(self.required_architecture, frozen=self.frozen != "none", rate=self.lr_scale)

    def build(self, input_dim: int) -> BertEncoder:
        """For words of `build_embedding` [B, S, D]: BERT's own width, whatever `input_dim` says of others."""
        return BertEncoder(self.required_architecture, frozen=self.frozen_layers, rate=self.lr_scale)


def load_bert_weights(folder: Path, embedding: BertEmbedding, encoder: BertEncoder, bert_ids: Sequence[int]) -> None:
    """Give both parts the weights in `folder`; `bert_ids` says which of its words each of our ids is.

    Raises: DataError when the folder's weights cannot be read, are of another shape, or fewer than the words.
    """
    found = read_bert_tensors(folder)
    words = found[WORD_EMBEDDINGS_KEY]
    if max(bert_ids) >= len(words):
        raise DataError(f"{folder}: its vocabulary has {max(bert_ids) + 1} entries, and its weights {len(words)}")
    parts: list[tuple[str, nn.Module]] = [
        ("embeddings.", embedding.embeddings),
        ("encoder.", encoder.bert.encoder),
    ]
    needed = [(name, part.state_dict()) for name, part in parts]
    if absent := [name + key for name, own in needed for key in own if name + key not in found]:
        raise DataError(f"{folder}: its weights lack `{absent[0]}`, and {len(absent) - 1} more")
    try:
        for (name, part), (_, own) in zip(parts, needed, strict=True):
            part.load_state_dict({key: found[name + key] for key in own})
    except RuntimeError:
        raise DataError(f"{folder}: its weights are not of the config's `architecture`; leave that out") from None
    rest = sorted({*range(len(words))} - {*bert_ids})  # rows for no word, which some checkpoints have
    with torch.no_grad():
        embedding.embeddings.word_embeddings.weight.copy_(words[[*bert_ids, *rest]])


def _config(shape: BertArchitectureConfig) -> Any:
    from transformers import BertConfig

    return BertConfig(**shape.model_dump(), pad_token_id=PAD)

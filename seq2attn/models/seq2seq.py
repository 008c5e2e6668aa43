"""A translation model: any encoder, any decoder, embeddings and an output layer.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), S source words, T target words, V target vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.attention import Memories
from seq2attn.decoders import Decoder, DecoderOutput
from seq2attn.encoders import Encoder
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.varlen import SequenceLayout


class TokenEmbedding(nn.Module):
    """A vector for each word of a vocabulary, times sqrt(dim) when scaled (Vaswani et al. 2017, section 3.4)."""

    def __init__(self, size: int, dim: int, *, scaled: bool, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, dim)
        self.scale = math.sqrt(dim) if scaled else 1.0
        self.dropout = Dropout(dropout)
        initialize_parameters(self)

    def forward(self, words: Tensor) -> Tensor:
        """ids [B, T] -> [B, T, E]"""
        vectors: Tensor = self.dropout(self.embedding(words) * self.scale)
        return vectors


class Seq2Seq(nn.Module):
    """Encodes a source once and reads target words after it."""

    def __init__(
        self,
        source: nn.Module,
        encoder: Encoder,
        target: TokenEmbedding,
        decoder: Decoder[Any],
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.source_embedding = source
        self.encoder = encoder
        self.target_embedding = target
        self.decoder = decoder
        self.output_projection = output

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.output_projection.weight.device

    def encode(self, words: Tensor, mask: Tensor) -> tuple[Memories, Any]:
        """ids [B, S], mask bool [B, S] -> what the decoder looks at, and its state before the first word"""
        return self.decoder.init_state(self.encoder(self.source_embedding(words), mask))

    def encoder_self_attention(self, words: Tensor, mask: Tensor) -> Tensor | None:
        """ids [B, S], mask bool [B, S] -> the encoder's own weights [B, L, H, S, S]; None without attention"""
        return self.encoder.forward_with_weights(self.source_embedding(words), mask)[1]

    def decode(
        self, words: Tensor, state: Any, memory: Memories, *, need_weights: bool = False
    ) -> DecoderOutput:
        """Read target ids [N, T] after what `state` has read."""
        decoded: DecoderOutput = self.decoder(
            self.target_embedding(words), state, memory, need_weights=need_weights
        )
        return decoded

    def forward(
        self,
        source: Tensor,
        source_mask: Tensor,
        target: Tensor,
        *,
        need_weights: bool = False,
        layout: tuple[SequenceLayout, SequenceLayout] | None = None,
    ) -> DecoderOutput:
        """ids [B, S], mask [B, S], ids [B, T] -> what reading the target gives; `output` makes logits of its hidden

        `layout` tell where a Transformer's sentences lie that are all in one row, on either side.
        """
        if layout is None:
            memory, state = self.encode(source, source_mask)
            return self.decode(target, state, memory, need_weights=need_weights)
        of_source, of_target = layout
        encoded = self.encoder(self.source_embedding(source), source_mask, of_source)
        memory, state = self.decoder.init_state(encoded)
        decoded: DecoderOutput = self.decoder(self.target_embedding(target), state, memory, layout=of_target)
        return decoded

    def step(self, word: Tensor, state: Any, memory: Memories) -> tuple[Tensor, Any]:
        """Read one word [N]; the log-probabilities [N, V] of the next, and the state after."""
        decoded = self.decode(word.unsqueeze(1), state, memory)
        return self.log_probs(decoded.hidden[:, -1]), decoded.state

    def log_probs(self, hidden: Tensor) -> Tensor:
        """[..., D] of the decoder -> log-probabilities of the next word [..., V] in float32"""
        return torch.log_softmax(self.output_projection(hidden).float(), -1)

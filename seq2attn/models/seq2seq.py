"""A translation model: encoder, decoder, embeddings and output projection.

Shapes: B sentences, N = B*K rows (K hypotheses per sentence), S source tokens, T target tokens, V target vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from seq2attn.attention.base import Memories
from seq2attn.data.collate import collate, collate_source
from seq2attn.decoders.base import Decoder, DecoderOutput
from seq2attn.encoders.base import Encoder
from seq2attn.errors import UserError
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import Dropout
from seq2attn.nn.packing import SequenceLayout, Sequences

IdPairs: TypeAlias = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Token ids of source and target of several pairs, without EOS."""


class TokenEmbedding(nn.Module):
    """Token embeddings, times sqrt(dim) when scaled (Vaswani et al. 2017, section 3.4)."""

    def __init__(self, size: int, dim: int, *, scaled: bool, dropout: float, word_dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, dim)
        self.scale = math.sqrt(dim) if scaled else 1.0
        self.dropout, self.word_dropout = Dropout(dropout), Dropout(word_dropout)
        initialize_parameters(self)

    def forward(self, ids: Tensor) -> Tensor:
        """ids [B, T] -> [B, T, E]"""
        vectors: Tensor = self.dropout(self.embedding(ids) * self.scale)
        if self.word_dropout.effective_p():
            vectors = vectors * self.word_dropout(vectors.new_ones(*ids.shape, 1))
        return vectors


class Seq2Seq(nn.Module):
    """Encoder-decoder model."""

    def __init__(
        self, source: nn.Module, encoder: Encoder, target: TokenEmbedding, decoder: Decoder[Any], output: nn.Linear
    ) -> None:
        super().__init__()
        self.source_embedding = source
        self.encoder = encoder
        self.target_embedding = target
        self.decoder = decoder
        self.output_projection = output

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.output_projection.weight.device

    def encode(self, ids: Tensor, sequences: Sequences) -> tuple[Memories, Any]:
        """ids [B, S] -> memories of the decoder, and its state before the first token"""
        return self.decoder.init_state(self.encoder(self.source_embedding(ids), sequences))

    def encode_sources(self, sources: Sequence[Sequence[int]]) -> tuple[Memories, Any]:
        """`encode` of token ids without EOS."""
        return self.encode(*collate_source(sources, self.device))

    def encoder_self_attention(self, ids: Tensor, sequences: Sequences) -> Tensor | None:
        """ids [B, S] -> attention weights of the encoder [B, L, H, S, S]; None without attention"""
        return self.encoder(self.source_embedding(ids), sequences, need_weights=True).weights

    def decode(
        self,
        ids: Tensor,
        state: Any,
        memory: Memories,
        *,
        need_weights: bool = False,
        layout: SequenceLayout | None = None,
    ) -> DecoderOutput:
        """Decode target ids [N, T] after those in `state`; `layout`: of packed targets, for padding-free decoders."""
        packed = {} if layout is None else {"layout": layout}
        embedded = self.target_embedding(ids)
        return self.decoder(embedded, state, memory, need_weights=need_weights, **packed)

    def forward(
        self,
        source: Tensor,
        sequences: Sequences,
        target: Tensor,
        *,
        need_weights: bool = False,
        target_layout: SequenceLayout | None = None,
    ) -> DecoderOutput:
        """Source ids [B, S] of `sequences`, target ids [B, T] -> the output of the decoder (teacher forcing)

        `target_layout`: of packed targets, if the source is packed too, for padding-free Transformers.

        Raises UserError if weights are needed and not one for each source token.
        """
        memory, state = self.encode(source, sequences)
        decoded = self.decode(target, state, memory, need_weights=need_weights, layout=target_layout)
        if decoded.cross_attention is not None:
            check_weights(decoded.cross_attention, source.size(1))
        return decoded

    def step(self, ids: Tensor, state: Any, memory: Memories) -> tuple[Tensor, Any]:
        """Decode one token [N] -> log-probabilities [N, V] of the next token, and the next state."""
        decoded = self.decode(ids.unsqueeze(1), state, memory)
        return self.log_probs(decoded.hidden[:, -1]), decoded.state

    def token_log_probs(self, pairs: IdPairs) -> Tensor:
        """Log-probabilities of the target tokens and EOS of each pair [B, T], by forced decoding; then padding."""
        batch = collate(pairs).to(self.device)
        log_probs = self.log_probs(self(batch.source, batch.sequences, batch.target).hidden)
        return log_probs.gather(-1, batch.labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """[..., D] -> log-probabilities of the next token [..., V] in float32"""
        return torch.log_softmax(self.output_projection(hidden).float(), -1)


def check_weights(weights: Tensor, num_tokens: int) -> None:
    """Raises UserError for attention weights [..., S] that are not one for each source token."""
    if weights.size(-1) != num_tokens:
        found = f"{weights.size(-1)} states for {num_tokens} source tokens"
        raise UserError(f"attention weights need one state of the encoder for each source token, not {found}")

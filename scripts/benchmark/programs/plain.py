"""Models as in tutorials: torch.nn.Transformer, and loops over RNN cells. `plain DATA MODEL TOKENS`."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmark.programs.batches import PAD, train
from benchmark.setting import TRANSFORMERS

VOCAB_SIZE = 8000


class Transformer(nn.Module):
    """torch.nn.Transformer with sinusoidal positions and tied embeddings."""

    def __init__(self, model: str = "t", vocab_size: int = VOCAB_SIZE) -> None:
        super().__init__()
        layers, dim, heads, hidden = TRANSFORMERS[model]
        self.dim = dim
        self.table = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=dim**-0.5)
        self.net = nn.Transformer(dim, heads, layers, layers, hidden, 0.1, batch_first=True)
        for module in self.net.modules():  # as in ours: PyTorch then uses its fused kernel
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        self.dropout = nn.Dropout(0.1)
        angle = torch.arange(512)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        self.positions: Tensor
        self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """ids [B, S], [B, T] -> logits [B, T, V]"""
        padding = source == PAD
        causal = torch.ones(target.size(1), target.size(1), dtype=torch.bool, device=target.device).triu(1)
        hidden = self.net(
            self._embed(source),
            self._embed(target),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.table.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.dropout(self.table(ids) * math.sqrt(self.dim) + self.positions[: ids.size(1)])
        return vectors


class Recurrent(nn.Module):
    """R1 and R2: a bidirectional encoder, and a decoder loop with input feeding."""

    def __init__(self, *, lstm: bool, layers: int, dim: int = 512, width: int = 256) -> None:
        super().__init__()
        self.lstm, self.layers, self.dim = lstm, layers, dim
        self.source, self.target = (nn.Embedding(VOCAB_SIZE, width, padding_idx=PAD) for _ in range(2))
        self.dropout = nn.Dropout(0.1)
        encoder, cell = (nn.LSTM, nn.LSTMCell) if lstm else (nn.GRU, nn.GRUCell)
        between = 0.1 if layers > 1 else 0.0
        self.encoder = encoder(width, dim // 2, layers, batch_first=True, bidirectional=True, dropout=between)
        self.cells = nn.ModuleList(cell(dim if i else width + dim, dim) for i in range(layers))
        self.bridge, self.key = nn.Linear(dim, dim * layers), nn.Linear(dim, dim, bias=False)
        if not lstm:
            self.query, self.v = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 1, bias=False)
        self.mix, self.output = nn.Linear(2 * dim, dim), nn.Linear(dim, VOCAB_SIZE)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """ids [B, S], [B, T] -> logits [B, T, V]"""
        padding = source == PAD
        ends = (~padding).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.source(source)), ends.cpu(), batch_first=True, enforce_sorted=False
        )
        memory, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        keys = self.key(memory)
        first = torch.tanh(self.bridge(memory.sum(1) / ends[:, None])).chunk(self.layers, 1)
        states = [(h, torch.zeros_like(h)) if self.lstm else h for h in first]
        feed, output = memory.new_zeros(memory.size(0), self.dim), list[Tensor]()
        for word in self.dropout(self.target(target)).unbind(1):
            x = torch.cat([word, feed], 1)
            for layer, cell in enumerate(self.cells):
                if layer:
                    x = self.dropout(x)
                states[layer] = cell(x, states[layer])
                x = states[layer][0] if self.lstm else states[layer]  # type: ignore[assignment]
            weights = torch.softmax(self._scores(keys, x).masked_fill(padding, -1e9), 1)
            context = torch.bmm(weights[:, None], memory).squeeze(1)
            feed = self.dropout(torch.tanh(self.mix(torch.cat([context, x], 1))))
            output.append(feed)
        logits: Tensor = self.output(torch.stack(output, 1))
        return logits

    def _scores(self, keys: Tensor, query: Tensor) -> Tensor:
        if self.lstm:
            return torch.bmm(keys, query[:, :, None]).squeeze(2)
        scores: Tensor = self.v(torch.tanh(keys + self.query(query)[:, None])).squeeze(2)
        return scores


def build_model(model: str) -> nn.Module:
    """One of the architectures."""
    return Transformer(model) if model in TRANSFORMERS else Recurrent(lstm=model == "r2", layers=int(model[1]))


def main(data: str, model: str, tokens: str) -> None:
    torch.manual_seed(42)
    net = build_model(model)
    print("parameters", sum(p.numel() for p in net.parameters()), flush=True)
    train(net, net, Path(data), int(tokens))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""GRU and LSTM encoders as ONNX operators, which know the length of each sentence.

`pack_padded_sequence` cannot be traced for any length; the operators `GRU` and `LSTM` compute the same function.
Shapes: B sentences, S source tokens, E width of the embeddings, D width of one direction.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.recurrent import RecurrentEncoder

OPSET = 18
GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
"""PyTorch's gates in ONNX's order: update, reset, new; input, output, forget, new."""


class OnnxRecurrentEncoder(Encoder):
    """A `RecurrentEncoder` in eval mode, to be traced and not to be called."""

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.layers = nn.ModuleList(OnnxRNNLayer(encoder.rnn, layer) for layer in range(encoder.rnn.num_layers))
        self.key_dim, self.value_dim, self.final_dim = encoder.key_dim, encoder.value_dim, encoder.final_dim

    def forward(self, embedded: Tensor, mask: Tensor) -> EncoderOutput:
        """embedded [B, S, E], mask [B, S]; the final states of both directions are concatenated"""
        x, lengths = embedded.transpose(0, 1), mask.sum(1, dtype=torch.int32)
        finals = list[tuple[Tensor, ...]]()
        for layer in self.layers:
            x, final = layer(x, lengths)
            finals.append(final)
        states = x.transpose(0, 1)
        return EncoderOutput(states, states, mask, tuple(torch.stack(part, 1) for part in zip(*finals, strict=True)))


class OnnxRNNLayer(nn.Module):
    """One layer in one or two directions."""

    input_weight: Tensor  # [directions, gates * D, E]
    hidden_weight: Tensor  # [directions, gates * D, D]
    bias: Tensor  # [directions, 2 * gates * D]

    def __init__(self, rnn: nn.GRU | nn.LSTM, layer: int) -> None:
        super().__init__()
        self.operator = "GRU" if isinstance(rnn, nn.GRU) else "LSTM"
        self.dim, self.directions = rnn.hidden_size, 2 if rnn.bidirectional else 1
        names = [f"l{layer}{suffix}" for suffix in ("", "_reverse")[: self.directions]]

        def stack(part: str) -> Tensor:
            """A weight of all directions, [directions, gates * D, ...], with the gates in ONNX's order."""
            return torch.stack([self._reorder(getattr(rnn, f"{part}_{name}").detach()) for name in names])

        self.register_buffer("input_weight", stack("weight_ih"))
        self.register_buffer("hidden_weight", stack("weight_hh"))
        self.register_buffer("bias", torch.cat([stack("bias_ih"), stack("bias_hh")], 1))

    def _reorder(self, weight: Tensor) -> Tensor:
        gates = weight.chunk(len(GATES[self.operator]))
        return torch.cat([gates[gate] for gate in GATES[self.operator]])

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """x [S, B, E], lengths [B] int32 -> [S, B, directions * D], and the final h (and c) [B, directions * D]"""
        steps, sentences, _ = x.shape
        final = [self.directions, sentences, self.dim]
        shapes = [[steps, *final], *[final] * (1 if self.operator == "GRU" else 2)]
        attributes: dict[str, Any] = {
            "hidden_size": self.dim,
            "direction": "bidirectional" if self.directions == 2 else "forward",
        }
        if self.operator == "GRU":
            attributes["linear_before_reset"] = 1
        outputs, *finals = torch.onnx.ops.symbolic_multi_out(
            self.operator,
            (x, self.input_weight, self.hidden_weight, self.bias, lengths),
            attributes,
            dtypes=[x.dtype] * len(shapes),
            shapes=shapes,
            version=OPSET,
        )
        return outputs.transpose(1, 2).flatten(2), tuple(part.transpose(0, 1).flatten(1) for part in finals)

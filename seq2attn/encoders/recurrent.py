"""GRU and LSTM encoders (Cho et al. 2014; Hochreiter and Schmidhuber 1997; Bahdanau et al. 2015, section 3.2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2attn.config.base import Config, FieldError, FieldErrors
from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.nn.dropout import Dropout
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.linear import is_grad_recording
from seq2attn.nn.rnn import run_packed, run_rnn


class RecurrentEncoder(Encoder):
    """GRU or LSTM, in one direction or both."""

    def __init__(
        self,
        cell: Literal["gru", "lstm"],
        input_dim: int,
        dim: int,
        layers: int,
        directions: int,
        dropout: float,
    ) -> None:
        super().__init__()
        rnn_type = nn.GRU if cell == "gru" else nn.LSTM
        self.rnn = rnn_type(
            input_dim,
            dim // directions,
            layers,
            batch_first=True,
            bidirectional=directions == 2,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.dropout = Dropout(dropout)
        self.key_dim = self.value_dim = self.final_dim = dim
        initialize_parameters(self)

    def forward(self, embedded: Tensor, mask: Tensor) -> EncoderOutput:
        """words [B, S, E], mask [B, S]; the final states of both directions are concatenated"""
        states, final = self._states(embedded, mask)
        states = self.dropout(states)
        return EncoderOutput(states, states, mask, tuple(self._by_layer(part) for part in final))

    def _states(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """[B, S, E], [B, S] -> the top layer's states [B, S, F], and each layer's last [layers * directions, B, d]"""
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        # Other devices have a kernel for all steps.
        uses_fused_steps = is_grad_recording() and embedded.device.type == "cpu"
        outputs, final = (run_packed if uses_fused_steps else run_rnn)(self.rnn, packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.size(1))
        return states, final

    def _by_layer(self, final: Tensor) -> Tensor:
        """[layers * directions, B, d] -> [B, layers, directions * d]"""
        return final.unflatten(0, (self.rnn.num_layers, -1)).permute(2, 0, 1, 3).flatten(2)


class RecurrentEncoderConfig(Config):
    """Recurrent encoder."""

    kind: Literal["gru", "lstm"]
    dim: PositiveInt = 512
    """Width of the output; two directions have half of it each."""
    layers: PositiveInt = 1
    """Number of layers."""
    bidirectional: bool = True
    """Encode the source in both directions."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout between layers and on the outputs."""

    @model_validator(mode="after")
    def _halves(self) -> RecurrentEncoderConfig:
        if self.bidirectional and self.dim % 2:
            raise FieldErrors([FieldError("dim", f"two directions cannot share an odd width, {self.dim}")])
        return self

    def build(self, input_dim: int) -> RecurrentEncoder:
        """For embedded tokens [B, S, input_dim]."""
        return RecurrentEncoder(
            self.kind, input_dim, self.dim, self.layers, 2 if self.bidirectional else 1, self.dropout
        )

"""GRU and LSTM encoders (Cho et al. 2014; Hochreiter and Schmidhuber 1997; Bahdanau et al. 2015, section 3.2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2attn.config.base import FieldError, NumLayers
from seq2attn.encoders.base import Encoder, EncoderBaseConfig, EncoderOutput
from seq2attn.nn.initialization import initialize_parameters
from seq2attn.nn.layers import Dropout
from seq2attn.nn.packed_rnn import run_packed, run_rnn
from seq2attn.nn.packing import Sequences
from seq2attn.nn.precision import is_grad_recording


class RecurrentEncoder(Encoder):
    """GRU or LSTM, in one direction or both."""

    def __init__(self, config: RecurrentEncoderConfig, input_dim: int) -> None:
        super().__init__()
        rnn_type = nn.GRU if config.kind == "gru" else nn.LSTM
        self.rnn = rnn_type(
            input_dim,
            config.dim // 2 if config.bidirectional else config.dim,
            config.layers,
            batch_first=True,
            bidirectional=config.bidirectional,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )
        self.dropout = Dropout(config.dropout)
        self.key_dim = self.value_dim = self.final_dim = config.dim
        initialize_parameters(self)

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        """embedded [B, S, E]; the final states of both directions are concatenated

        A GPU is not waited for where the lengths are known.
        """
        mask, lengths = sequences.mask, sequences.lengths
        # Sorted here, as `enforce_sorted=False` copies indices between the CPU and the GPU, and waits for each copy.
        on_device, order = mask.sum(1).sort(descending=True)
        sorted_lengths = on_device.cpu() if lengths is None else lengths.sort(descending=True).values
        packed = pack_padded_sequence(embedded.index_select(0, order), sorted_lengths, batch_first=True)
        uses_fused_steps = is_grad_recording() and embedded.device.type == "cpu"  # a GPU has a kernel for all steps
        outputs, final = (run_packed if uses_fused_steps else run_rnn)(self.rnn, packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.size(1))
        inverse = order.argsort()
        states = self.dropout(states.index_select(0, inverse))
        return EncoderOutput(states, states, mask, tuple(self._by_layer(x.index_select(1, inverse)) for x in final))

    def _by_layer(self, final: Tensor) -> Tensor:
        """[layers * directions, B, d] -> [B, layers, directions * d]"""
        return final.unflatten(0, (self.rnn.num_layers, -1)).permute(2, 0, 1, 3).flatten(2)


class RecurrentEncoderConfig(EncoderBaseConfig):
    """Recurrent encoder."""

    kind: Literal["gru", "lstm"]
    dim: PositiveInt = 512
    """Width of the output; two directions have half of it each."""
    layers: NumLayers = 1
    bidirectional: bool = True
    """Encode the source in both directions."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout between layers and on the outputs."""

    def check_fields(self) -> list[FieldError]:
        """The error of a width that two directions cannot share."""
        message = f"two directions cannot share an odd width, {self.dim}"
        return [FieldError("dim", message)] if self.bidirectional and self.dim % 2 else []

    def output_dim(self, input_dim: int) -> int:
        """The width of the states."""
        return self.dim

    def build(self, input_dim: int) -> RecurrentEncoder:
        """For embedded tokens [B, S, input_dim]."""
        return RecurrentEncoder(self, input_dim)

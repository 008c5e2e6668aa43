"""The encoder's contract: a padded batch of embedded words in, `EncoderOutput` out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from seq2attn.nn.varlen import SequenceLayout


@dataclass(frozen=True)
class EncoderOutput:
    """What an encoder hands to a decoder. `keys` and `values` are one tensor in most encoders."""

    keys: Tensor  # [B, S, Dk]  what is compared with a query
    values: Tensor  # [B, S, Dv]  what is averaged
    mask: Tensor  # [B, S] bool, True on words
    final_state: tuple[
        Tensor, ...
    ]  # (h,) or (h, c), each [B, layers, F]; parallel encoders give their mean word
    layout: SequenceLayout | None = (
        None  # where sentences lie that are all in one row: B is then 1, and there is no `final_state`
    )


class Encoder(nn.Module, ABC):
    """Embedded words [B, S, E] and their mask [B, S] to `EncoderOutput`. What stands in padding never matters."""

    key_dim: int
    value_dim: int
    final_dim: int

    @abstractmethod
    def forward(self, words: Tensor, mask: Tensor) -> EncoderOutput:
        """words [B, S, E], mask bool [B, S], True on words."""

    def forward_with_weights(self, words: Tensor, mask: Tensor) -> tuple[EncoderOutput, Tensor | None]:
        """What `forward` gives, and where each word looked among the others: [B, L, H, S, S] of all layers, or None.

        For encoders without attention there is nothing to add.
        """
        return self(words, mask), None


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """x [B, S, D], mask [B, S] -> the average word [B, 1, D]."""
    words = mask.unsqueeze(-1)
    return x.masked_fill(~words, 0.0).sum(1, keepdim=True) / words.sum(1, keepdim=True)

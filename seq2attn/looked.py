"""Where a model looks when it reads a source and its translation: read once more, when somebody wants to see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.data.batches import collate_source
from seq2attn.model import Seq2Seq
from seq2attn.search.batched import alignment
from seq2attn.text.segmented import Segmented
from seq2attn.text.tokenizer import Tokenizer
from seq2attn.text.vocabulary import EOS


@dataclass(frozen=True)
class Looked:
    """A source, a translation, and the weights of every layer and head. Both sides end with the end of the sentence."""

    source: Segmented
    target: Segmented
    decoder: (
        NDArray[np.float32] | None
    )  # [layers, heads, target, source]: each step, named by the word it says
    encoder: NDArray[np.float32] | None  # [layers, heads, source, source]: each source word, at the others

    @classmethod
    def at(
        cls,
        model: Seq2Seq,
        tokenizers: tuple[Tokenizer, Tokenizer],
        source: Sequence[int],
        target: Sequence[int],
    ) -> Looked:
        """Have `model` read ids that do not yet have their end, cut by the tokenisers of source and target."""
        return cls(
            Segmented.of(tokenizers[0], [*source, EOS]),
            Segmented.of(tokenizers[1], [*target, EOS]),
            _plain(alignment(model, source, target)),
            _plain(self_attention(model, source)),
        )


@torch.no_grad()
def self_attention(model: Seq2Seq, source: Sequence[int]) -> Tensor | None:
    """The weights [layers, heads, source + end, source + end] of the encoder; None where it has no attention."""
    device = next(model.parameters()).device
    words, mask = collate_source([source])
    weights = model.self_attention(words.to(device), mask.to(device))
    return None if weights is None else weights[0]


def _plain(weights: Tensor | None) -> NDArray[np.float32] | None:
    return None if weights is None else weights.float().cpu().numpy()

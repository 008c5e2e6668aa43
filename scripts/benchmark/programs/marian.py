"""Hugging Face's MarianMTModel in a plain training loop: `marian DATA MODEL TOKENS ATTENTION_DROPOUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from benchmark.programs.batches import BOS, EOS, PAD, train
from benchmark.setting import TRANSFORMERS


class Marian(MarianMTModel):  # type: ignore[misc]
    """The model as a function of source and target inputs."""

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        """ids [B, S], [B, T] -> logits [B, T, V]"""
        mask = (source != PAD).long()
        output = super().forward(input_ids=source, attention_mask=mask, decoder_input_ids=inputs, use_cache=False)
        logits: Tensor = output.logits
        return logits


def build_model(attention_dropout: float = 0.0, model: str = "t", vocab_size: int = 8000) -> Marian:
    """T, or a model for a GPU."""
    layers, dim, heads, hidden = TRANSFORMERS[model]
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", layers), ("attention_heads", heads), ("ffn_dim", hidden))
    }
    special = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
    }
    config = MarianConfig(
        vocab_size=vocab_size, d_model=dim, dropout=0.1, attention_dropout=attention_dropout, activation_dropout=0.0,
        activation_function="relu", max_position_embeddings=512, scale_embedding=True, init_std=0.02,
        share_encoder_decoder_embeddings=True, tie_word_embeddings=True, **sizes, **special,
    )  # fmt: skip
    return Marian(config)


def main(data: str, name: str, tokens: str, attention_dropout: str) -> None:
    torch.manual_seed(42)
    model = build_model(float(attention_dropout), name)
    train(model, model, Path(data), int(tokens))


if __name__ == "__main__":
    main(*sys.argv[1:])

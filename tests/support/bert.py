"""A small BERT with random weights, written by `transformers`."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import BertConfig, BertModel


def make_bert(
    folder: Path, words: Sequence[str], *, kind: type = BertModel, shard: str = "1GB", **shape: object
) -> Path:
    """A checkpoint in `folder` with `words` as its vocabulary; `shape` overrides fields of the config."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
    small = {
        "vocab_size": len(tokens),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 24,
        "initializer_range": 0.3,  # large, so that differences are visible
    }
    torch.manual_seed(0)
    kind(BertConfig(**small | shape)).save_pretrained(folder, max_shard_size=shard)
    return folder

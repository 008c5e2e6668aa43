"""A small BERT with random weights and a vocabulary trained on a text, for experiments without a pretrained one.

python scripts/small_bert.py data/phrasebook/train.de runs/bert
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def make_bert(folder: Path, lines: Iterable[str], *, pieces: int, dim: int, layers: int, lowercase: bool) -> Path:
    """A checkpoint in `folder`, as `save_pretrained` of `transformers` writes it."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel, BertTokenizerFast
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = BertWordPieceTokenizer(lowercase=lowercase)
    tokenizer.train_from_iterator(lines, vocab_size=pieces, show_progress=False)
    (vocabulary,) = tokenizer.save_model(str(folder))
    BertTokenizerFast(vocabulary, do_lower_case=lowercase).save_pretrained(folder)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=dim,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * dim,
        max_position_embeddings=128,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("text", type=Path, help="text file to train the vocabulary on")
    parser.add_argument("folder", type=Path, help="folder of the new BERT")
    parser.add_argument("--pieces", type=int, default=1500)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lowercase", action="store_true", help="lower-case the text and remove accents")
    options = parser.parse_args()
    with options.text.open(encoding="utf-8") as lines:
        make_bert(
            options.folder,
            lines,
            pieces=options.pieces,
            dim=options.dim,
            layers=options.layers,
            lowercase=options.lowercase,
        )
    print(f"{options.folder}: config.json, model.safetensors and a vocabulary")


if __name__ == "__main__":
    main()

"""Training of the tokenizers on the training text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from seq2attn.data.config import DataConfig
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.config import TokenizerConfig, TokenizersConfig
from seq2attn.tokenizers.tags import TaggedTokenizer

Log = Callable[[str], None]


def train_tokenizers(data: DataConfig, text: TokenizersConfig, folder: Path, log: Log) -> None:
    """Train the tokenizers of both sides on all training corpora, each pair once, and save them in `folder`."""

    def lines(side: int) -> Iterator[str]:
        return (pair[side] for corpus in data.train for pair in corpus.pairs())

    def train(config: TokenizerConfig, lines: Iterable[str], *sides: str) -> None:
        name = " and ".join(sides)
        log(f"{name}: training the {config.kind} tokenizer")
        tokenizer: Tokenizer = config.train(lines)
        vocab_size, requested_size = len(tokenizer.vocabulary), getattr(config, "vocab_size", None) or 0
        description = f"{name}: {config.kind}, {vocab_size:,} entries"
        if vocab_size < requested_size:
            description += f" (fewer than `vocab_size: {requested_size}`: the text has no more)"
        if data.tags and "source" in sides:
            tokenizer = TaggedTokenizer(tokenizer, data.tags, all(corpus.tag for corpus in data.train))
            description += f", and the tags {' '.join(data.tags)}"
        for side in sides:
            shutil.rmtree(folder / side, ignore_errors=True)
            tokenizer.save(folder / side)
        log(description)

    source, target = text.per_side
    if text.is_joint:
        train(source, chain(lines(0), lines(1)), "source", "target")
    else:
        train(source, lines(0), "source")
        train(target, lines(1), "target")

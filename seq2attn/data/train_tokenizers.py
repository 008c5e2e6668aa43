"""Training of the tokenizers on the training text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from seq2attn.data.config import DataConfig
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.config import TokenizerConfig, TokenizersConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.tags import TaggedTokenizer

Log = Callable[[str], None]


def train_tokenizers(data: DataConfig, text: TokenizersConfig, folder: Path, log: Log) -> None:
    """Train the tokenizers of both sides on all training corpora, each pair once, and save them in `folder`."""

    def side(column: int) -> Iterator[str]:
        return (pair[column] for corpus in data.train for pair in corpus.pairs())

    def train(config: TokenizerConfig, lines: Iterable[str], *names: str) -> None:
        log(f"{' and '.join(names)}: training the {config.kind} tokenizer")
        trained: Tokenizer = config.train(lines)
        tokenizer = trained
        if data.tags and "source" in names:
            tokenizer = TaggedTokenizer(trained, data.tags, all(corpus.tag for corpus in data.train))
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
            tokenizer.save(folder / name)
        tags = f", and the tags {' '.join(data.tags)}" if tokenizer is not trained else ""
        log(f"{' and '.join(names)}: {_described(config, len(trained.vocabulary))}{tags}")

    source, target = text.per_side
    if text.is_joint:
        train(source, chain(side(0), side(1)), "source", "target")
    else:
        train(source, side(0), "source")
        train(target, side(1), "target")


def _described(config: TokenizerConfig, size: int) -> str:
    asked = config.vocab_size if isinstance(config, BPETokenizerConfig | UnigramTokenizerConfig) else size
    fewer = f" ({asked:,} were asked for; the text gives no more)" if size < asked else ""
    return f"{config.kind}, {size:,} entries{fewer}"

"""Training of the tokenizers on the training text, or use of those of another run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from seq2attn.data.data_config import DataConfig
from seq2attn.errors import DataError
from seq2attn.io.terminal import Log
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.tokenizer_config import TokenizerConfig, TokenizersConfig, load_tokenizer


def make_tokenizers(data: DataConfig, text: TokenizersConfig, folder: Path, log: Log) -> None:
    """Copy the tokenizers of the run that the config names, or else train new ones, into `folder`."""
    if text.run_dir is not None:
        copy_tokenizers(data, text, text.run_dir, folder, log)
    else:
        train_tokenizers(data, text, folder, log)


def copy_tokenizers(data: DataConfig, text: TokenizersConfig, run: Path, folder: Path, log: Log) -> None:
    """Copy the tokenizers of a run to `folder`. Raises DataError if they are not those of the config."""
    for side, config in zip(("source", "target"), text.per_side, strict=True):
        tokenizer = load_tokenizer(run / side)
        expected, options = (settings.model_dump(mode="json") for settings in (config, tokenizer.config))
        if keys := [key for key in {**expected, **options} if expected.get(key) != options.get(key)]:
            raise DataError(
                f"{run}: its {side} tokenizer has `{keys[0]}: {options.get(keys[0])}`, and the config"
                f" {expected.get(keys[0])}; leave all of `tokenizer` out but `run_dir`, or `run_dir`"
            )
        if side == "source":
            check_tags(data, tokenizer, run)
        if tokenizer.tags:
            tokenizer = _with_tags(tokenizer, tokenizer.tags, data)
        shutil.rmtree(folder / side, ignore_errors=True)
        tokenizer.with_direction(right_to_left=text.is_reversed(side)).save(folder / side)
    log(f"tokenizers: those of {run}")


def check_tags(data: DataConfig, source: Tokenizer, run: Path) -> None:
    """Raises DataError if the source tokenizer of a run lacks a tag of the training text."""
    if tags := [tag for tag in data.tags if tag not in source.tags]:
        raise DataError(f"{run}: its source tokenizer has no tag {tags[0]}, which a corpus of `data.train` has")


def train_tokenizers(data: DataConfig, text: TokenizersConfig, folder: Path, log: Log) -> None:
    """Train the tokenizers of both sides on all training corpora, each pair once, and save them in `folder`."""

    def lines(side: int) -> Iterator[str]:
        return (pair.text[side] for corpus in data.train for pair in corpus.pairs())

    def train(config: TokenizerConfig, lines: Iterable[str], *sides: str) -> None:
        name = " and ".join(sides)
        log(f"{name}: training the {config.kind} tokenizer")
        tokenizer: Tokenizer = config.train(lines)
        vocab_size, requested_size = len(tokenizer.vocabulary), config.vocab_size or 0
        description = f"{name}: {config.kind}, {vocab_size:,} entries"
        if vocab_size < requested_size:
            description += f" (fewer than `vocab_size: {requested_size}`: the text has no more)"
        if data.tags and ("source" in sides or text.shares_vocabulary):
            tokenizer = _with_tags(tokenizer, data.tags, data)
            description += f", and the tags {' '.join(data.tags)}"
        for side in sides:
            shutil.rmtree(folder / side, ignore_errors=True)
            tokenizer.with_direction(right_to_left=text.is_reversed(side)).save(folder / side)
        log(description)

    source, target = text.per_side
    if text.is_joint:
        train(source, chain(lines(0), lines(1)), "source", "target")
    else:
        train(source, lines(0), "source")
        train(target, lines(1), "target")


def _with_tags(tokenizer: Tokenizer, tags: tuple[str, ...], data: DataConfig) -> Tokenizer:
    return tokenizer.with_tags(tags, required=all(corpus.tag for corpus in data.train))

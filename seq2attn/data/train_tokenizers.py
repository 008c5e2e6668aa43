"""Training of the tokenizers on the training text, or use of those of another run."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from seq2attn.data.data_config import DataConfig
from seq2attn.errors import DataError
from seq2attn.io.terminal import Log
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.tokenizer_config import TokenizerConfig, TokenizersConfig, load_tokenizer
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig


def make_tokenizers(data: DataConfig, text: TokenizersConfig, log: Log) -> TokenizerPair:
    """The tokenizers of the run that the config names, or else new ones."""
    if text.run_dir is None:
        source, target = _train_tokenizers(data, text, log)
    else:
        source, target = (_load_tokenizer(data, text, text.run_dir, side) for side in ("source", "target"))
        log(f"tokenizers: those of {text.run_dir}")
    return TokenizerPair(
        source.with_direction(right_to_left=text.reverse_source),
        target.with_direction(right_to_left=text.right_to_left),
    )


def _load_tokenizer(data: DataConfig, text: TokenizersConfig, run: Path, side: str) -> Tokenizer:
    """The tokenizer of a side of a run. Raises DataError if it is not that of the config."""
    tokenizer, config = load_tokenizer(run / side), text.per_side[side == "target"]
    expected, options = (settings.model_dump(mode="json") for settings in (config, tokenizer.config))
    if keys := [key for key in {**expected, **options} if expected.get(key) != options.get(key)]:
        raise DataError(
            f"{run}: its {side} tokenizer has `{keys[0]}: {options.get(keys[0])}`, and the config"
            f" {expected.get(keys[0])}; leave out all keys of `tokenizer` but `run_dir`, or leave out `run_dir`"
        )
    if side == "source":
        check_tags(data, tokenizer, run)
    return _with_tags(tokenizer, tokenizer.tags, data) if tokenizer.tags else tokenizer


def check_tags(data: DataConfig, source: Tokenizer, run: Path) -> None:
    """Raises DataError if the source tokenizer of a run lacks a tag of the training text."""
    if tags := [tag for tag in data.tags if tag not in source.tags]:
        raise DataError(f"{run}: its source tokenizer has no tag {tags[0]}, which a corpus of `data.train` has")


def _train_tokenizers(data: DataConfig, text: TokenizersConfig, log: Log) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of both sides, trained on all training corpora, each pair once."""

    def lines(side: int) -> Iterator[str]:
        return (pair.text[side] for corpus in data.train for pair in corpus.pairs())

    def train(config: TokenizerConfig, lines: Iterable[str], sides: str) -> Tokenizer:
        log(f"{sides}: training the {config.kind} tokenizer")
        tokenizer: Tokenizer = config.train(lines)
        vocab_size, requested_size = len(tokenizer.vocabulary), config.vocab_size or 0
        description = f"{sides}: {config.kind}, {vocab_size:,} entries"
        if vocab_size < requested_size:
            minimum = config.min_frequency if isinstance(config, WordTokenizerConfig | CharacterTokenizerConfig) else 1
            which = f" that occur `min_frequency: {minimum}` times" if minimum > 1 else ""
            description += f" (fewer than `vocab_size: {requested_size}`: the text has no more{which})"
        if data.tags and ("source" in sides or text.shares_vocabulary):
            tokenizer = _with_tags(tokenizer, data.tags, data)
            description += f", and the tags {' '.join(data.tags)}"
        log(description)
        return tokenizer

    source, target = text.per_side
    if text.is_joint:
        joint = train(source, chain(lines(0), lines(1)), "source and target")
        return joint, joint
    return train(source, lines(0), "source"), train(target, lines(1), "target")


def _with_tags(tokenizer: Tokenizer, tags: tuple[str, ...], data: DataConfig) -> Tokenizer:
    return tokenizer.with_tags(tags, required=all(corpus.tag for corpus in data.train))

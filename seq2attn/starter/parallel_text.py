"""Two text files read once, line by line: their size, an even sample, and a dev set split off them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from seq2attn.data.corpus import Corpus, TextPair
from seq2attn.data.filter import EncodedPair, FiltersConfig, PairFilter
from seq2attn.data.prepared_data import PreparedData
from seq2attn.data.readers import PlainTextConfig, check_regular
from seq2attn.data.training_set import TrainingPart, TrainingSet
from seq2attn.errors import DataError
from seq2attn.io.files import atomic_dir
from seq2attn.io.terminal import plural
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig

SAMPLE_PAIRS = 5000
"""Minimum number of pairs of a sample of a larger text; at most twice as many."""
MAX_CHARACTERS = 2000
"""Number of characters of a line in a sample: more than a training pair has, and little enough for memory and trial."""
MIN_SHARED_LETTERS = 0.2
"""Share of the letters that two languages have in common if they are written in one script."""
SPLIT_FILES = "train.source", "train.target", "dev.source", "dev.target"


@dataclass(frozen=True)
class ParallelText:
    """A source file and its translation."""

    files: tuple[Path, Path]
    num_pairs: int
    sample: list[TextPair]  # spread evenly over the files; very long lines are cut
    num_found: int  # pairs of another text that are in this one

    @classmethod
    def read(cls, files: tuple[Path, Path], others: Iterable[TextPair] = ()) -> ParallelText:
        """Two files, and which pairs of another text they have. Raises DataError for text that cannot be used."""
        others = set(others)
        missing, sample, step, number = {*others}, list[TextPair](), 1, 0
        for number, (source, target) in enumerate(read_pairs(files), start=1):
            pair = source[:MAX_CHARACTERS], target[:MAX_CHARACTERS]
            missing.discard(pair)
            if number % step == 0:
                sample.append(pair)
            if len(sample) == 2 * SAMPLE_PAIRS:
                sample, step = sample[1::2], 2 * step
        for path, lines in zip(files, zip(*sample, strict=True), strict=True):
            if not any(line.strip() for line in lines):
                raise DataError(f"{path}: has no text: its lines are blank")
        return cls(files, number, sample, len(others) - len(missing))

    @cached_property
    def characters(self) -> tuple[Counter[str], Counter[str]]:
        """The characters of each side, thousands in Chinese and Japanese."""
        source, target = (Counter("".join(side)) for side in zip(*self.sample, strict=True))
        return source, target

    @cached_property
    def has_one_script(self) -> bool:
        """True if the languages share letters; a few, as of names in Russian text, are not enough."""
        letters = [{letter: count for letter, count in side.items() if letter.isalpha()} for side in self.characters]
        source, target = ({letter: n / sum(side.values()) for letter, n in side.items()} for side in letters)
        return sum(min(share, target.get(letter, 0)) for letter, share in source.items()) >= MIN_SHARED_LETTERS

    def split(self, rows: NDArray[np.bool_], folder: Path) -> tuple[ParallelText, ParallelText]:
        """The training text and the dev set that `write_split` makes of the text in a folder."""
        size, paths = int(rows.sum()), [folder / name for name in SPLIT_FILES]
        dev_sample = self.sample[:: max(1, len(self.sample) // size)][:size]
        train = ParallelText((paths[0], paths[1]), len(rows) - size, self.sample, 0)
        return train, ParallelText((paths[2], paths[3]), size, dev_sample, 0)


def read_pairs(files: tuple[Path, Path]) -> Iterator[TextPair]:
    """The pairs of two files, with progress on a terminal."""
    for path in files:
        str(path).encode()  # an error for a name that is not UTF-8, which no config can have
    corpus = PlainTextConfig.of_files(*files)
    check_regular(corpus)
    return (pair.text for pair in tqdm(corpus.pairs(), f"read {files[0].name}", unit=" pairs", disable=None))


def split_rows(files: tuple[Path, Path], size: int) -> NDArray[np.bool_]:
    """The pairs of a dev set, [pairs], at random but always the same, without sentences of others. Raises DataError."""
    lines = (line for pair in read_pairs(files) for line in pair)
    hashes = np.fromiter((hash(line.strip()) for line in lines), np.int64).reshape(-1, 2)
    sides = [np.unique(side, return_inverse=True, return_counts=True)[1:] for side in hashes.T]
    single, num_pairs = np.flatnonzero(np.all([counts[row] == 1 for row, counts in sides], axis=0)), len(hashes)
    if size > min(len(single), num_pairs // 2):
        raise DataError(
            f"{files[0]}: a dev set of {size:,} is too large: at most half of the {plural(num_pairs, 'pair')} can be"
            f" split off, of the {len(single):,} whose sentences no other has; give a smaller ``dev_size``, or files"
            " of a dev set"
        )
    return np.isin(np.arange(num_pairs), np.random.default_rng(1).choice(single, size, replace=False))


def write_split(files: tuple[Path, Path], rows: NDArray[np.bool_], folder: Path) -> None:
    """Write the pairs to `SPLIT_FILES` in a folder, those of `rows` as the dev set."""
    with atomic_dir(folder) as partial, ExitStack() as stack:
        paths = [partial / name for name in SPLIT_FILES]
        streams = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        for pair, is_dev in zip(read_pairs(files), rows, strict=True):
            for line, stream in zip(pair, streams[2:] if is_dev else streams[:2], strict=True):
                print(line, file=stream)


def prepare_sample(
    text: TokenizersConfig, filters: FiltersConfig, train: ParallelText, dev: Sequence[TextPair]
) -> PreparedData:
    """The sample of a text, in memory, with tokenizers that are trained on it. Raises DataError if no pair is left."""
    sources, targets = ([pair[side] for pair in train.sample] for side in (0, 1))
    source, target = text.per_side
    first = source.train(sources + targets if text.is_joint else sources)
    tokenizers = TokenizerPair(first, first if text.is_joint else target.train(targets))
    pair_filter, size = PairFilter(filters), tokenizers.max_vocab_size
    encoded = (EncodedPair(pair, tokenizers.encode(pair)) for pair in train.sample)
    corpus = Corpus.from_pairs((pair.ids for pair in pair_filter.filter(encoded)), size)
    part = TrainingPart.of_corpus(PlainTextConfig.of_files(*train.files), pair_filter.report)
    training_set = TrainingSet(tokenizers, corpus, Path(), (part,))
    dev_corpus = Corpus.from_pairs(map(tokenizers.encode, dev), size)
    dev_sources, dev_targets = zip(*dev, strict=True)
    return PreparedData(*tokenizers, training_set, dev_corpus, dev_sources, (dev_targets,))

"""Parallel text with the lengths and the vocabulary of WMT, of random words: `synthetic FOLDER [PAIRS]`.

Lengths have a mean of 27 tokens and a standard deviation of 15; frequencies of the 32,000 words follow Zipf's law.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

VOCAB_SIZE, MEAN_LENGTH, STD_LENGTH, MAX_LENGTH = 32_000, 27, 15, 150
DEV_PAIRS = 500


def write_corpus(folder: Path, pairs: int) -> None:
    """Write train.de, train.en, dev.de and dev.en; a target has nearly the length of its source."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    shape = (MEAN_LENGTH / STD_LENGTH) ** 2
    source = rng.gamma(shape, MEAN_LENGTH / shape, pairs + DEV_PAIRS)
    for language, lengths in (("de", source), ("en", source * rng.normal(1, 0.1, len(source)))):
        sizes = lengths.round().clip(1, MAX_LENGTH).astype(int)
        frequency = 1 / np.arange(1, VOCAB_SIZE + 1)
        words = rng.choice(VOCAB_SIZE, sizes.sum(), p=frequency / frequency.sum())
        lines = [" ".join(f"w{word}" for word in part) + "\n" for part in np.split(words, sizes.cumsum()[:-1])]
        (folder / f"dev.{language}").write_text("".join(lines[:DEV_PAIRS]), "utf-8")
        (folder / f"train.{language}").write_text("".join(lines[DEV_PAIRS:]), "utf-8")


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40_000)

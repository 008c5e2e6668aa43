"""What a model learns from, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from seq2attn.data.corpus import Corpus
from seq2attn.data.texts import read_texts
from seq2attn.text.tokenizer import Tokenizer

CHUNK = 10_000
"""Pairs cut at random at a time: as many as are held as text."""


@dataclass(frozen=True)
class TrainingData:
    """The training pairs: as ids, and as text for tokenisers that cut it at random."""

    source: Tokenizer
    target: Tokenizer
    corpus: Corpus
    texts: Path

    def epoch(self, seed: int, epoch: int) -> Corpus:
        """The pairs of an epoch, in their order: cut anew if a tokeniser does, by (seed, epoch) alone."""
        if not (self.source.stochastic or self.target.stochastic):
            return self.corpus
        size = max(len(self.source.vocabulary), len(self.target.vocabulary))
        return Corpus.of(self._cut(seed, epoch), size)

    def _cut(self, seed: int, epoch: int) -> Iterator[tuple[list[int], list[int]]]:
        pairs = read_texts(self.texts)
        for chunk in count():
            texts = list(islice(pairs, CHUNK))
            if not texts:
                return
            for_source, for_target = np.random.SeedSequence([seed, epoch, chunk]).generate_state(2).tolist()
            sources = self.source.sample([source for source, _ in texts], for_source)
            targets = self.target.sample([target for _, target in texts], for_target)
            yield from zip(sources, targets, strict=True)

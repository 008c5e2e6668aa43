"""What a model learns from, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from seq2attn.data.corpus import Corpus, Growing, Guide
from seq2attn.data.texts import read_texts
from seq2attn.data.word_numbers import Numbered, sample_numbered
from seq2attn.text.tokenizer import Tokenizer

CHUNK = 10_000
"""Pairs cut at random at a time: as many as are held as text."""
NUMBERS = 2**31
"""The numbers of words are below this."""


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
        ids, words = Growing(max(len(self.source.vocabulary), len(self.target.vocabulary))), Growing(NUMBERS)
        for source, target in self._cut(seed, epoch):
            ids.add((source[0], target[0]))
            words.add((source[1], target[1]))
        guide = self.corpus.guide
        return ids.corpus(guide and Guide(words.corpus(), guide.links))

    def _cut(self, seed: int, epoch: int) -> Iterator[tuple[Numbered, Numbered]]:
        pairs = read_texts(self.texts)
        for chunk in count():
            texts = list(islice(pairs, CHUNK))
            if not texts:
                return
            for_source, for_target = np.random.SeedSequence([seed, epoch, chunk]).generate_state(2).tolist()
            sources = self._sample(self.source, [source for source, _ in texts], for_source)
            targets = self._sample(self.target, [target for _, target in texts], for_target)
            yield from zip(sources, targets, strict=True)

    def _sample(self, tokenizer: Tokenizer, lines: list[str], seed: int) -> list[Numbered]:
        """The words of the ids are told where links need them."""
        if self.corpus.guide is None:
            return [(ids, []) for ids in tokenizer.sample(lines, seed)]
        return sample_numbered(tokenizer, lines, seed)

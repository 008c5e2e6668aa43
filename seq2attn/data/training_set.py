"""What a model learns from, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from seq2attn.data.batch_planner import Indices
from seq2attn.data.corpus import Corpus, CorpusAlignments, CorpusBuilder
from seq2attn.data.filter import FilterReport
from seq2attn.data.text_store import read_text_pairs
from seq2attn.data.word_ids import number_pair
from seq2attn.tokenizers.base import Tokenizer

CHUNK = 10_000
"""Pairs cut at random at a time: as many as are held as text."""
MAX_WORD_ID = 2**31
"""The numbers of words are below this."""


@dataclass(frozen=True)
class TrainingPart:
    """A training corpus among several: the pairs that filters kept of it, and how often an epoch has each."""

    report: FilterReport
    repeat: float = 1

    @property
    def num_pairs_per_epoch(self) -> int:
        """The pairs of an epoch that are of this corpus."""
        return int(self.repeat) * self.report.num_kept + self._num_drawn

    @property
    def _num_drawn(self) -> int:
        return round(self.repeat % 1 * self.report.num_kept)

    def counts(self, random: np.random.Generator) -> Indices:
        """How often an epoch has each pair, [pairs]: `repeat` rounded down, and once more for some that are drawn."""
        counts = np.full(self.report.num_kept, int(self.repeat))
        counts[random.choice(len(counts), self._num_drawn, replace=False)] += 1
        return counts


@dataclass(frozen=True)
class TrainingSet:
    """The training pairs: as ids, and as text for tokenizers that cut it at random."""

    source: Tokenizer
    target: Tokenizer
    corpus: Corpus  # the pairs of all parts, one part after the other
    text_path: Path
    parts: tuple[TrainingPart, ...]

    def rows(self, seed: int, epoch: int) -> Indices:
        """The pairs of an epoch as rows of the corpus, ascending, by (seed, epoch) alone."""
        counts = [
            part.counts(np.random.default_rng([seed, epoch, number, len(self.parts)]))
            for number, part in enumerate(self.parts)
        ]
        return np.repeat(np.arange(len(self.corpus)), np.concatenate(counts))

    def epoch_corpus(self, seed: int, epoch: int) -> Corpus:
        """The corpus for an epoch: cut anew if a tokenizer does, by (seed, epoch) alone."""
        if not (self.source.is_stochastic or self.target.is_stochastic):
            return self.corpus
        ids, words = (
            CorpusBuilder(max(len(self.source.vocabulary), len(self.target.vocabulary))),
            CorpusBuilder(MAX_WORD_ID),
        )
        guide = self.corpus.alignments
        for row, (texts, (source, target)) in enumerate(self._cut(seed, epoch)):
            ids.add((source, target))
            if guide is not None:
                has_links = len(guide.links[row][0]) > 0
                sides = self.source, self.target
                words.add(number_pair(sides, texts, (source, target)) if has_links else ((), ()))
        return ids.build(guide and CorpusAlignments(words.build(), guide.links))

    def _cut(self, seed: int, epoch: int) -> Iterator[tuple[tuple[str, str], tuple[list[int], list[int]]]]:
        pairs = read_text_pairs(self.text_path)
        for chunk in count():
            texts = list(islice(pairs, CHUNK))
            if not texts:
                return
            for_source, for_target = np.random.SeedSequence([seed, epoch, chunk]).generate_state(2).tolist()
            sources = self.source.sample([source for source, _ in texts], for_source)
            targets = self.target.sample([target for _, target in texts], for_target)
            yield from zip(texts, zip(sources, targets, strict=True), strict=True)

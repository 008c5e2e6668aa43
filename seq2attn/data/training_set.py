"""The training pairs of each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np

from seq2attn.data.batch_planner import Indices
from seq2attn.data.corpus import Corpus, CorpusAlignments, CorpusBuilder, TextPair, read_text_pairs
from seq2attn.data.filter import FilterReport
from seq2attn.data.readers import CorpusConfig, Repeat
from seq2attn.data.word_alignment import pair_word_ids
from seq2attn.errors import DataError
from seq2attn.tokenizers.base import TokenizerPair

MAX_FILTERED_SHARE = 0.1
"""Share of the pairs of a training corpus above which their filtering is a warning."""
CHUNK = 10_000
"""Number of pairs that are segmented at random at a time, and whose text is in memory."""


@dataclass(frozen=True)
class TrainingPart:
    """One of the training corpora: the pairs that filters kept, and how often each is in an epoch."""

    report: FilterReport
    repeat: Repeat = 1

    @classmethod
    def of_corpus(cls, corpus: CorpusConfig, report: FilterReport) -> TrainingPart:
        """The part of a corpus. Raises DataError for one without a pair in an epoch."""
        part = cls(report, corpus.repeat)
        if not report.num_kept:
            raise DataError(f"{corpus.files[0]}: no pair is left to train on: {report}; see `data.filters`")
        if not part.num_pairs_per_epoch:
            raise DataError(
                f"{corpus.files[0]}: {report}, and `repeat: {corpus.repeat:g}` of these is less than one pair"
            )
        return part

    def describe(self, name: str, parts: Sequence[TrainingPart]) -> str:
        """The counts of filters; of one of several `parts` also its share of an epoch."""
        line = f"{name}: {self.report}"
        if len(parts) > 1:
            share = self.num_pairs_per_epoch / sum(part.num_pairs_per_epoch for part in parts)
            line += f"; each {self.repeat:g} times an epoch, {share:.1%} of its pairs"
        has_few = self.report.num_kept < (1 - MAX_FILTERED_SHARE) * self.report.num_read
        return f"warning: {line}" if has_few else line

    @property
    def num_pairs_per_epoch(self) -> int:
        """Number of pairs from this corpus in an epoch."""
        return int(self.repeat) * self.report.num_kept + self._num_sampled

    @property
    def _num_sampled(self) -> int:
        return round(self.repeat % 1 * self.report.num_kept)

    def counts(self, random: np.random.Generator) -> Indices:
        """Copies of each pair in an epoch, [pairs]: `repeat` rounded down, plus 1 for a random sample."""
        counts = np.full(self.report.num_kept, int(self.repeat))
        counts[random.choice(len(counts), self._num_sampled, replace=False)] += 1
        return counts


@dataclass(frozen=True)
class TrainingSet:
    """The training pairs: as ids, and as text for tokenizers with random segmentation."""

    tokenizers: TokenizerPair
    corpus: Corpus  # the pairs of all parts in their order
    text_path: Path
    parts: tuple[TrainingPart, ...]

    def rows(self, seed: int, epoch: int) -> Indices:
        """The pairs of an epoch as rows of the corpus, ascending: a function of seed and epoch alone."""
        counts = [
            part.counts(np.random.default_rng([seed, epoch, number, len(self.parts)]))
            for number, part in enumerate(self.parts)
        ]
        return np.repeat(np.arange(len(self.corpus)), np.concatenate(counts))

    def epoch_corpus(self, seed: int, epoch: int) -> Corpus:
        """The corpus of an epoch, segmented at random if a tokenizer is stochastic, by seed and epoch alone."""
        if not any(tokenizer.is_stochastic for tokenizer in self.tokenizers):
            return self.corpus
        ids = CorpusBuilder(self.tokenizers.max_vocab_size)
        word_ids, alignments = CorpusBuilder(), self.corpus.alignments
        for row, (text, pair) in enumerate(self._sample(seed, epoch)):
            ids.add(pair)
            if alignments is not None:
                has_links = len(alignments.links[row][0]) > 0
                word_ids.add(pair_word_ids(self.tokenizers, text, pair) if has_links else ((), ()))
        return ids.build(alignments and CorpusAlignments(word_ids.build(), alignments.links))

    def _sample(self, seed: int, epoch: int) -> Iterator[tuple[TextPair, tuple[list[int], list[int]]]]:
        pairs = read_text_pairs(self.text_path)
        for chunk in count():
            texts = list(islice(pairs, CHUNK))
            if not texts:
                return
            source_seed, target_seed = np.random.SeedSequence([seed, epoch, chunk]).generate_state(2).tolist()
            sources = self.tokenizers.source.sample([source for source, _ in texts], source_seed)
            targets = self.tokenizers.target.sample([target for _, target in texts], target_seed)
            yield from zip(texts, zip(sources, targets, strict=True), strict=True)

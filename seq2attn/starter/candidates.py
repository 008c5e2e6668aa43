"""The models that `seq2attn init` chooses from, the rows of candidates.yaml, and what each reaches within a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from tqdm import tqdm

from seq2attn.data.corpus import Corpus, TextPair
from seq2attn.data.filter import EncodedPair, PairFilter
from seq2attn.data.prepared_data import PreparedData
from seq2attn.data.training_set import TrainingPart, TrainingSet
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.tables import format_table
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device, count_parameters
from seq2attn.nn.device import configure_cuda
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.plan import Speed, num_validations
from seq2attn.training.speed import measure_speed

BFLOAT16_SPEED = 1.4
"""Speed of training by that in float32, on a processor with instructions for bfloat16 (docs/speedrun.md)."""
MAX_TRIED = 4
REPEATS = 15.4
"""Decay of the value of repeated text, in epochs: R* of Muennighoff et al. 2023."""


@dataclass(frozen=True)
class Candidate:
    """A model with the training that suits it, and what was measured of it."""

    name: str
    shape: str  # which determines the speed: all but dropout and learning rate
    about: str
    from_tokens: float  # millions of useful tokens, from which the model is better than those with less
    speed: Mapping[str, float]  # target tokens per second on `cpu` and `cuda`
    bleu: Mapping[float, float]  # by epochs of the corpus of the curves
    model: Mapping[str, Any]
    training: Mapping[str, Any]


@dataclass(frozen=True)
class Candidates:
    """All rows, with the corpus of their curves and the sizes of vocabularies."""

    corpus: str
    tokens_per_epoch: float  # of that corpus, in millions
    vocabulary: Mapping[float, int]  # entries for corpora up to a number of pairs, in ascending order
    rows: Sequence[Candidate]

    @classmethod
    def load(cls) -> Candidates:
        """The rows of the package."""
        table = yaml.safe_load(files("seq2attn.starter").joinpath("candidates.yaml").read_text(encoding="utf-8"))
        return cls(**table["curves"], vocabulary=table["vocabulary"], rows=[Candidate(**row) for row in table["rows"]])


def useful_tokens(per_epoch: float, epochs: float) -> float:
    """Tokens of new text that are worth as much as `epochs` of a text with `per_epoch` (Muennighoff et al. 2023)."""
    return per_epoch * (min(epochs, 1) + REPEATS * -math.expm1(-max(epochs - 1, 0) / REPEATS))


@dataclass(frozen=True)
class Estimate:
    """A candidate's training within a time."""

    candidate: Candidate
    speed: float  # target tokens per second
    epochs: float
    tokens: float  # useful ones, in millions
    bleu: float | None  # to expect, on the corpus of the curves; None where it is not measured
    is_busy: bool  # something else used the machine

    @property
    def rank(self) -> tuple[float, float, float]:
        """The order of estimates: the model for so many tokens, with the best BLEU; of equal ones, the fastest."""
        is_suitable = self.tokens >= self.candidate.from_tokens  # BLEU is rounded: seeds differ by as much
        return self.candidate.from_tokens if is_suitable else -1, round(self.bleu or 0), self.epochs


@dataclass(frozen=True)
class CandidateTrial:
    """Candidates for a text, of which a sample is prepared, and the seconds of a training."""

    candidates: Candidates
    experiment: Callable[[Candidate], ExperimentConfig]
    prepared: PreparedData
    num_pairs: int
    device: torch.device
    seconds: float

    @property
    def tokens_per_epoch(self) -> float:
        """Target tokens of the text, with EOS."""
        train = self.prepared.train
        return float((train.corpus.lengths[:, 1] + 1).sum()) / train.parts[0].report.num_read * self.num_pairs

    def by_table(self) -> list[Estimate]:
        """All candidates at the speed of the table, the best first."""
        rows, scale = self.candidates.rows, 1.0
        if self.device.type == "cpu":
            is_bfloat16 = self.experiment(rows[0]).training.precision == "bfloat16"
            scale = math.sqrt(torch.get_num_threads() / 2) * (BFLOAT16_SPEED if is_bfloat16 else 1)
        return self._estimates({row.shape: Speed(0, scale * row.speed[self.device.type], 0) for row in rows})

    def measured(self, seconds: float) -> list[Estimate]:
        """Those of the first shapes of the table at the speed that is measured in some seconds, the best first."""
        configure_cuda(self.device, tf32=True)
        context, speeds = DistributedContext(0, 1, self.device), dict[str, Speed]()
        rows = {estimate.candidate.shape: estimate.candidate for estimate in self.by_table()}  # the last of each shape
        for row in tqdm([*rows.values()][:MAX_TRIED], "try models", unit=" models", disable=None):
            speeds[row.shape] = measure_speed(self.experiment(row), self.prepared, context, seconds / MAX_TRIED)
        return self._estimates(speeds)

    def _estimates(self, speeds: Mapping[str, Speed]) -> list[Estimate]:
        estimates = (self._estimate(row, speeds[row.shape]) for row in self.candidates.rows if row.shape in speeds)
        return sorted(estimates, key=lambda estimate: estimate.rank, reverse=True)

    def _estimate(self, candidate: Candidate, speed: Speed) -> Estimate:
        left = max(0.0, self.seconds - num_validations(self.seconds, speed) * speed.seconds_per_validation)
        epochs = speed.target_tokens_per_second * left / self.tokens_per_epoch
        tokens = useful_tokens(self.tokens_per_epoch / 1e6, epochs)
        curve = {useful_tokens(self.candidates.tokens_per_epoch, n): bleu for n, bleu in candidate.bleu.items()}
        is_measured = tokens >= min(curve, default=math.inf)
        bleu = float(np.interp(math.log(tokens), np.log([*curve]), [*curve.values()])) if is_measured else None
        return Estimate(candidate, speed.target_tokens_per_second, epochs, tokens, bleu, speed.is_busy)

    def table(self, estimates: Sequence[Estimate]) -> str:
        """The estimates as rows."""
        rows = [("model", "parameters", "target tokens/s", "epochs", "BLEU*")]
        for one in estimates:
            experiment = self.experiment(one.candidate)
            model = build_on_meta_device(experiment.model, *assumed_vocab_sizes(experiment.tokenizer))
            numbers = f"{count_parameters(model):,}", f"{one.speed:,.0f}", f"{one.epochs:,.1f}"
            rows.append((one.candidate.name, *numbers, "-" if one.bleu is None else f"{one.bleu:.0f}"))
        return format_table(rows)


def prepare_sample(experiment: ExperimentConfig, train: Sequence[TextPair], dev: Sequence[TextPair]) -> PreparedData:
    """Prepared text in memory, with tokenizers that are trained on it. Raises DataError if no pair can be used."""
    sources, targets = ([pair[side] for pair in train] for side in (0, 1))
    (source, target), is_joint = experiment.tokenizer.per_side, experiment.tokenizer.is_joint
    first = source.train(sources + targets if is_joint else sources)
    tokenizers = TokenizerPair(first, first if is_joint else target.train(targets))

    def encode(pair: TextPair) -> EncodedPair:
        return EncodedPair(pair, (tokenizers.source.encode(pair[0]), tokenizers.target.encode(pair[1])))

    pair_filter, size = PairFilter(experiment.data.filters), tokenizers.max_vocab_size
    corpus = Corpus.from_pairs((pair.ids for pair in pair_filter.filter(map(encode, train))), size)
    part = TrainingPart.of_corpus(experiment.data.train[0], pair_filter.report)
    dev_corpus = Corpus.from_pairs((encode(pair).ids for pair in dev), size)
    dev_sources, dev_targets = zip(*dev, strict=True)
    training_set = TrainingSet(tokenizers, corpus, Path(), (part,))
    return PreparedData(*tokenizers, training_set, dev_corpus, dev_sources, (dev_targets,))

"""The models that `seq2attn init` chooses from, the rows of candidates.yaml, and what each reaches within a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from seq2attn.starter.parallel_text import ParallelText
from seq2attn.training.plan import Speed, num_validations

ENTRIES_PER_CHARACTER, OTHER_ENTRIES = 2, 500
"""Minimum size of a vocabulary: each character of the text is an entry, and subwords need as many again."""
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
class Estimate:
    """A candidate's training within a time."""

    candidate: Candidate
    speed: Speed
    epochs: float
    tokens: float  # useful ones, in millions
    bleu: float | None  # to expect, on the corpus of the curves; None where it is not measured

    @property
    def rank(self) -> tuple[float, float, float]:
        """The order of estimates: the model for so many tokens, with the best BLEU; of equal ones, the fastest."""
        is_suitable = self.tokens >= self.candidate.from_tokens  # BLEU is rounded: seeds differ by as much
        return self.candidate.from_tokens if is_suitable else -1, round(self.bleu or 0), self.epochs


def useful_tokens(per_epoch: float, epochs: float) -> float:
    """Tokens of new text that are worth as much as `epochs` of a text with `per_epoch` (Muennighoff et al. 2023)."""
    return per_epoch * (min(epochs, 1) + REPEATS * -math.expm1(-max(epochs - 1, 0) / REPEATS))


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

    def tokenizers(self, text: ParallelText) -> dict[str, Any]:
        """The section `tokenizer`: a vocabulary for both languages, or one for each if they share no letters."""
        by_pairs = next(size for limit, size in self.vocabulary.items() if text.num_pairs <= limit)
        source, target = text.characters
        sides = {"joint": source | target} if text.has_one_script else {"source": source, "target": target}
        least = {side: ENTRIES_PER_CHARACTER * len(characters) + OTHER_ENTRIES for side, characters in sides.items()}
        return {side: {"kind": "bpe", "vocab_size": max(by_pairs, size)} for side, size in least.items()}

    def estimates(self, speeds: Mapping[str, Speed], tokens_per_epoch: float, seconds: float) -> list[Estimate]:
        """The trainings of the shapes with known speeds, on a text with so many tokens, the best first."""

        def estimate(row: Candidate, speed: Speed) -> Estimate:
            left = max(0.0, seconds - num_validations(seconds, speed) * speed.seconds_per_validation)
            epochs = speed.target_tokens_per_second * left / tokens_per_epoch
            tokens = useful_tokens(tokens_per_epoch / 1e6, epochs)
            curve = {useful_tokens(self.tokens_per_epoch, n): bleu for n, bleu in row.bleu.items()}
            is_measured = tokens >= min(curve, default=math.inf)
            bleu = float(np.interp(math.log(tokens), np.log([*curve]), [*curve.values()])) if is_measured else None
            return Estimate(row, speed, epochs, tokens, bleu)

        known = (estimate(row, speeds[row.shape]) for row in self.rows if row.shape in speeds)
        return sorted(known, key=lambda one: one.rank, reverse=True)

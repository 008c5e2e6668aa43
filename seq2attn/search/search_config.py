"""The search section of a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from seq2attn.config.base import Config, FieldError
from seq2attn.errors import UserError
from seq2attn.options import LongInputs
from seq2attn.search.constraints import LengthLimits
from seq2attn.search.search import LengthPenalty
from seq2attn.search.strategies import BeamSearch, DiverseBeamSearch, GreedySearch, Sampling, SearchStrategy

MAX_BEAM_SIZE, MAX_LENGTH, MAX_LENGTH_RATIO = 1000, 2**16, 1000
"""Largest beam size, length and ratio of lengths that a config may have."""
MIN_AUTO_RATIO = 3.0
"""Smallest automatic `max_length_ratio`, and that of text that is not known."""
EXTRA_TOKENS = 10
"""Tokens that the maximum ratio of lengths allows for any source."""

NgramSize: TypeAlias = Annotated[
    PositiveInt | None,
    Field(description="No n-gram of this many tokens occurs twice in a translation; none: no limit."),
]


class LengthsConfig(Config):
    """Length limits of translations, in tokens, and the length penalty."""

    length_penalty: Literal["none", "average", "gnmt"] = "average"
    """none: by log-probability; average: per token; gnmt: the penalty of Wu et al. 2016, eq. 14."""
    alpha: float = Field(1.0, ge=0, le=10)
    """The exponent of the length or of the penalty."""
    min_length: NonNegativeInt = 0
    """Minimum tokens of a translation."""
    max_length: int = Field(256, ge=1, le=MAX_LENGTH)
    """Maximum tokens of a translation. Default: that of targets in `data.filters`, from 256 to 1024."""
    min_length_ratio: float = Field(0.0, ge=0, le=MAX_LENGTH_RATIO)
    """Minimum tokens of a translation for each token of the source."""
    max_length_ratio: Annotated[float, Field(gt=0, le=MAX_LENGTH_RATIO)] | Literal["auto"] | None = "auto"
    """Maximum tokens of a translation for each token of the source; 10 are added. auto: 3, or the ratio that 99.9 % of
    the training pairs need, up to twice their mean ratio; none: no limit by the source."""
    long_inputs: LongInputs = "split"
    """Lines with too many tokens: translated sentence by sentence, or their beginning alone."""
    source_language: str = Field("en", pattern="^[a-z]{2,3}$")
    """ISO 639 code of the source language: its abbreviations do not end a sentence when a line is split."""
    max_source_length: PositiveInt | None = None
    """Maximum tokens of a source line; longer ones are split or truncated. none: `data.filters.max_length` of the
    training, or the positions of the model if these are fewer. An engine may have a lower limit."""

    def check_fields(self) -> Iterator[FieldError]:
        """Errors of minima above their maxima."""
        if self.min_length > self.max_length:
            yield FieldError("min_length", f"more than max_length, which is {self.max_length}")
        if self.max_ratio is not None and self.min_length_ratio > self.max_ratio:
            yield FieldError("min_length_ratio", f"more than max_length_ratio, which is {self.max_ratio}")

    @property
    def max_ratio(self) -> float | None:
        """The maximum ratio as a number; None without a limit."""
        return MIN_AUTO_RATIO if self.max_length_ratio == "auto" else self.max_length_ratio

    def build_penalty(self) -> LengthPenalty:
        """The length penalty."""
        return LengthPenalty(self.length_penalty, self.alpha)

    def limits(self, source: Tensor) -> LengthLimits:
        """Limits including EOS, for sources of `source` [B] tokens without EOS."""

        def tokens(ratio: float) -> Tensor:
            return (source.double() * ratio).round(decimals=6)  # 25 * 0.6 is 15

        longest = torch.full_like(source, self.max_length)
        if self.max_ratio is not None:
            longest = longest.minimum((tokens(self.max_ratio) + EXTRA_TOKENS).long())
        shortest = tokens(self.min_length_ratio).ceil().long().clamp(min=self.min_length).minimum(longest)
        return LengthLimits(shortest + 1, longest + 1)


class GreedyConfig(Config):
    """The most likely token at every step."""

    kind: Literal["greedy"] = "greedy"
    no_repeat_ngram_size: NgramSize = None
    lengths: LengthsConfig = LengthsConfig()
    num_hypotheses: ClassVar[int] = 1
    mbr: ClassVar[bool] = False
    coverage_penalty: ClassVar[float] = 0.0

    def build(self, device: torch.device) -> SearchStrategy:
        """The search strategy."""
        return GreedySearch()


class BeamConfig(Config):
    """Beam search."""

    kind: Literal["beam"] = "beam"
    beam_size: int = Field(5, ge=1, le=MAX_BEAM_SIZE)
    """Hypotheses that are kept at each step."""
    patience: float | None = Field(2.0, ge=1)
    """The search for a sentence ends when `patience` times `beam_size` hypotheses are finished (Kasai et al. 2022), or
    when no other can become better than the finished ones; none: only the latter."""
    no_repeat_ngram_size: NgramSize = None
    coverage_penalty: float = Field(0.0, ge=0, le=10)
    """The weight of the coverage penalty (Wu et al. 2016, eq. 14), for finished hypotheses that leave source words
    without attention; 0: no penalty. The attention is the mean of the heads of the top layer."""
    num_beam_groups: PositiveInt = 1
    """Groups of equal size that the hypotheses are divided into (diverse beam search, Vijayakumar et al. 2016)."""
    diversity_penalty: float = Field(0.5, ge=0, le=1000)
    """Subtracted from the log-probability of a token for each hypothesis of an earlier group that takes it at the same
    step."""
    mbr: bool = False
    """Minimum Bayes risk decoding: the hypothesis with the highest expected chrF, by the probabilities of the others
    (Kumar & Byrne 2004)."""
    lengths: LengthsConfig = LengthsConfig()

    def check_fields(self) -> list[FieldError]:
        """The error of groups of different sizes."""
        message = f"has to divide `beam_size`, which is {self.beam_size}"
        return [FieldError("num_beam_groups", message)] if self.beam_size % self.num_beam_groups else []

    @property
    def num_hypotheses(self) -> int:
        """Number of hypotheses per sentence."""
        return self.beam_size

    def build(self, device: torch.device) -> SearchStrategy:
        """The search strategy."""
        groups = self.num_beam_groups
        if groups == 1:
            return BeamSearch(self.beam_size, self.patience)
        return DiverseBeamSearch(self.beam_size // groups, self.patience, groups, self.diversity_penalty)


class SampleConfig(Config):
    """Ancestral sampling."""

    kind: Literal["sample"] = "sample"
    num_samples: int = Field(1, ge=1, le=MAX_BEAM_SIZE)
    """Number of samples per sentence."""
    temperature: float = Field(1.0, ge=1e-4, le=1e4)
    """Divisor of the logits, before `top_k` and `top_p`: below 1 sharper, above 1 flatter."""
    top_k: PositiveInt | None = None
    """Sample from the k most likely tokens."""
    top_p: float = Field(1.0, ge=1e-6, le=1)
    """Sample from the smallest set of tokens that has this share of the probability (Holtzman et al. 2020)."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Seed of the samples, which also depend on the lines that are translated together."""
    no_repeat_ngram_size: NgramSize = None
    coverage_penalty: ClassVar[float] = 0.0
    mbr: bool = False
    """Minimum Bayes risk decoding: the sample with the highest mean chrF against all samples (Eikema & Aziz 2022)."""
    lengths: LengthsConfig = LengthsConfig()

    @property
    def num_hypotheses(self) -> int:
        """Number of hypotheses per sentence."""
        return self.num_samples

    def build(self, device: torch.device) -> SearchStrategy:
        """The search strategy, with a seeded generator."""
        generator = torch.Generator(device).manual_seed(self.seed)
        return Sampling(self.num_samples, self.temperature, self.top_k, self.top_p, generator)

    def for_lines_after(self, num_lines: int) -> SampleConfig:
        """The same search with another seed, so that samples of equal lines in later parts of a text differ."""
        if not num_lines:
            return self
        (seed,) = np.random.SeedSequence((self.seed, num_lines)).generate_state(1, np.uint64)
        return self.model_copy(update={"seed": int(seed) >> 1})


SearchConfig = Annotated[GreedyConfig | BeamConfig | SampleConfig, Field(discriminator="kind")]


def greedy_search(search: SearchConfig) -> GreedyConfig:
    """Greedy search with the settings of `search` that all kinds have."""
    return GreedyConfig(lengths=search.lengths, no_repeat_ngram_size=search.no_repeat_ngram_size)


def beam_search(search: SearchConfig, beam: int) -> BeamConfig:
    """Beam search with `beam` hypotheses, and the settings of `search` that it has.

    Raises UserError for a beam of another size than configs may have, or that its groups do not divide.
    """
    if not 1 <= beam <= MAX_BEAM_SIZE:
        raise UserError(f"a beam has 1 to {MAX_BEAM_SIZE:,} hypotheses, not {beam:,}")
    if not isinstance(search, BeamConfig):
        return BeamConfig(beam_size=beam, lengths=search.lengths, no_repeat_ngram_size=search.no_repeat_ngram_size)
    if beam % search.num_beam_groups:
        key = f"`search.num_beam_groups`, {search.num_beam_groups}"
        raise UserError(f"``beam={beam}``: {key}, has to divide `beam_size`, which is {beam}")
    return search.model_copy(update={"beam_size": beam})


def mbr_sampling(search: SearchConfig, num_samples: int) -> SampleConfig:
    """Minimum Bayes risk decoding with this number of samples, and the settings of `search` that it has.

    Raises UserError for another number of samples than configs may have.
    """
    if not 1 <= num_samples <= MAX_BEAM_SIZE:
        raise UserError(f"``mbr`` takes 1 to {MAX_BEAM_SIZE:,} samples, not {num_samples:,}")
    if not isinstance(search, SampleConfig):
        search = SampleConfig(lengths=search.lengths, no_repeat_ngram_size=search.no_repeat_ngram_size)
    return search.model_copy(update={"num_samples": num_samples, "mbr": True})


def check_num_hypotheses(search: SearchConfig, count: int) -> None:
    """Raises UserError when a search has fewer than `count` hypotheses for a line, and unless `count` is positive."""
    if count < 1:
        raise UserError(f"each line has at least 1 translation, not {count}")
    if count > search.num_hypotheses:
        fix = f"``beam={count}``"
        if isinstance(search, SampleConfig):
            fix = f"``mbr={count}``" if search.mbr else f"``overrides=search.num_samples={count}``"
        raise UserError(f"this search finds {search.num_hypotheses} of {count} translations of a line; give {fix}")

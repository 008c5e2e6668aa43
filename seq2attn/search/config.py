"""The search section of a config, and options of one call merged into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor

from seq2attn.config.base import Config, FieldError, FieldErrors
from seq2attn.errors import UserError
from seq2attn.search.length_penalty import LengthLimits, LengthPenalty
from seq2attn.search.strategies import BeamSearch, GreedySearch, Sampling, SearchStrategy

MAX_BEAM_SIZE, MAX_LENGTH = 1000, 2**16
"""Up to which width and length there is a search: for more there is no memory, or no number."""

LongInputs: TypeAlias = Literal["split", "truncate"]
"""Treatment of a source line with too many tokens."""


class LengthsConfig(Config):
    """How long translations may be, counted in tokens, and how lengths are compared."""

    length_penalty: Literal["none", "average", "gnmt"] = "average"
    """none: by log-probability; average: per token; gnmt: the penalty of Wu et al. 2016, eq. 14."""
    alpha: float = Field(1.0, ge=0, le=10)
    """The exponent of the length or of the penalty."""
    min_length: NonNegativeInt = 0
    """Fewest tokens of a translation."""
    max_length: int = Field(256, ge=1, le=MAX_LENGTH)
    """Most tokens of a translation."""
    min_length_ratio: NonNegativeFloat = 0.0
    """Fewest tokens of a translation for each token of the source."""
    max_length_ratio: float = Field(3.0, gt=0, le=1000)
    """Most tokens of a translation for each token of the source, above the 10 that any source is granted."""
    long_inputs: LongInputs = "split"
    """Lines with too many tokens: translated sentence by sentence, or their beginning alone."""
    source_language: str = Field("en", pattern="^[a-z]{2,3}$")
    """ISO 639 code of the source, for the abbreviations that end no sentence when a line is split."""
    max_source_length: PositiveInt | None = None
    """Most tokens of a line that is not too long; none: as many as `data.filters.max_length` let the model learn from,
    or fewer where it has positions for fewer. An engine may take fewer still."""

    @model_validator(mode="after")
    def _ordered(self) -> LengthsConfig:
        wrong = []
        if self.min_length > self.max_length:
            wrong.append(FieldError("min_length", f"more than max_length, which is {self.max_length}"))
        if self.min_length_ratio > self.max_length_ratio:
            wrong.append(
                FieldError("min_length_ratio", f"more than max_length_ratio, which is {self.max_length_ratio}")
            )
        if wrong:
            raise FieldErrors(wrong)
        return self

    def build_penalty(self) -> LengthPenalty:
        """How log-probabilities become scores."""
        return LengthPenalty(self.length_penalty, self.alpha)

    def limits(self, source: Tensor) -> LengthLimits:
        """Limits, the end counted, for sources of `source` [B] tokens, their end not counted."""
        most = (source * self.max_length_ratio + 10).long().clamp(max=self.max_length)
        fewest = torch.minimum((source * self.min_length_ratio).ceil().long().clamp(min=self.min_length), most)
        return LengthLimits(fewest + 1, most + 1)


class GreedyConfig(Config):
    """The likeliest word at every step."""

    kind: Literal["greedy"]
    lengths: LengthsConfig = LengthsConfig()

    def build(self, device: torch.device) -> SearchStrategy:
        """The choice inside the search."""
        return GreedySearch()


class BeamConfig(Config):
    """Beam search."""

    kind: Literal["beam"]
    beam_size: int = Field(5, ge=1, le=MAX_BEAM_SIZE)
    """Hypotheses that are kept at each step."""
    patience: float | None = Field(2.0, ge=1)
    """The search for a sentence ends when so many times the width are finished (Kasai et al. 2022), or when none can be
    better than those that are; none: only then."""
    lengths: LengthsConfig = LengthsConfig()

    def build(self, device: torch.device) -> SearchStrategy:
        """The choice inside the search."""
        return BeamSearch(self.beam_size, self.patience)


class SampleConfig(Config):
    """Ancestral sampling."""

    kind: Literal["sample"]
    num_samples: int = Field(1, ge=1, le=MAX_BEAM_SIZE)
    """How many samples of each sentence."""
    temperature: float = Field(1.0, ge=1e-4, le=1e4)
    """Divisor of the logits: below 1 sharper, above 1 flatter."""
    top_k: PositiveInt | None = None
    """Draw from so many of the likeliest words."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Draw from the fewest words that hold this share of the probability (Holtzman et al. 2020)."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Seed of the samples."""
    lengths: LengthsConfig = LengthsConfig()

    def build(self, device: torch.device) -> SearchStrategy:
        """The choice inside the search, seeded."""
        generator = torch.Generator(device).manual_seed(self.seed)
        return Sampling(self.num_samples, self.temperature, self.top_k, self.top_p, generator)


SearchConfig = Annotated[GreedyConfig | BeamConfig | SampleConfig, Field(discriminator="kind")]


LARGEST = 2**16
"""Tokens that a search may keep for a sentence, over all hypotheses, without the user having asked for it."""


def resolve_search(
    search: SearchConfig, *, beam: int | None, greedy: bool, long_inputs: LongInputs | None = None
) -> SearchConfig:
    """The search asked for, else `search`; the limits and the normalization of lengths stay, and a beam's patience.

    Raises UserError when both a beam and greedy search are asked for.
    """
    if greedy and beam is not None:
        raise UserError("--greedy and --beam exclude each other")
    if long_inputs is not None:
        lengths = search.lengths.model_copy(update={"long_inputs": long_inputs})
        search = search.model_copy(update={"lengths": lengths})
    if greedy:
        return GreedyConfig(kind="greedy", lengths=search.lengths)
    if isinstance(search, BeamConfig) and beam is not None:
        return search.model_copy(update={"beam_size": beam})
    return search if beam is None else BeamConfig(kind="beam", beam_size=beam, lengths=search.lengths)


def num_hypotheses(search: SearchConfig) -> int:
    """Number of hypotheses that a search keeps for each sentence."""
    match search:
        case BeamConfig():
            return search.beam_size
        case SampleConfig():
            return search.num_samples
        case GreedyConfig():
            return 1


def check_num_hypotheses(search: SearchConfig, count: int) -> None:
    """Raises UserError when a search finds fewer than `count` translations of a line."""
    found = num_hypotheses(search)
    if count > found:
        raise UserError(
            f"{count} translations of a line need a search at least as wide; this one finds {found} (--beam {count},"
            f" in Python beam_size={count})"
        )


def check_size(search: SearchConfig, config: Path, asked: Sequence[str]) -> None:
    """Refuse a search that a run's `config` makes larger than any machine has time and memory for.

    What was `asked` for by the user, as `--set search.beam_size=500`, is not refused. Raises: UserError.
    """
    width, longest = num_hypotheses(search), search.lengths.max_length
    key = "num_samples" if isinstance(search, SampleConfig) else "beam_size"
    if width * longest > LARGEST and not any(override.startswith("search") for override in asked):
        raise UserError(
            f"{config}: its `search` follows {width:,} hypotheses of up to {longest:,} tokens, which may take hours and"
            f" all memory; give another (--set search.{key}=5), or say that you mean it (--set search.{key}={width})"
        )

"""Options of one call, laid over the search of a config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2attn.errors import UserError
from seq2attn.search.config import BeamConfig, GreedyConfig, LongInputs, SampleConfig, SearchConfig

LARGEST = 2**16
"""Tokens that a search may keep for a sentence, over all hypotheses, without the user having asked for it."""


def resolve_search(
    search: SearchConfig, *, beam: int | None, greedy: bool, long_inputs: LongInputs | None = None
) -> SearchConfig:
    """The search asked for, else `search`; the limits and the normalisation of lengths stay, and a beam's patience.

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

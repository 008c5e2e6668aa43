"""Options of one call, laid over the search of a config."""

from __future__ import annotations

from seq2attn.errors import UserError
from seq2attn.search.config import BeamConfig, GreedyConfig, Long, SampleConfig, SearchConfig


def chosen_search(
    search: SearchConfig, *, beam: int | None, greedy: bool, long: Long | None = None
) -> SearchConfig:
    """The search asked for, else `search`; the limits and the normalisation of lengths stay, and a beam's patience.

    Raises UserError when both a beam and greedy search are asked for.
    """
    if greedy and beam is not None:
        raise UserError("--greedy and --beam exclude each other")
    if long is not None:
        lengths = search.lengths.model_copy(update={"long": long})
        search = search.model_copy(update={"lengths": lengths})
    if greedy:
        return GreedyConfig(kind="greedy", lengths=search.lengths)
    if isinstance(search, BeamConfig) and beam is not None:
        return search.model_copy(update={"width": beam})
    return search if beam is None else BeamConfig(kind="beam", width=beam, lengths=search.lengths)


def check_num_hypotheses(search: SearchConfig, count: int) -> None:
    """Raises UserError when a search finds fewer than `count` translations of a line."""
    width = search.width if isinstance(search, BeamConfig | SampleConfig) else 1
    if count > width:
        raise UserError(
            f"{count} translations of a line need a search at least as wide; this one finds {width} (--beam {count},"
            f" in Python beam_size={count})"
        )

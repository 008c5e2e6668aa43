"""Runs of older formats, read as what they were when they were made.

1    until the afternoon of 21 November 2026: Luong's decoder mixed [context; state], and now [state; context]
2    until that night: a beam search of which no patience was said went on until nothing better could come
3    today's, which says so in run.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2attn.config.load import read
from seq2attn.config.read import plain
from seq2attn.config.trust import Trust
from seq2attn.errors import RunError
from seq2attn.text.files import read_object

BEAM = "search: {kind: beam, patience: null}"
CONFIG = {1: BEAM, 2: BEAM}
"""What a config of an older format meant where it said nothing, as YAML to be laid beneath it."""
MIX = "decoder.mix.weight"


def unsigned_format(folder: Path) -> int:
    """The format of a run without run.json: 1 or 2, by what its config and its checkpoints did not have before.

    Runs of the few minutes between these marks are not told apart.

    Raises: RunError when nothing tells.
    """
    config = plain(read(folder / "config.yaml", trust=Trust())[0])
    decoder = _part(config, "model", "decoder")
    score = _part(decoder, "attention", "score")
    if decoder.get("kind") != "luong" or "groups" in score or "at_once" in _part(config, "training", "batch"):
        return 2
    if score.get("kind") in ("general", "dot"):
        return 2 if "heads" in score else 1
    states = [_state(file) for file in folder.glob("checkpoints/[0-9]*/state.json")]
    if not any(states):
        raise RunError(
            f"{folder}: is of an older format, and without its checkpoints nothing tells of which; train it anew"
        )
    return 2 if any("baseline" in state for state in states) else 1


def as_today(weights: dict[str, Tensor], decoder: str, format_: int) -> dict[str, Tensor]:
    """The weights of a model of an older format, whose decoder is of that kind, as the same model has them today."""
    if format_ > 1 or decoder != "luong":
        return weights
    mix = weights[MIX]
    contexts, states = mix.split([mix.size(1) - mix.size(0), mix.size(0)], 1)
    return {**weights, MIX: torch.cat([states, contexts], 1)}


def _part(config: Any, *names: str) -> dict[str, Any]:
    for name in names:
        config = config.get(name) if isinstance(config, dict) else None
    return config if isinstance(config, dict) else {}


def _state(file: Path) -> dict[str, Any]:
    try:
        return _part(read_object(file, ""), "state")
    except RunError:
        return {}

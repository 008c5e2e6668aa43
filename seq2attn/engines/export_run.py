"""The work of `seq2attn export`: refuse, write, translate on both sides, and only then leave the folder behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

from seq2attn.data.readers import check_regular, read_pairs
from seq2attn.engines.agreement import LEAST, Probed, probe
from seq2attn.engines.base import Target
from seq2attn.engines.export_directory import write_header, written
from seq2attn.engines.native import Native
from seq2attn.errors import DataError, UserError
from seq2attn.io.text_lines import read_lines
from seq2attn.run_directory import Run
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SearchConfig

SENTENCES = 200
"""How many of the run's dev set are translated on both sides."""
LATER = "train longer, or try lines like those the run was trained on (--probe FILE)"


def export_run(
    run: Run, target: Target, where: Path, *, type_: str | None = None, sentences: Path | None = None
) -> Probed:
    """Export a run; how well both sides agreed on the lines of `sentences` or on the dev set's.

    Raises ConfigError when the target has no such model, UserError when both sides do not translate the same.
    """
    type_ = _chosen_type(target, type_)
    experiment = run.experiment()
    if mistakes := target.refused(experiment):
        raise run.mistaken(mistakes)
    lines = _lines(run, sentences)
    model, source, _ = run.model()
    sources = [source.encode(line) for line in lines]
    with written(where) as partial:
        target.write(run, partial, type_)
        theirs = target.open(run, partial, torch.device("cpu"))
        found = probe(Native(model), theirs, sources, searches_to_try(experiment.search.lengths))
        if type_ == "float32" and found.tokens < LEAST:
            raise UserError(_disagreement(target, where, found))
        write_header(run, target, type_, found.as_json(), partial)
    return found


def _disagreement(target: Target, where: Path, found: Probed) -> str:
    forced, greedy = found.forced, found.searches[0]
    only_search = forced.largest < 0.01 and greedy.tokens >= LEAST
    return (
        f"{target.name} does not translate as the run does, so nothing was left behind in {where}:"
        f" {found.tokens:.2%} of the tokens agree, expected {LEAST:.0%}"
        + (f"; its probabilities are right, its beam ends otherwise: {LATER}" if only_search else "")
        + f"\n{found}"
    )


def _chosen_type(target: Target, type_: str | None) -> str:
    if type_ is None:
        return target.types[0]
    if type_ not in target.types:
        raise UserError(f"--type {type_}: {target.name} has {', '.join(target.types)}")
    return type_


def _lines(run: Run, file: Path | None) -> Sequence[str]:
    """What to translate on both sides. Raises DataError when there is nothing."""
    if file is not None:
        lines = list(read_lines(file))
    else:
        dev = run.experiment().data.dev
        check_regular(dev)
        lines = [source for source, _ in islice(read_pairs(dev), SENTENCES)]
    if not any(line.strip() for line in lines):
        raise DataError(
            f"{file or 'the dev set of the run'}: has no line to try both sides with; give --probe FILE"
        )
    return lines


def searches_to_try(lengths: LengthsConfig) -> list[tuple[str, SearchConfig]]:
    """Greedy search and a beam, both with the run's own lengths."""
    return [
        ("greedy", GreedyConfig(kind="greedy", lengths=lengths)),
        ("beam 5", BeamConfig(kind="beam", width=5, lengths=lengths)),
    ]

"""The work of `seq2attn export`: refuse, write, translate on both sides, and only then leave the folder behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch

from seq2attn.data.readers import check_regular, read_pairs
from seq2attn.engines.agreement import MIN_AGREEMENT, AgreementReport, compare_engines
from seq2attn.engines.base import ExportTarget
from seq2attn.engines.export_directory import export_directory, write_manifest
from seq2attn.engines.native import NativeEngine
from seq2attn.errors import DataError, UserError
from seq2attn.io.text_lines import read_lines
from seq2attn.run_directory import RunDirectory
from seq2attn.search.config import BeamConfig, GreedyConfig, LengthsConfig, SearchConfig

NUM_VERIFICATION_SENTENCES = 200
"""How many of the run's dev set are translated on both sides."""
HINT = "train longer, or try lines like those the run was trained on (--verify-with FILE)"


def export_run(
    run: RunDirectory,
    target: ExportTarget,
    where: Path,
    *,
    quantization: str | None = None,
    verify_with: Path | None = None,
) -> AgreementReport:
    """Exports a run. Returns the agreement of both sides on the lines of `verify_with`, or on the dev set's sources.

    Raises ConfigError when the target has no such model, UserError when both sides do not translate the same.
    """
    dtype = _resolve_dtype(target, quantization)
    experiment = run.load_config()
    if mistakes := target.unsupported(experiment):
        raise run.config_error(mistakes)
    lines = _verification_lines(run, verify_with)
    model, source, _ = run.load_model()
    sources = [source.encode(line) for line in lines]
    with export_directory(where) as partial:
        target.export(run, partial, dtype)
        theirs = target.load(run, partial, torch.device("cpu"))
        found = compare_engines(NativeEngine(model), theirs, sources, verification_searches(experiment.search.lengths))
        if dtype == "float32" and found.min_token_agreement < MIN_AGREEMENT:
            raise UserError(_disagreement(target, where, found))
        write_manifest(run, target, dtype, found.as_json(), partial)
    return found


def _disagreement(target: ExportTarget, where: Path, found: AgreementReport) -> str:
    forced, greedy = found.forced, found.searches[0]
    only_search = forced.largest < 0.01 and greedy.token_agreement >= MIN_AGREEMENT
    return (
        f"{target.name} does not translate as the run does, so nothing was left behind in {where}:"
        f" {found.min_token_agreement:.2%} of the tokens agree, expected {MIN_AGREEMENT:.0%}"
        + (f"; its probabilities are right, its beam ends otherwise: {HINT}" if only_search else "")
        + f"\n{found}"
    )


def _resolve_dtype(target: ExportTarget, quantization: str | None) -> str:
    if quantization is None:
        return target.dtypes[0]
    if quantization not in target.dtypes:
        raise UserError(f"--quantization {quantization}: {target.name} has {', '.join(target.dtypes)}")
    return quantization


def _verification_lines(run: RunDirectory, file: Path | None) -> Sequence[str]:
    """The lines to translate on both sides. Raises DataError if there are none."""
    if file is not None:
        lines = list(read_lines(file))
    else:
        dev = run.load_config().data.dev
        check_regular(dev)
        lines = [source for source, _ in islice(read_pairs(dev), NUM_VERIFICATION_SENTENCES)]
    if not any(line.strip() for line in lines):
        raise DataError(
            f"{file or 'the dev set of the run'}: has no line to try both sides with; give --verify-with FILE"
        )
    return lines


def verification_searches(lengths: LengthsConfig) -> list[tuple[str, SearchConfig]]:
    """Greedy search and a beam, both with the run's own lengths."""
    return [
        ("greedy", GreedyConfig(kind="greedy", lengths=lengths)),
        ("beam 5", BeamConfig(kind="beam", beam_size=5, lengths=lengths)),
    ]

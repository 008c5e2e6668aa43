"""`seq2attn doctor` and `seq2attn verify-resume`."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli.options import AllowCode, ConfigPath, Device, Overrides, RunDir, Tag


def doctor(
    run: RunDir,
    allow_code: AllowCode,
    sentences: Annotated[int, typer.Option(min=1, max=100_000, help="Number of sentences.", metavar="N")] = 50,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input", "-i", help="Use the lines of FILE. [the run's dev set]", metavar="FILE", show_default=False
        ),
    ] = None,
    tag: Tag = None,
    device: Device = "auto",
) -> None:
    """Check a trained model on this machine: does inference give what the model was trained to compute?

    Four checks with real sentences: batched translation equals translating one sentence at a time, cached decoding
    equals decoding without a cache, padding changes nothing, and the reported scores equal those of forced decoding.
    The table has the largest difference of log-probabilities and its sentence. The exit code is 1 if a check fails.

    \b
    Examples:
      seq2attn doctor runs/phrasebook
      seq2attn doctor runs/phrasebook --sentences 200 --device cuda
      seq2attn doctor runs/phrasebook -i input.de
    """
    from seq2attn.diagnostics.run_checks import format_check_table, load_subject, run_checks
    from seq2attn.errors import UserError
    from seq2attn.experiment.run_directory import RunDirectory

    if tag is not None and input_file is None:
        raise UserError("--tag is for --input; the dev set of the run has its own")
    subject = load_subject(RunDirectory(run), sentences, input_file, device, tag)
    model = subject.reference_model
    typer.echo(f"{len(subject.sentences)} sentences of {subject.origin}, on {model.device}", err=True)
    results = run_checks(subject)
    typer.echo(format_check_table(results))
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def verify_resume(
    config: ConfigPath,
    overrides: Overrides,
    allow_code: AllowCode,
    updates: Annotated[int, typer.Option(min=12, help="Number of updates of both trainings.", metavar="N")] = 24,
) -> None:
    """Verify on this machine that a resumed training of a config equals an uninterrupted one, bit for bit.

    The config is trained for a few updates without interruption, and again with a SIGTERM and a SIGKILL in between.
    All tensors and all logged values of both runs are compared. The exit code is 1 if anything differs. Only a few
    sentences of the dev set are used, and the text is prepared again.

    \b
    Examples:
      seq2attn verify-resume configs/phrasebook.yaml
      seq2attn verify-resume my.yaml --updates 100
    """
    from tempfile import TemporaryDirectory

    from seq2attn.diagnostics import verify_resume as verification
    from seq2attn.diagnostics.verify_resume import format_comparison_table
    from seq2attn.experiment.experiment_config import load_config

    experiment = load_config(config, overrides)
    # an exception ends the training, which is a process of its own, and removes the folder
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with TemporaryDirectory(prefix="seq2attn-") as folder:
        rows = verification.verify_resume(
            experiment, Path(folder).resolve(), partial(typer.echo, err=True), updates=updates
        )
    typer.echo(format_comparison_table(rows))
    same = all(row.is_identical for row in rows)
    typer.echo(f"\n{'identical' if same else 'NOT identical'}, on this machine, with this PyTorch and as many threads")
    if not same:
        raise typer.Exit(1)

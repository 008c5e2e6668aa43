"""`seq2attn doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.options import AllowCode, Device, RunDir, Tag


def doctor(
    run: RunDir,
    allow_code: AllowCode,
    sentences: Annotated[int, typer.Option(min=1, max=100_000, help="Number of sentences.", metavar="N")] = 50,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="Use the lines of FILE. [the run's dev set]", metavar="FILE"),
    ] = None,
    tag: Tag = None,
    device: Device = "auto",
) -> None:
    """Check the inference of a trained model on this machine.

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

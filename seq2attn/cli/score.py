"""`seq2attn score`."""

from typing import Annotated

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import AllowCode, OutputFile, Overwrite, RunDir
from seq2attn.options.runs import ScoreOptions


@takes("run allow_code source target output_file overwrite per_token as_json tag to device")
def score(
    run: RunDir,
    allow_code: AllowCode,
    options: ScoreOptions,
    output_file: OutputFile = None,
    overwrite: Overwrite = False,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Add each token with its log-probability, EOS last.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per pair, with all tokens and log-probabilities.")
    ] = False,
) -> None:
    """Print the log-probability of each target line given its source, by forced decoding: natural logarithms, with EOS.

    One line per pair, in the same order. The perplexity of the whole text is printed on standard error.

    \b
    Examples:
      seq2attn score runs/phrasebook --source new.de --target new.en
      seq2attn score runs/phrasebook --source new.de --target new.en --per-token -o new.scores
      seq2attn score runs/phrasebook --source <(zcat new.de.gz) --target <(zcat new.en.gz) --json
    """
    import math
    from dataclasses import asdict

    from seq2attn.inference.input_checks import check_finite
    from seq2attn.inference.scoring import score
    from seq2attn.io.outputs import check_output, text_output
    from seq2attn.io.terminal import plural
    from seq2attn.io.text_lines import json_line
    from seq2attn.losses.training_loss import perplexity

    check_output(output_file, "score", options.source, options.target, overwrite=overwrite)
    totals, num_tokens = list[float](), 0
    pairs = score(run, options)
    with text_output(output_file, "score") as file:
        for pair in pairs:
            shown = zip(pair.tokens, pair.token_log_probs, strict=True) if per_token else ()
            line = "\t".join([f"{pair.log_prob:.4f}", *(f"{token} {value:.4f}" for token, value in shown)])
            file.write(json_line(asdict(pair)) if as_json else line + "\n")
            totals.append(pair.log_prob)
            num_tokens += len(pair.tokens)
    check_finite([number for number, total in enumerate(totals, start=1) if not math.isfinite(total)])
    total = math.fsum(totals)
    typer.echo(
        f"{plural(len(totals), 'pair')}, {plural(num_tokens, 'token')} with EOS: log-probability {total:,.2f},"
        f" perplexity {perplexity(-total / max(num_tokens, 1)):.2f}",
        err=True,
    )

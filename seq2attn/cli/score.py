"""`seq2attn score`."""

from __future__ import annotations

from seq2attn.cli.flatten import takes
from seq2attn.options import AllowCode, RunDir, ScoreOptions


@takes("run allow_code source target output_file overwrite per_token as_json tag to device")
def score(run: RunDir, allow_code: AllowCode, options: ScoreOptions) -> None:
    """Print the log-probability of each target line given its source, by forced decoding: natural logarithms, with EOS.

    One line per pair, in the same order. The perplexity of the whole text is printed on standard error.

    \b
    Examples:
      seq2attn score runs/phrasebook --source new.de --target new.en
      seq2attn score runs/phrasebook --source new.de --target new.en --per-token -o new.scores
      seq2attn score runs/phrasebook --source <(zcat new.de.gz) --target <(zcat new.en.gz) --json
    """
    from seq2attn.inference.scoring import score_files

    score_files(run, options)

"""`seq2attn distill` and `seq2attn back-translate`."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import RunDir, Tag, TranslationOptions

BACK_TRANSLATION_TAG = "BT"
"""The tag of back-translations in a config (Caswell et al. 2019)."""
OPTIONS = "output min_log_prob beam tag to engine export_dir device precision batch_tokens"


@dataclass(frozen=True)
class CorpusOptions:
    """Output and filter of a synthetic corpus, and the tag of its sources."""

    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Write the corpus to DIR: source.txt, target.txt.")
    ]
    min_log_prob: Annotated[
        float | None,
        typer.Option(max=0, metavar="X", help="Minimum log-probability of a translation per token, with EOS."),
    ] = None
    tag: Tag = None


@takes(f"run overrides allow_code ensemble source {OPTIONS}")
def distill(
    run: RunDir,
    options: TranslationOptions,
    source: Annotated[Path, typer.Option(help="Text in the source language.", metavar="FILE")],
    making: CorpusOptions,
) -> None:
    """Translate training text with a teacher, to train a student on (Kim & Rush 2016).

    The filters of the run's config apply (`data.filters`). The same command continues after an interruption; with other
    filters it makes another corpus of the same translations.

    \b
    Examples:
      seq2attn distill runs/teacher --source train.de -o distilled
      seq2attn distill runs/teacher --source train.de -o distilled --ensemble runs/another --min-log-prob -0.5
    """
    _make(run, options, making, source, "source")


@takes(f"run overrides allow_code ensemble target {OPTIONS}")
def back_translate(
    run: RunDir,
    options: TranslationOptions,
    target: Annotated[Path, typer.Option(help="Text in the target language of the corpus.", metavar="FILE")],
    making: CorpusOptions,
) -> None:
    """Translate text of the target language into the source language, as more training text (Sennrich et al. 2016).

    The run translates from target to source. The filters of its config apply (`data.filters`). The same command
    continues after an interruption; with other filters it makes another corpus of the same translations.

    \b
    Examples:
      seq2attn back-translate runs/en-de --target more.en -o back-translated
      seq2attn back-translate runs/en-de --target more.en -o back-translated --set search.kind=sample
      seq2attn back-translate runs/en-de --target more.en -o back-translated --min-log-prob -1 --beam 5
    """
    _make(run, options, making, target, "target")


def _make(
    run: Path, options: TranslationOptions, making: CorpusOptions, text: Path, side: Literal["source", "target"]
) -> None:
    """Make the corpus, and print the counts of its filters and its entry in a config."""
    from seq2attn.experiment.run_directory import RunDirectory
    from seq2attn.inference.load import load_experiment
    from seq2attn.inference.synthetic_corpus import SECTIONS, SOURCE, TARGET, SyntheticCorpus

    folder, output = RunDirectory(run), making.output
    corpus = SyntheticCorpus(output, text, side, making.tag)
    report = corpus.make(folder, load_experiment(folder, options, SECTIONS), options, making.min_log_prob)
    entry = {"kind": "plain", "source": str(output.resolve() / SOURCE), "target": str(output.resolve() / TARGET)}
    if tag := BACK_TRANSLATION_TAG if side == "target" else making.tag:
        entry["tag"] = tag
    print(f"{output}: {report}", file=sys.stderr)
    print(f"in `data.train`: {json.dumps(entry, ensure_ascii=False)}", file=sys.stderr)

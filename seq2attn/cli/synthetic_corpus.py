"""`seq2attn distill` and `seq2attn back-translate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from seq2attn.cli.flatten import takes
from seq2attn.options import RunDir, Tag, TranslationOptions

if TYPE_CHECKING:
    from seq2attn.inference.synthetic_corpus import SyntheticCorpus

OutputDir: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Write the corpus to DIR: source.txt, target.txt.")
]
MinLogProb: TypeAlias = Annotated[
    float | None,
    typer.Option(max=0, metavar="X", help="Minimum log-probability of a translation per token, with EOS."),
]
BACK_TRANSLATION_TAG = "BT"
"""The tag of back-translations in a config (Caswell et al. 2019)."""
OPTIONS = "output min_log_prob beam tag to engine export_dir device precision batch_tokens"


@takes(f"run overrides allow_code ensemble source {OPTIONS}")
def distill(
    run: RunDir,
    options: TranslationOptions,
    source: Annotated[Path, typer.Option(help="Text in the source language.", metavar="FILE")],
    output: OutputDir,
    min_log_prob: MinLogProb = None,
    tag: Tag = None,
) -> None:
    """Translate training text with a teacher, to train a student on (Kim & Rush 2016).

    The filters of the run's config apply (`data.filters`). The same command continues after an interruption; with other
    filters it makes another corpus of the same translations.

    \b
    Examples:
      seq2attn distill runs/teacher --source train.de -o distilled
      seq2attn distill runs/teacher --source train.de -o distilled --ensemble runs/another --min-log-prob -0.5
    """
    from seq2attn.inference.synthetic_corpus import SyntheticCorpus

    _make(run, options, SyntheticCorpus(output, source, "source", tag), min_log_prob)


@takes(f"run overrides allow_code ensemble target {OPTIONS}")
def back_translate(
    run: RunDir,
    options: TranslationOptions,
    target: Annotated[Path, typer.Option(help="Text in the target language of the corpus.", metavar="FILE")],
    output: OutputDir,
    min_log_prob: MinLogProb = None,
    tag: Tag = None,
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
    from seq2attn.inference.synthetic_corpus import SyntheticCorpus

    _make(run, options, SyntheticCorpus(output, target, "target", tag), min_log_prob)


def _make(run: Path, options: TranslationOptions, corpus: SyntheticCorpus, min_log_prob: float | None) -> None:
    """Make the corpus, and print the counts of its filters and its entry in a config."""
    from seq2attn.experiment.run_directory import RunDirectory
    from seq2attn.inference.load import load_experiment
    from seq2attn.inference.synthetic_corpus import SECTIONS, SOURCE, TARGET

    folder = RunDirectory(run)
    experiment = load_experiment(folder, options, SECTIONS)
    report = corpus.make(folder, experiment, options, min_log_prob)
    files = {"source": str(corpus.folder.resolve() / SOURCE), "target": str(corpus.folder.resolve() / TARGET)}
    entry = {"kind": "plain", **files}
    if tag := BACK_TRANSLATION_TAG if corpus.side == "target" else corpus.tag:
        entry["tag"] = tag
    print(f"{corpus.folder}: {report}", file=sys.stderr)
    print(f"in `data.train`: {json.dumps(entry, ensure_ascii=False)}", file=sys.stderr)

"""`seq2attn distill` and `seq2attn back-translate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from seq2attn.cli.options import (
    AllowCode,
    BatchTokens,
    Beam,
    Device,
    EngineName,
    EnsembleRuns,
    ExportDir,
    Overrides,
    Precision,
    RunDir,
    Tag,
    To,
)

if TYPE_CHECKING:
    from seq2attn.inference.synthetic_corpus import SyntheticCorpus
    from seq2attn.inference.translator import Translator

OutputDir: TypeAlias = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Write the corpus to DIR: source.txt, target.txt.")
]
MinLogProb: TypeAlias = Annotated[
    float | None,
    typer.Option(
        max=0, metavar="X", help="Minimum log-probability of a translation per token, with EOS.", show_default=False
    ),
]
BACK_TRANSLATION_TAG = "BT"
"""The tag of back-translations in a config (Caswell et al. 2019)."""


def distill(
    run: RunDir,
    overrides: Overrides,
    allow_code: AllowCode,
    ensemble: EnsembleRuns,
    source: Annotated[Path, typer.Option(help="Text in the source language.", metavar="FILE")],
    output: OutputDir,
    min_log_prob: MinLogProb = None,
    beam: Beam = None,
    tag: Tag = None,
    to: To = None,
    engine: EngineName = "native",
    export_dir: ExportDir = None,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_tokens: BatchTokens = None,
) -> None:
    """Translate training text with a teacher, to train a student on (Kim & Rush 2016).

    The filters of the run's config apply (`data.filters`). The same command continues after an interruption; with other
    filters it makes another corpus of the same translations.

    \b
    Examples:
      seq2attn distill runs/teacher --source train.de -o distilled
      seq2attn distill runs/teacher --source train.de -o distilled --ensemble runs/another --min-log-prob -0.5
    """
    from seq2attn.inference.ensemble import load
    from seq2attn.inference.synthetic_corpus import SyntheticCorpus

    corpus = SyntheticCorpus(output, source, "source", tag=tag, to=to)
    translator = load(run, device, ensemble=ensemble, engine=engine, export_dir=export_dir, precision=precision)
    _make(corpus, translator, [run, *ensemble], overrides, min_log_prob, beam, batch_tokens)


def back_translate(
    run: RunDir,
    overrides: Overrides,
    allow_code: AllowCode,
    ensemble: EnsembleRuns,
    target: Annotated[Path, typer.Option(help="Text in the target language of the corpus.", metavar="FILE")],
    output: OutputDir,
    min_log_prob: MinLogProb = None,
    beam: Beam = None,
    tag: Tag = None,
    to: To = None,
    engine: EngineName = "native",
    export_dir: ExportDir = None,
    device: Device = "auto",
    precision: Precision = "float32",
    batch_tokens: BatchTokens = None,
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
    from seq2attn.inference.ensemble import load
    from seq2attn.inference.synthetic_corpus import SyntheticCorpus

    corpus = SyntheticCorpus(output, target, "target", tag=tag, to=to)
    translator = load(run, device, ensemble=ensemble, engine=engine, export_dir=export_dir, precision=precision)
    _make(corpus, translator, [run, *ensemble], overrides, min_log_prob, beam, batch_tokens)


def _make(
    corpus: SyntheticCorpus,
    translator: Translator,
    runs: list[Path],
    overrides: list[str],
    min_log_prob: float | None,
    beam: int | None,
    batch_tokens: int | None,
) -> None:
    """Make the corpus, and print the counts of its filters and its entry in a config."""
    from seq2attn.experiment.run_directory import RunDirectory
    from seq2attn.inference.engines.base import check_engine_supports
    from seq2attn.inference.synthetic_corpus import SOURCE, TARGET
    from seq2attn.search.search_config import check_size, resolve_search

    folder = RunDirectory(runs[0])
    config = folder.load_config(overrides, ["search", "data.filters"])
    search = resolve_search(config.search, beam=beam, overrides=overrides)
    if beam is None:
        check_size(search, folder.config_path, overrides)
    translator.max_batch_tokens = batch_tokens or translator.max_batch_tokens
    check_engine_supports(translator.engine, search, folder, overrides)
    report = corpus.make([*map(RunDirectory, runs)], translator, search, config.data.filters, min_log_prob)
    files = {"source": str(corpus.folder.resolve() / SOURCE), "target": str(corpus.folder.resolve() / TARGET)}
    entry = {"kind": "plain", **files}
    if tag := BACK_TRANSLATION_TAG if corpus.side == "target" else corpus.tag:
        entry["tag"] = tag
    print(f"{corpus.folder}: {report}", file=sys.stderr)
    print(f"in `data.train`: {json.dumps(entry, ensure_ascii=False)}", file=sys.stderr)

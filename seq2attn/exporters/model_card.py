"""The model card of an export (Mitchell et al. 2019): use, sizes, data, scores, license and limits of a model.

Its head is in YAML, as the Hugging Face Hub reads it. Whatever is not known of a run is left out.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from seq2attn.data.inspection import DataReport
from seq2attn.data.readers import PlainTextConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.agreement import AgreementReport
from seq2attn.inference.engines.source_limit import max_source_length
from seq2attn.io.files import read_object, validate
from seq2attn.io.tables import format_table
from seq2attn.metrics.sacrebleu_metrics import Score
from seq2attn.models.build import build_for_inspection, count_parameters
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizerConfig
from seq2attn.version import __version__

LICENSE_HINT = "license: apache-2.0"


class EvaluationRecord(BaseModel):
    """Fields of a report of `evaluate`."""

    set: str
    model: dict[str, Any]
    engine: str
    sentences: int
    scores: tuple[Score, ...]


def build_model_card(run: RunDirectory, dtype: str, agreement: AgreementReport, library: str, usage: str) -> str:
    """The model card of an exported run; `usage` says how to translate with the export, by `library`.

    Raises RunError for a corrupt report in the run directory.
    """
    experiment = run.load_config()
    languages = known_languages(experiment)
    head: dict[str, Any] = {"language": list(languages)} if languages else {}
    head |= {"library_name": library, "pipeline_tag": "translation", "tags": ["translation", "seq2attn"]}
    sections = {
        "Use": usage,
        "Model": _model(run, experiment, dtype),
        "Training data": "\n".join(_data(run, experiment)),
        "Scores": "\n".join(_scores(run)),
        "Verification": _verification(agreement),
        "License": f"Not stated. Put the license of the model, such as `{LICENSE_HINT}`, into the head of this file.",
        "Limits": _limits(experiment),
    }
    return (
        f"---\n{yaml.safe_dump(head, sort_keys=False)}# {LICENSE_HINT}\n---\n\n# {run.folder.resolve().name}\n\n"
        f"A model for translation{' from {} to {}'.format(*languages) if languages else ''}, exported by seq2attn"
        f" {__version__}.\n" + "".join(f"\n## {name}\n\n{text.rstrip()}\n" for name, text in sections.items() if text)
    )


def known_languages(experiment: ExperimentConfig) -> tuple[str, str] | None:
    """ISO 639 codes of source and target: of the tokenizers, or the suffixes of training files such as `train.de`."""
    source, target = (
        tokenizer.punctuation if isinstance(tokenizer, SentencePieceTokenizerConfig) else None
        for tokenizer in experiment.tokenizer.per_side
    )
    if source and target and "und" not in (source, target):
        return source, target
    for corpus in experiment.data.train:
        if isinstance(corpus, PlainTextConfig):
            names = [path.name.removesuffix(".gz").removesuffix(".xz") for path in (corpus.source, corpus.target)]
            source, target = (name.rpartition(".")[2] for name in names)
            if source != target and all(re.fullmatch("[a-z]{2}", code) for code in (source, target)):
                return source, target
    return None


def _model(run: RunDirectory, experiment: ExperimentConfig, dtype: str) -> str:
    text, num_entries = experiment.tokenizer, [*map(len, run.load_tokenizers().vocabularies)]
    sizes = [f"{size:,} ({config.kind})" for size, config in zip(num_entries, text.per_side, strict=True)]
    num_parameters = count_parameters(build_for_inspection(experiment.model, *num_entries))
    rows = [
        ("encoder, decoder", f"{experiment.model.encoder.kind}, {experiment.model.decoder.kind}"),
        ("parameters", f"{num_parameters:,}"),
        ("entries of the vocabulary", sizes[0] if text.is_joint else f"source {sizes[0]}, target {sizes[1]}"),
        ("data type of the weights", dtype),
    ]
    return format_table([("", ""), *rows], num_text_columns=2, markdown=True)


def _data(run: RunDirectory, experiment: ExperimentConfig) -> Iterator[str]:
    origin = run.weights_origin()
    if "imported" in origin:
        folder = re.split(r"[/\\]", str(origin["imported"]))[-1]
        yield f"The weights are those of `{folder}`, which was imported."
    if experiment.training.init_from is not None:
        yield f"Training began with the weights of `{experiment.training.init_from.run_dir.name}`."
    if (report := DataReport.load(run.folder)) is not None:
        files = ", ".join(f"`{file.name}`" for corpus in experiment.data.train for file in corpus.files)
        yield f"{report.train.num_pairs:,} pairs: {files}."


def _scores(run: RunDirectory) -> Iterator[str]:
    """The scores of the present weights."""
    origin = run.weights_origin()
    hint, problem = "remove it, or evaluate again", "is not a report of `evaluate`, or is corrupt"
    for path in sorted((run.folder / "evaluation").glob("*.json")):
        report = validate(EvaluationRecord, read_object(path, hint), path, problem, hint)
        if report.model == origin:
            where = f"on `{report.set}` ({report.sentences:,} sentences, {report.engine})"
            yield from (f"- {score.name} {score.value:.2f} {where}: `{score.signature}`" for score in report.scores)


def _verification(report: AgreementReport) -> str:
    lines = "\n".join(
        f"- {result.search}: {result.token_agreement:.2%} of the tokens are equal in {result.sentences:,} sentences"
        for result in report.searches
    )
    note = f"\n\nNote: {report.other_searches}." if report.other_searches else ""
    return f"Before the export was kept, it and the original model translated the same sentences:\n\n{lines}{note}"


def _limits(experiment: ExperimentConfig) -> str:
    tags = f"- A source may begin with one of the tags {', '.join(map('`{}`'.format, experiment.data.tags))}.\n"
    return (
        f"- Each source is a line of at most {max_source_length(experiment):,} tokens, and a translation has at most"
        f" {experiment.search.lengths.max_length:,}.\n"
        + (tags if experiment.data.tags else "")
        + "- Translations may be wrong or incomplete. Scores hold for their test set only: evaluate with your own text."
    )

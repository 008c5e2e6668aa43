"""Import of a Hugging Face folder as a run, verified by translating with `transformers` too."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import torch
from pydantic import ValidationError

from seq2attn.errors import DataError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.inference.engines.agreement import AgreementReport, compare_engines
from seq2attn.io.files import FILE_HINT, MANIFEST, atomic_dir, check_not_working_dir, read_object
from seq2attn.io.hf_folder import CONFIG_FILE, check_files
from seq2attn.io.text_lines import read_lines
from seq2attn.models import build_model
from seq2attn.nn.initialization import SkipInit
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.bart import Bart
from seq2attn.pretrained.family import Family
from seq2attn.pretrained.hf_weights import convert_weights, read_tensors
from seq2attn.pretrained.marian import Marian
from seq2attn.pretrained.marian_files import MarianFiles, find_marian_files
from seq2attn.pretrained.multilingual import M2M100, MBart
from seq2attn.pretrained.pegasus import Pegasus
from seq2attn.pretrained.t5 import MT5, T5
from seq2attn.pretrained.transformers_engine import TransformersEngine, check_tokenizer
from seq2attn.search.search_config import BeamConfig
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.hf_tokenizer import BYTE_SPACE
from seq2attn.tokenizers.normalize import SPACE_MARK, is_blank
from seq2attn.tokenizers.vocabulary import Vocabulary

FAMILIES: tuple[type[Family], ...] = (Marian, M2M100, MBart, Bart, Pegasus, T5, MT5)
DEFAULT_OPTIONS = ImportOptions()
OWN_OPTIONS = ("positions", "punctuation", "source_prefix")
"""Fields of `ImportOptions` that have an effect on some models."""
NUM_PROBE_LINES, MAX_PROBE_WORDS = 20, 12


def import_model(
    folder: Path | str,
    run: Path | str,
    options: ImportOptions = DEFAULT_OPTIONS,
    *,
    allow_pickle: bool = False,
    verify_with: Path | None = None,
) -> AgreementReport | None:
    """Make the run directory `run` of the model in `folder`; `allow_pickle` reads `pytorch_model.bin` too.

    Returns its agreement with the original on lines of `verify_with`, or words of its vocabulary; None where there is
    no such model in `transformers`, or that is not installed. Raises UserError if it cannot be imported, or differs.
    """
    folder, run = Path(folder), _new_directory(Path(run))
    family = _read_family(folder, options, allow_pickle=allow_pickle)
    _check_options(family)
    experiment = _experiment(family, run)
    tokenizers = source, target = TokenizerPair(*(config.train([]) for config in experiment.tokenizer.per_side))
    rows = family.rows(source, target)
    with SkipInit(), torch.device("meta"):
        empty = build_model(experiment.model, *map(len, tokenizers.vocabularies))
    tensors = read_tensors(folder, family.weights(allow_pickle=allow_pickle), empty, family.tables, family.computed)
    family.check_positions(tensors)
    lines = _probe_lines(source.vocabulary, verify_with)
    with atomic_dir(Path(os.path.realpath(run))) as partial:  # what a link points to is replaced, and not the link
        directory = RunDirectory(partial)
        tokenizers.save(partial)
        directory.save_config(experiment)
        weights = convert_weights(family.convert(tensors), empty, family.tables, rows)
        origin = {"imported": str(folder.resolve()), "architecture": family.model_type, "positions": options.positions}
        directory.save_model(weights, tokenizers.vocabularies, origin)
        loaded = directory.load()
        report = None
        if is_installed := find_spec("transformers") is not None:
            check_tokenizer(folder, source, rows[0], family.original_encoder(), lines)
        if is_installed and family.has_original:
            report = _compare(loaded, TransformersEngine(family.load_original(tensors), rows), lines)
            report.check(f"{folder}: the imported model does not translate as the original")
    _print_notes(family, is_verified=report is not None)
    return report


def _new_directory(run: Path) -> Path:
    """The run directory. Raises UserError for a folder that is not empty, or the working directory."""
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        raise UserError(f"{run}: exists; give another directory, or move it away")
    check_not_working_dir(run)
    return run


def _read_family(folder: Path, options: ImportOptions, *, allow_pickle: bool) -> Family:
    """The model in a folder, by `model_type` in its `config.json`, or in Marian's own files.

    Raises UserError with the file and the key that cannot be used.
    """
    if not (folder / CONFIG_FILE).is_file() and (file := find_marian_files(folder)):
        return MarianFiles(file, options)
    if (folder / MANIFEST).is_file():
        raise DataError(f"{folder}: is a run directory already; translate with it: seq2attn translate {folder}")
    check_files(folder, allow_pickle=allow_pickle, pickle_hint="is a pickle: ``allow_pickle`` reads it")
    config = read_object(folder / CONFIG_FILE, FILE_HINT)
    families = {family.model_type: family for family in FAMILIES}
    if (model_type := str(config.get("model_type"))) not in families:
        known = ", ".join(f"`{name}`" for name in families)
        raise DataError(f"{folder / CONFIG_FILE}: `model_type` is `{model_type}`; only {known} can be imported")
    return families[model_type](folder, config, options)


def _compare(imported: LoadedRun, original: TransformersEngine, lines: Sequence[str]) -> AgreementReport:
    """The agreement of an imported model with the original on `lines`."""
    experiment = imported.experiment
    lengths = experiment.search.lengths.model_copy(update={"min_length": 0})
    longest, _ = experiment.data.filters.max_lengths  # positions of the original
    return compare_engines(imported, original, lines, BeamConfig(patience=None, lengths=lengths), longest)


def _print_notes(family: Family, *, is_verified: bool) -> None:
    """Print the keys that are 0 in the config of the run, where its defaults are not, and why it is not verified."""
    keys = ["training.label_smoothing"]
    if {"dropout", "dropout_rate"}.isdisjoint(family.architecture.model_fields_set):
        keys += ["model.encoder.dropout", "model.decoder.dropout"]
    unnamed = ", ".join(f"`{key}`" for key in keys)
    print(f"set to 0 for further training, because the files of the model have no value: {unnamed}", file=sys.stderr)
    if not is_verified:
        reason = "is not installed (pip install '.[pretrained]')" if family.has_original else "has no such model"
        print(f"not verified: transformers {reason}", file=sys.stderr)


def _check_options(family: Family) -> None:
    """Raises UserError for an option that has no effect on a model."""
    for name in OWN_OPTIONS:
        if getattr(family.options, name) != getattr(DEFAULT_OPTIONS, name) and name not in family.own_options:
            where = f"{family.folder}: ``{name}``"
            raise UserError(f"{where} has no effect on this model (`{family.model_type}`); leave it out")


def _experiment(family: Family, run: Path) -> ExperimentConfig:
    """The config of the run. Its text, for further training, is to be put into the run, or set."""
    source, target = family.tokenizers()
    text = run.resolve() / "text"
    corpora = {
        name: {"kind": "plain", "source": text / f"{name}.source", "target": text / f"{name}.target"}
        for name in ("train", "dev")
    }
    content: dict[str, Any] = {
        "run_dir": run,
        "data": {**corpora, "filters": {"max_length": family.max_positions - 1}},
        "tokenizer": {"source": source, "target": target},
        "model": family.model(),
        "training": {"label_smoothing": 0.0},  # with which a model forgets its own translations
        "search": family.search(),
    }
    try:
        return ExperimentConfig.model_validate(content)
    except ValidationError as error:
        details = "; ".join(f"`{'.'.join(map(str, part['loc']))}`: {part['msg']}" for part in error.errors())
        raise DataError(f"{family.folder}: {details}") from None


def _probe_lines(vocabulary: Vocabulary, file: Path | None) -> Sequence[str]:
    """The lines that both models translate: of a file, or random words of the vocabulary.

    Raises DataError for a file without text.
    """
    if file is not None:
        lines = [line for line in read_lines(Path(file)) if not is_blank(line)]
        if not lines:
            raise DataError(f"{file}: has no line to verify with")
        return lines
    random = Random(0)
    words = [token[1:] for token in vocabulary.tokens if token.startswith((SPACE_MARK, BYTE_SPACE))]
    words = [word for word in words if word.isalpha()] or ["a"]
    return [" ".join(random.choices(words, k=random.randint(1, MAX_PROBE_WORDS))) for _ in range(NUM_PROBE_LINES)]

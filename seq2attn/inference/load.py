"""Translators of a run, or of an ensemble of runs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from seq2attn.config import plugin
from seq2attn.data.inspection import DataReport
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.inference.engines.base import Engine, EngineError
from seq2attn.inference.engines.exported import load_exported_engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import model_source_limit
from seq2attn.inference.glossary import Glossary, check_glossary_search
from seq2attn.inference.reranking import RerankRun, load_rerankers
from seq2attn.inference.search_options import check_size, resolve_search
from seq2attn.inference.source_line import Member
from seq2attn.inference.translator import Translator
from seq2attn.inference.unknown_words import check_replaces_unknown_words
from seq2attn.models.ensemble import Ensemble
from seq2attn.nn.device import resolve_device
from seq2attn.nn.kernels.linear import prepack_linears
from seq2attn.options import TranslationOptions
from seq2attn.search.translate_ids import default_batch_tokens
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.vocabulary import check_same

DEFAULT_OPTIONS = TranslationOptions()


def load(run: Path | str, options: TranslationOptions = DEFAULT_OPTIONS) -> Translator:
    """The translator of a run directory: `seq2attn.load("runs/phrasebook").translate("Das Haus ist alt.").text`.

    Raises RunError when the directory is not a run, its files do not match, or the run was not exported or has changed
    since, and for a run that cannot be in the ensemble; UserError for options that exclude each other, or that the
    model or the engine does not have; ConfigError for a search of the config that the engine does not support.
    """
    folder, options = RunDirectory(Path(run).absolute()), with_paths(options)
    digests = [one.weights_digest() for one in _runs(folder, options)]
    translator = load_translator(RunDirectory(Path(run)), load_experiment(RunDirectory(Path(run)), options), options)
    return replace(translator, reload=partial(_reload, folder, _for_reload(options), digests))


def load_experiment(
    run: RunDirectory, options: TranslationOptions, sections: Sequence[str] = ("search",)
) -> ExperimentConfig:
    """The config of a run with the search of `options`, whose overrides are of `sections`.

    Raises UserError for options that exclude each other, and for a search of the run that is too large.
    """
    plugin.allow_code(options.allow_code)
    experiment = run.load_config(options.overrides, sections)
    search = resolve_search(experiment.search, options)
    check_size(search, options, run.config_path)
    return experiment.model_copy(update={"search": search})


def load_translator(run: RunDirectory, experiment: ExperimentConfig, options: TranslationOptions) -> Translator:
    """The translator of a run with the config of `load_experiment`. For errors see `load`."""
    if options.ensemble and options.engine != "native":
        raise UserError(f"an ensemble is translated by the native engine, not by `{options.engine}`")
    if options.engine == "native" and options.export_dir is not None:
        raise UserError("``export_dir`` needs ``engine=ctranslate2`` or ``engine=onnx``")
    device, search = resolve_device(options.device), experiment.search
    ensemble = [(one, one.load_config()) for one in map(RunDirectory, options.ensemble)]
    first, *others = [_load_in_thread(*each, device) for each in [(run, experiment), *ensemble]]
    engine = _load_engine(run, [first, *others], options, device)
    if options.replace_unk:
        check_replaces_unknown_words(first.model, first.tokenizers)
    rerankers = load_rerankers(options, run, first.tokenizers, search, device)
    members = tuple(Member(one.model, one.tokenizers, model_source_limit(one.experiment)) for one in (first, *others))
    if options.to is not None:
        members = tuple(member.translating_into(options.to) for member in members)
    for folder, member in zip(options.ensemble, members[1:], strict=True):
        _check_member(member.tokenizers, folder, members[0].tokenizers, run.folder)
    if mistakes := engine.unsupported(search):
        if options.mbr is not None:
            raise UserError(f"``mbr``: {EngineError(engine.name, mistakes)}")
        raise run.config_error(mistakes, options.overrides)
    report, glossary = DataReport.load(run.folder), None
    if options.glossary is not None:
        check_glossary_search(search)
        glossary = Glossary.load(options.glossary, members[0].tokenizers, replace_unk=options.replace_unk)
    return Translator(
        members,
        search,
        engine,
        options.batch_tokens or default_batch_tokens(device),
        known_characters=report.train.source.known_characters if report else frozenset(),
        rerankers=rerankers,
        glossary=glossary,
        replace_unk=options.replace_unk,
    )


def with_paths(options: TranslationOptions) -> TranslationOptions:
    """The options with paths, which Python users may give as text."""
    return replace(
        options,
        ensemble=[Path(run) for run in options.ensemble],
        glossary=options.glossary and Path(options.glossary),
        export_dir=options.export_dir and Path(options.export_dir),
    )


def _load_in_thread(run: RunDirectory, experiment: ExperimentConfig, device: torch.device) -> LoadedRun:
    """The run, loaded in a thread that ends, and with it its team of OpenMP threads.

    CTranslate2 uses the same OpenMP, whose threads sleep between two matrix products when there are more threads than
    processors: a single sentence took three times as long.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run.load_model, experiment, device).result()


def _load_engine(
    run: RunDirectory, members: Sequence[LoadedRun], options: TranslationOptions, device: torch.device
) -> Engine:
    """The engine of a run or of an ensemble."""
    if options.engine == "native":
        for member in members:
            prepack_linears(member.model)
        models = tuple(member.model for member in members)
        return NativeEngine(models[0] if len(models) == 1 else Ensemble(models), options.precision)
    if options.precision != "float32":
        reason = f"has the precision that the run was exported with, not `{options.precision}`"
        raise UserError(f"`{options.engine}` {reason}")
    return load_exported_engine(run, options.engine, options.export_dir, device)


def _check_member(tokenizers: TokenizerPair, run: Path, first_tokenizers: TokenizerPair, first_run: Path) -> None:
    """Raises RunError if two runs cannot be in one ensemble."""
    message = f"{run}: cannot be in an ensemble with {first_run}"
    try:
        check_same(first_tokenizers.target.vocabulary, tokenizers.target.vocabulary, run / "target" / "vocabulary.json")
    except RunError as error:
        raise RunError(f"{message}, which has another target vocabulary. {error}") from None
    if tokenizers.target.is_right_to_left != first_tokenizers.target.is_right_to_left:
        raise RunError(f"{message}: one writes from left to right, the other from right to left")
    if {*tokenizers.source.tags} != {*first_tokenizers.source.tags}:
        tags = [", ".join(one.source.tags) or "none" for one in (tokenizers, first_tokenizers)]
        raise RunError(f"{message}, which has other tags: {tags[1]}, not {tags[0]}")
    tag, first_tag = tokenizers.source.line_tag, first_tokenizers.source.line_tag
    if tag and first_tag and tag != first_tag:
        raise RunError(f"{message}, which was imported for `{first_tag}`, not `{tag}`; import one of them again")


def _runs(run: RunDirectory, options: TranslationOptions) -> list[RunDirectory]:
    """All runs that a translator is loaded from."""
    return [run, *map(RunDirectory, options.ensemble), *(RunDirectory(one.folder) for one in RerankRun.all_of(options))]


def _for_reload(options: TranslationOptions) -> TranslationOptions:
    """The options with absolute paths, for another working directory. A pickled translator has its glossary."""
    reranking = {False: list[str](), True: list[str]()}
    for run in RerankRun.all_of(options):
        reranking[run.is_backward].append(f"{run.folder.absolute()}:{run.weight!r}")
    return replace(
        options,
        ensemble=[run.absolute() for run in options.ensemble],
        rerank=reranking[False],
        rerank_backward=reranking[True],
        glossary=None,
        export_dir=options.export_dir and options.export_dir.absolute(),
    )


def _reload(run: RunDirectory, options: TranslationOptions, digests: Sequence[str | None]) -> Translator:
    """A translator that was pickled. Raises RunError if the weights are others meanwhile."""
    for one, digest in zip(_runs(run, options), digests, strict=True):
        if one.weights_digest() != digest:
            raise RunError(f"{one.weights_path}: is not what the translator was loaded from; load it again")
    return load(run.folder, options)

"""Export of a run, verified by translating with both engines."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from operator import attrgetter
from pathlib import Path

from seq2attn.data.readers import CorpusConfig, check_regular, read_pairs
from seq2attn.errors import DataError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.exporters.ctranslate2_target import CTranslate2Target
from seq2attn.exporters.export_target import ExportTarget
from seq2attn.exporters.huggingface_target import HuggingFaceTarget
from seq2attn.exporters.model_card import build_model_card
from seq2attn.exporters.onnx_target import OnnxTarget
from seq2attn.inference.engines.agreement import AgreementReport, compare_engines
from seq2attn.inference.engines.base import Engine, EngineError
from seq2attn.inference.engines.exported import MODEL_CARD_FILE, check_replaceable, write_manifest
from seq2attn.io.files import atomic_dir, write_bytes
from seq2attn.io.terminal import print_warnings
from seq2attn.io.text_lines import read_lines
from seq2attn.options.runs import ExportOptions
from seq2attn.search.search_config import BeamConfig, LengthsConfig, SearchConfig
from seq2attn.tokenizers.base import TokenizerPair, add_tag
from seq2attn.tokenizers.normalize import is_blank

TARGETS: dict[str, ExportTarget] = {
    target.name: target for target in (CTranslate2Target(), OnnxTarget(), HuggingFaceTarget())
}
"""Formats by name: the engines, and that for Hugging Face's package. `cli/export.py` lists the names again."""
DEFAULT_OPTIONS = ExportOptions()
NUM_VERIFICATION_SENTENCES = 200
"""Sentences of the dev set that both engines translate."""


def export(
    run: Path | str, to: str, folder: Path | str | None = None, options: ExportOptions = DEFAULT_OPTIONS
) -> AgreementReport:
    """Export a run to the format `to`, into `folder` or the folder of this name in the run directory.

    Returns the agreement of both engines. Raises ConfigError when the format does not support the model, UserError when
    there is no such format, or the engines do not agree.
    """
    if options.tag is not None and options.verify_with is None:
        raise UserError("``tag`` is for ``verify_with``; the dev set of the run has its own")
    if to not in TARGETS:
        raise UserError(f"``to={to}``: there is no such format; known: {', '.join(TARGETS)}")
    return export_run(RunDirectory(Path(run)), TARGETS[to], Path(folder or Path(run, to)), options)


def export_run(
    run: RunDirectory, target: ExportTarget, where: Path, options: ExportOptions = DEFAULT_OPTIONS
) -> AgreementReport:
    """`export` to any target."""
    dtype = target.dtypes[0] if options.quantization is None else options.quantization
    if dtype not in target.dtypes:
        raise UserError(f"``quantization={dtype}``: {target.name} has {', '.join(target.dtypes)}")
    experiment = run.load_config()
    if mistakes := target.unsupported(experiment):
        raise run.config_error(mistakes)
    loaded = run.load()
    loaded.tokenizers.source.check_tag(options.tag)
    lines = [add_tag(line, options.tag) for line in _verification_lines(experiment.data.dev, options.verify_with)]
    _check_direction(run, loaded.tokenizers)
    check_replaceable(where)
    with atomic_dir(Path(os.path.realpath(where))) as partial:  # what a link points to is replaced, and not the link
        target.export(run, partial, dtype)
        engine = target.load(run, partial)
        program = target.write_program(engine, loaded, partial, lines)
        lengths, search_options = _supported_search(engine, experiment.search)
        report = compare_engines(loaded, engine, lines, BeamConfig(lengths=lengths), engine.max_source_length)
        if dtype == "float32":
            report.check(f"{where}: {target.name} does not translate as the run does")
            print_warnings([f"{target.name}: {note}"] if (note := report.other_searches) else [])
        write_manifest(run, target.name, dtype, asdict(report), partial)
        usage = program + target.usage(run, where, search_options)
        model_card = build_model_card(run, dtype, report, target.hub_library, usage)
        write_bytes(partial / MODEL_CARD_FILE, model_card.encode())
    return report


def _check_direction(run: RunDirectory, tokenizers: TokenizerPair) -> None:
    """Raises UserError for tokens from right to left."""
    for side, tokenizer in tokenizers._asdict().items():
        if tokenizer.is_right_to_left:
            message = "tokens are in reverse order, which other programs do not expect; not exported"
            raise UserError(f"{run.folder}: its {side} {message}")


def _supported_search(engine: Engine, search: SearchConfig) -> tuple[LengthsConfig, list[str]]:
    """Lengths for verification, and options of `translate`: the default, with a warning, of what an engine lacks."""
    mistakes = engine.unsupported(search)
    if not mistakes:
        return search.lengths, []
    print_warnings([f"{EngineError(engine.name, mistakes)}; verified with the default values of these options"])
    fields = [mistake.field.removeprefix("search.") for mistake in mistakes]
    defaults = {field: attrgetter(field)(BeamConfig()) for field in fields}
    options = ["--greedy"] if defaults.pop("kind", None) else []
    for field, value in defaults.items():
        options += ["--set", f"search.{field}={json.dumps(value)}"]
    lengths = {field.removeprefix("lengths."): value for field, value in defaults.items() if "lengths." in field}
    return search.lengths.model_copy(update=lengths), options


def _verification_lines(dev: CorpusConfig, file: Path | None) -> Sequence[str]:
    """The lines that both engines translate. Raises DataError if there are none."""
    if file is not None:
        lines = list(read_lines(Path(file)))
    else:
        try:
            check_regular(dev)
            lines = [pair.text[0] for pair in islice(read_pairs(dev), NUM_VERIFICATION_SENTENCES)]
        except DataError as error:
            raise DataError(f"{error}; give ``verify_with=FILE``") from None
    if all(map(is_blank, lines)):
        raise DataError(f"{file or 'the dev set of the run'}: has no line to verify with; give ``verify_with=FILE``")
    return lines

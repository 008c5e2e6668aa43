"""The work of `seq2attn explore`: a page of sentences, or a server for the browser."""

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from tqdm import tqdm

from seq2attn.data.readers import check_regular, read_pairs, read_references
from seq2attn.errors import DataError, RunError, UserError
from seq2attn.evaluation.evaluate import test_sets
from seq2attn.evaluation.head_selection import load_selected_head
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.explorer.explore import Explorer, Json, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.sentence_table import measure_sentences
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.load import load_experiment, load_translator
from seq2attn.io.outputs import check_output
from seq2attn.io.text_lines import read_lines
from seq2attn.io.weights import copy_weights
from seq2attn.options import TranslationOptions
from seq2attn.options.runs import ExploreOptions
from seq2attn.tokenizers.base import add_tag
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.training.checkpoints.averaging import load_merged
from seq2attn.training.checkpoints.checkpoint import list_checkpoints


def run_explorer(options: TranslationOptions, exploring: ExploreOptions) -> None:
    """Write a page of sentences to a file, or serve the explorer until Ctrl-C.

    Raises UserError for options that exclude each other, for a run without text to show, and for a port in use.
    """
    runs, texts = _split_arguments(exploring.arguments)
    if exploring.output_file is not None:
        inputs = exploring.input_file, *exploring.references, options.glossary
        check_output(exploring.output_file, "explore", *inputs, overwrite=exploring.overwrite)
    names = [run.resolve().name for run in runs]
    if len({*names}) < len(names):
        names = [*map(str, runs)]
    named = zip(runs, names, strict=True)
    explorers = _load_checkpoints(runs, options) if exploring.checkpoints else [_load(*one, options) for one in named]
    for explorer in explorers:
        explorer.translator.source.check_tag(exploring.tag)
    measured = explorers[-1] if exploring.checkpoints else explorers[0]  # the last checkpoint, or the first run
    table = _table(RunDirectory(runs[0]), measured, exploring)
    if table is not None and (exploring.worst or exploring.best):
        rows = sorted((row for row in table["rows"] if row["chrf"] is not None), key=lambda row: row["chrf"])
        table["rows"] = rows[: exploring.worst] if exploring.worst else rows[::-1][: exploring.best]
    if exploring.output_file is None:
        if len(texts) > 1:
            raise UserError("give one sentence to begin with, or ``output_file`` for a page of several")
        text = add_tag(texts[0], exploring.tag) if texts else _example(RunDirectory(runs[0]))
        _serve(explorers, table, text, exploring)
        return
    questions = [Question(add_tag(text, exploring.tag)) for text in texts]
    if table is not None:
        rows = [row for row in table["rows"] if not is_blank(row["source"])]
        for row in rows:
            row["sentence"] = len(questions) * len(explorers)  # the first of its explorations
            questions.append(Question(row["source"], reference=row["reference"]))
    if not questions:
        raise UserError("give sentences to show in the page, or ``input_file``")
    progress = tqdm(questions, unit=" sentences", disable=None)
    explorations = [
        explorer.record(question, all_heads=exploring.all_heads) for question in progress for explorer in explorers
    ]
    ExplorerPage(explorations, table).save(exploring.output_file)


def _split_arguments(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The run directories, which come first, and the sentences."""
    # os.path.isfile is False for a sentence that is too long for a name.
    is_run = [os.path.isfile(os.path.join(name, "config.yaml")) for name in arguments]  # noqa: PTH113, PTH118
    count = is_run.index(False) if False in is_run else len(arguments)
    if not count:
        RunDirectory(Path(arguments[0])).check_exists()
    return [*map(Path, arguments[:count])], [*arguments[count:]]


def _load(run: Path, name: str, options: TranslationOptions) -> Explorer:
    folder = RunDirectory(run)
    experiment = load_experiment(folder, options)
    selected = load_selected_head(folder)
    translator = load_translator(folder, experiment, options)
    return Explorer(name, translator, selected and selected[0])


def _load_checkpoints(runs: Sequence[Path], options: TranslationOptions) -> list[Explorer]:
    """The kept checkpoints of a run, oldest first."""
    if len(runs) != 1:
        raise UserError("``checkpoints`` shows those of one run")
    if options.ensemble:
        raise UserError("``checkpoints`` excludes ``ensemble``")
    checkpoints = list_checkpoints(runs[0])
    if not checkpoints:
        raise RunError(f"{runs[0]}: has no checkpoints")
    last, folder = _load(runs[0], "", options), RunDirectory(runs[0])
    explorers = []
    for checkpoint in checkpoints:
        model = folder.load_model(folder.load_config(), last.translator.model.device).model
        copy_weights(model, load_merged(checkpoint), checkpoint.model_path)
        members = (replace(last.translator.members[0], model=model),)
        translator = replace(last.translator, members=members, engine=NativeEngine(model, options.precision))
        explorers.append(replace(last, name=f"update {int(checkpoint.folder.name):,}", translator=translator))
    return explorers


def _table(run: RunDirectory, explorer: Explorer, exploring: ExploreOptions) -> Json | None:
    """The measures of the lines of a test set or a file; None without one."""
    experiment, references = run.load_config(), list[Sequence[str]]()
    if exploring.input_file is not None and not exploring.references:
        sources = [add_tag(line, exploring.tag) for line in read_lines(exploring.input_file)]
        name = exploring.input_file.name
    elif exploring.input_file is not None or exploring.test_set is not None:
        if exploring.input_file is None and not experiment.data.test:
            raise UserError("the config has no `data.test`; give ``input_file``")
        sets = test_sets([experiment], exploring.input_file, exploring.references, exploring.tag)
        name = exploring.test_set or next(iter(sets))
        if name not in sets:
            raise UserError(f"there is no test set `{name}`; the run has {', '.join(sets)}")
        pairs = [pair.text for pair in read_pairs(sets[name])]
        sources = [source for source, _ in pairs]
        references = read_references(sets[name], [target for _, target in pairs])
    else:
        return None
    rows = measure_sentences(explorer.translator, sources, references, experiment.evaluation)
    return {"name": name, "rows": list(rows)}


def _example(run: RunDirectory) -> str:
    """The first source of the dev set, to begin with; nothing if it cannot be read."""
    try:
        dev = run.load_config().data.dev
        check_regular(dev)
        return next((pair.text[0] for pair in read_pairs(dev)), "")
    except DataError:
        return ""


def _serve(explorers: Sequence[Explorer], table: Json | None, text: str, exploring: ExploreOptions) -> None:
    """Serve the page until Ctrl-C; `text` is the first sentence."""
    try:
        import uvicorn

        from seq2attn.explorer.server import HOST, build_app
    except ImportError as error:
        raise UserError(
            f"{error.name} is not installed; pip install 'seq2attn[server]', or write a file with ``output_file``"
        ) from None
    try:
        listener = socket.create_server((HOST, exploring.port or 0))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UserError(f"port {exploring.port}: {reason}; give another ``port``, or none") from None
    with listener:  # which already waits for a browser
        address = f"http://{HOST}:{listener.getsockname()[1]}/#{urlencode({'text': text}, errors='replace')}"
        print(f"{address}  (Ctrl-C ends)", file=sys.stderr, flush=True)
        server = uvicorn.Server(uvicorn.Config(build_app(explorers, table), log_level="warning"))
        if exploring.browser:
            threading.Thread(target=_open_browser, args=(address,), daemon=True).start()
        server.run(sockets=[listener])


def _open_browser(address: str) -> None:
    if not webbrowser.open(address):
        print(f"no browser was found; open {address}", file=sys.stderr)

"""The work of `seq2attn translate`: input, output and attention pictures."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from seq2attn.errors import DataError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.glossary import TermCounts
from seq2attn.inference.input_checks import INVALID_UTF8, InputChecker, check_finite
from seq2attn.inference.load import load_experiment, load_translator
from seq2attn.inference.translation import Translation, translation_record
from seq2attn.inference.translator import Translator
from seq2attn.io.outputs import STANDARD_STREAM, check_output, text_output
from seq2attn.io.terminal import print_warnings
from seq2attn.io.text_lines import BOM, json_line, open_lines, read_line_batches
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionSelection, TranslateOptions, TranslationOptions
from seq2attn.search.search_config import check_num_hypotheses
from seq2attn.tokenizers.base import add_tag
from seq2attn.visualization.attention import (
    DEFAULT_SELECTION,
    PAGE,
    attention_text,
    draw_attention,
    is_page,
    select_all_maps,
    select_map,
)
from seq2attn.visualization.figure import check_drawing


def translate_files(
    run: Path,
    options: TranslationOptions,
    files: TranslateOptions,
    selection: AttentionSelection = DEFAULT_SELECTION,
) -> None:
    """Translate sentences, a file or standard input line by line; `selection` is the attention to draw.

    Raises UserError for options that exclude each other, when a file cannot be used, for a prefix with unknown tokens,
    or if the model lacks the attention that is to be drawn; and after the last line if the model gives no finite
    log-probabilities for some, which have empty translations.
    """
    _check_files(files, options, selection)
    folder = RunDirectory(run)
    experiment = load_experiment(folder, options)
    check_num_hypotheses(experiment.search, files.n_best)
    translator = load_translator(folder, experiment, options)
    translator.source.check_tag(files.tag)
    if files.attention is not None:  # raises errors about layers and heads before the work
        select = select_all_maps if _draws_html(files) else select_map
        select(translator.attention_weights("", ""), selection)
    picture = partial(_draw, files=files, selection=selection, run=run)
    with ExitStack() as stack:
        batches = _read_input(files, stack)
        out = stack.enter_context(text_output(files.output_file, "translate"))
        weights, not_finite = _translate(translator, batches, out, files, picture)
    if _draws_html(files) and (weights or not not_finite):
        picture(weights)
    check_finite(not_finite)


def _check_files(files: TranslateOptions, options: TranslationOptions, selection: AttentionSelection) -> None:
    """Raises UserError for options that exclude each other, or need another."""
    if files.sentences and files.input_file is not None:
        raise UserError("give sentences or ``input_file``, not both")
    inputs = files.input_file, options.glossary
    check_output(files.output_file, "translate", *inputs, overwrite=files.overwrite)
    if files.attention is None:
        if selection != DEFAULT_SELECTION:
            raise UserError("options of the attention picture need ``attention=FILE``")
    elif files.attention == "-":
        if files.as_json:
            raise UserError("``attention=-`` and ``json`` both write to standard output; give ``attention=FILE``")
    else:
        if files.output_file is not None and files.output_file.resolve() == Path(files.attention).resolve():
            raise UserError(f"{files.attention}: is the file of the translations; give the attention another name")
        check_drawing(Path(files.attention), *inputs, others=(PAGE,), overwrite=files.overwrite)


def _draws_html(files: TranslateOptions) -> bool:
    """True for a page with the attention of all lines, False for a picture of the first line."""
    return files.attention is not None and is_page(Path(files.attention))


def _translate(
    translator: Translator,
    batches: Iterator[list[bytes]],
    out: Any,
    files: TranslateOptions,
    draw: Callable[[list[AttentionWeights]], None],
) -> tuple[list[AttentionWeights], list[int]]:
    """Write the translations of all lines, batch by batch.

    Returns the attention weights to be drawn, and the numbers of lines without finite log-probabilities.
    """
    checker, weights, terms = InputChecker(translator.known_characters), list[AttentionWeights](), list[bool]()
    for batch in batches:
        number = checker.num_lines + 1
        lines = [_decode(line, n, checker) for n, line in enumerate(batch, number)]
        with_attention = files.attention is not None and (number == 1 or _draws_html(files))
        translations = translator.translate_iterable(
            [add_tag(line, files.tag) for line in lines],
            num_hypotheses=files.n_best,
            prefix=files.prefix,
            attention=with_attention,
            checker=checker,
        )
        for n, (line, translation) in enumerate(zip(lines, translations, strict=True), number):
            if translator.glossary is not None:
                terms += translator.glossary.is_met(line, translation.text)
            out.write(_format(n, line, translation, files, translator))
            if translation.attention_weights is not None:
                weights.append(translation.attention_weights)
        out.flush()
        if with_attention and not _draws_html(files) and not checker.not_finite:
            draw(weights)
    print_warnings(checker.warnings())
    if translator.glossary is not None:
        print(f"glossary: {TermCounts(sum(terms), len(terms))}", file=sys.stderr)
    return weights, checker.not_finite


def _format(number: int, line: str, translation: Translation, files: TranslateOptions, translator: Translator) -> str:
    """The output for a line."""
    hypotheses = [translation, *translation.alternatives]
    if files.as_json:
        record = translation_record(line, translation, translator.token_log_probs(hypotheses))
        if files.n_best > 1:
            record.setdefault("alternatives", [])
        return json_line(record)
    if files.n_best > 1:
        return "".join(f"{number}\t{t.score:.4f}\t{t.text}\n" for t in hypotheses)
    return translation.text + "\n"


def _read_input(files: TranslateOptions, stack: ExitStack) -> Iterator[list[bytes]]:
    """Batches of lines: sentences of the command line, or lines of a file or of standard input."""
    if files.sentences:
        paths = filter(os.path.isfile, files.sentences)  # Path.is_file raises OSError for a long sentence
        print_warnings(f"the file name `{path}` is translated, not the file: give -i {path}" for path in paths)
        if files.sentences == [str(STANDARD_STREAM)]:
            print_warnings(["`-` is translated, not standard input: leave it out"])
        return _with_first_alone(iter([[os.fsencode(sentence) for sentence in files.sentences]]), files)
    if files.input_file in (None, STANDARD_STREAM):
        if sys.stdin is None:  # closed by the parent process
            raise UserError("there is no standard input; give sentences or ``input_file``")
        return _with_first_alone(read_line_batches(sys.stdin.buffer), files)
    try:
        stream = stack.enter_context(open_lines(files.input_file))
    except OSError as error:
        raise DataError(f"{files.input_file}: cannot be read: {error.strerror}") from None
    return _with_first_alone(read_line_batches(stream), files)


def _with_first_alone(batches: Iterator[list[bytes]], files: TranslateOptions) -> Iterator[list[bytes]]:
    """The batches. A line whose attention is drawn alone is a separate batch."""
    if files.attention is not None and not _draws_html(files):
        if not (first := next(batches, [])):
            raise UserError("there is no attention to draw: there are no lines")
        yield from filter(None, (first[:1], first[1:]))
    yield from batches


def _decode(line: bytes, number: int, checker: InputChecker) -> str:
    """The text of a line. Bytes that are not UTF-8 are replaced, with a warning."""
    line = (line.removeprefix(BOM) if number == 1 else line).removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        checker.add(INVALID_UTF8, [number])
        return line.decode("utf-8", errors="replace")


def _draw(weights: list[AttentionWeights], files: TranslateOptions, selection: AttentionSelection, run: Path) -> None:
    """Draw attention weights; `run` is in the title. Raises UserError if there are none."""
    if not weights:
        empty = "all lines are empty" if _draws_html(files) else "the first line is empty; FILE.html has all lines"
        raise UserError(f"there is no attention to draw: {empty}")
    if files.attention == "-":
        print(attention_text(weights[0], selection, columns=shutil.get_terminal_size().columns))
    else:
        draw_attention(weights, Path(files.attention or ""), selection, run=run)

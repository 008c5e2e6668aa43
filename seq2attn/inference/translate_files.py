"""The work of `seq2attn translate`: input, output and attention pictures."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2attn.errors import DataError, UserError
from seq2attn.inference.glossary import TermCounts, load_glossary
from seq2attn.inference.input_checks import InputChecker, check_finite
from seq2attn.inference.translation import Translation
from seq2attn.inference.translator import Translator
from seq2attn.io.outputs import STANDARD_STREAM, check_output, text_output
from seq2attn.io.terminal import print_warnings
from seq2attn.io.text_lines import BOM, json_line, open_lines, read_line_batches
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.search.search_config import SearchConfig
from seq2attn.tokenizers.base import add_tag
from seq2attn.visualization.attention import PAGE, AttentionSelection, attention_text, draw_attention, is_page
from seq2attn.visualization.figure import check_drawing


@dataclass(frozen=True)
class TranslateOptions:
    """Input, output and attention picture of the command line."""

    sentences: tuple[str, ...]
    input_file: Path | None
    output_file: Path | None
    n_best: int
    prefix: str
    glossary: Path | None
    as_json: bool
    attention: str | None
    attention_selection: AttentionSelection
    tag: str | None
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Raises UserError for options that exclude each other, or need another."""
        if self.sentences and self.input_file is not None:
            raise UserError("give sentences or --input, not both")
        inputs = self.input_file, self.glossary
        check_output(self.output_file, "translate", *inputs, overwrite=self.overwrite)
        if self.attention is None:
            if self.attention_selection != AttentionSelection():
                raise UserError("options of the attention picture need its file: --attention FILE")
        elif self.attention != "-":
            check_drawing(Path(self.attention), *inputs, others=(PAGE,), overwrite=self.overwrite)

    @property
    def draws_html(self) -> bool:
        """True for a page with the attention of all lines, False for a picture of the first line."""
        return self.attention is not None and is_page(Path(self.attention))


def translate_input(translator: Translator, search: SearchConfig, options: TranslateOptions, folder: Path) -> None:
    """Translate the input line by line; `folder` is the run, for the title of a picture.

    Raises UserError when a file cannot be used, for a prefix with unknown tokens, or if the model has not the attention
    that is to be drawn; and after the last line if the model gives no finite log-probabilities for some, which have
    empty translations.
    """
    translator.source.check_tag(options.tag)
    tokenizers = translator.tokenizers
    translator.glossary = load_glossary(options.glossary, tokenizers, search, replace_unk=translator.replace_unk)
    if options.attention is not None:  # raises errors about layers and heads before the work
        selection = options.attention_selection
        select = selection.select_all if options.draws_html else selection.select
        select(translator.attention_weights("", ""))
    with ExitStack() as stack:
        batches = _read_input(options, stack)
        out = stack.enter_context(text_output(options.output_file, "translate"))
        weights, not_finite = _translate(translator, search, batches, out, options, folder)
    if options.draws_html and (weights or not not_finite):
        _draw(weights, options, folder)
    check_finite(not_finite)


def _translate(
    translator: Translator,
    search: SearchConfig,
    batches: Iterator[list[bytes]],
    out: Any,
    options: TranslateOptions,
    folder: Path,
) -> tuple[list[AttentionWeights], list[int]]:
    """Write the translations of all lines, batch by batch.

    Returns the attention weights to be drawn, and the numbers of lines without finite log-probabilities.
    """
    checker, weights, terms = InputChecker(translator.training_report), list[AttentionWeights](), list[bool]()
    for batch in batches:
        number = checker.num_lines + 1
        lines = [_decode(line, n, checker) for n, line in enumerate(batch, number)]
        with_attention = options.attention is not None and (number == 1 or options.draws_html)
        translations = translator.translate_iterable(
            [add_tag(line, options.tag) for line in lines],
            search,
            num_hypotheses=options.n_best,
            prefix=options.prefix,
            attention=with_attention,
            checker=checker,
        )
        for n, (line, translation) in enumerate(zip(lines, translations, strict=True), number):
            if translator.glossary is not None:
                terms += translator.glossary.is_met(line, translation.text)
            out.write(_format(n, line, translation, options))
            if translation.attention_weights is not None:
                weights.append(translation.attention_weights)
        out.flush()
        if with_attention and not options.draws_html and not checker.not_finite:
            _draw(weights, options, folder)
    print_warnings(checker.warnings())
    if translator.glossary is not None:
        print(f"glossary: {TermCounts(sum(terms), len(terms))}", file=sys.stderr)
    return weights, checker.not_finite


def _format(number: int, line: str, translation: Translation, options: TranslateOptions) -> str:
    """The output for a line."""
    hypotheses = [translation, *translation.alternatives]
    if options.as_json:
        best, *alternatives = [
            {"text": t.text, "score": t.score, "log_prob": t.log_prob, "tokens": list(t.tokens)} for t in hypotheses
        ]
        content = {"source": line, **best}
        if translation.segments:
            content["segments"] = list(translation.segments)
        if translation.truncated:
            content["truncated"] = True
        if options.n_best > 1:
            content["alternatives"] = alternatives
        return json_line(content)
    if options.n_best > 1:
        return "".join(f"{number}\t{t.score:.4f}\t{t.text}\n" for t in hypotheses)
    return translation.text + "\n"


def _read_input(options: TranslateOptions, stack: ExitStack) -> Iterator[list[bytes]]:
    """Batches of lines: sentences of the command line, or lines of a file or of standard input."""
    if options.sentences:
        paths = filter(os.path.isfile, options.sentences)  # Path.is_file raises OSError for a long sentence
        print_warnings(f"the file name `{path}` is translated, not the file: give -i {path}" for path in paths)
        if options.sentences == (str(STANDARD_STREAM),):
            print_warnings(["`-` is translated, not standard input: leave it out"])
        return _with_first_alone(iter([[os.fsencode(sentence) for sentence in options.sentences]]), options)
    if options.input_file in (None, STANDARD_STREAM):
        if sys.stdin is None:  # closed by the parent process
            raise UserError("there is no standard input; give sentences or --input")
        return _with_first_alone(read_line_batches(sys.stdin.buffer), options)
    try:
        stream = stack.enter_context(open_lines(options.input_file))
    except OSError as error:
        raise DataError(f"{options.input_file}: cannot be read: {error.strerror}") from None
    return _with_first_alone(read_line_batches(stream), options)


def _with_first_alone(batches: Iterator[list[bytes]], options: TranslateOptions) -> Iterator[list[bytes]]:
    """The batches. A line whose attention is drawn alone is a separate batch."""
    if options.attention is not None and not options.draws_html:
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
        checker.add_invalid_utf8(number)
        return line.decode("utf-8", errors="replace")


def _draw(weights: list[AttentionWeights], options: TranslateOptions, folder: Path) -> None:
    """Draw attention weights of the run in `folder`. Raises UserError if there are none."""
    if not weights:
        empty = "all lines are empty" if options.draws_html else "the first line is empty; FILE.html has all lines"
        raise UserError(f"there is no attention to draw: {empty}")
    if options.attention == "-":
        columns = shutil.get_terminal_size().columns
        print(attention_text(weights[0], options.attention_selection, columns=columns))
    else:
        draw_attention(weights, Path(options.attention or ""), options.attention_selection, run=folder)

"""The work of `seq2attn translate`: where lines come from, what is printed of each, and the picture."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TextIO

from seq2attn.errors import DataError, UserError
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.line_stream import read_line_batches
from seq2attn.inference.source_line import encode_prefix
from seq2attn.inference.translation import Translation
from seq2attn.inference.translator import Translator, check_engine_supports
from seq2attn.io.files import output
from seq2attn.io.text_lines import BOM, escape_breaks, read_lines
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.run_directory import RunDirectory
from seq2attn.search.config import LongInputs, SearchConfig, check_num_hypotheses, check_size, resolve_search
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.tags import add_tag, check_tag
from seq2attn.visualization.attention import PAGE, AttentionSelection, attention_text, draw_attention, is_page
from seq2attn.visualization.figure import check_picture


@dataclass(frozen=True)
class TranslateOptions:
    """What was asked for on the command line."""

    sentences: tuple[str, ...]
    input_file: Path | None
    output_file: Path | None
    beam: int | None
    greedy: bool
    n_best: int
    prefix: str | None
    prefix_file: Path | None
    as_json: bool
    attention: str | None
    attention_selection: AttentionSelection
    long_inputs: LongInputs | None
    engine: str
    export_dir: Path | None
    device: str
    tag: str | None
    overrides: tuple[str, ...]

    @property
    def draws_html(self) -> bool:
        """Whether the attention of every line is to be drawn as a page, rather than that of the first."""
        return self.attention is not None and is_page(Path(self.attention))

    def prefixes(self, tokenizer: Tokenizer) -> list[str] | None:
        """The lines of the file of prefixes, if there is one. Raises UserError for a prefix with unknown tokens."""
        if self.prefix is not None and self.prefix_file is not None:
            raise UserError("--prefix and --prefix-file exclude each other")
        encode_prefix(tokenizer, self.prefix or "")
        lines = None if self.prefix_file is None else list(read_lines(self.prefix_file))
        for number, line in enumerate(lines or [], start=1):
            try:
                encode_prefix(tokenizer, line)
            except UserError as error:
                raise DataError(f"{self.prefix_file}:{number}: {error}") from None
        return lines


def run_translate(folder: Path, wishes: TranslateOptions) -> None:
    """Translate what was asked for, line by line.

    Raises UserError when wishes exclude each other or a file cannot be used.
    """
    if wishes.sentences and wishes.input_file is not None:
        raise UserError("give sentences or --input, not both")
    run = RunDirectory(folder)
    search = resolve_search(
        run.load_config(wishes.overrides).search,
        beam=wishes.beam,
        greedy=wishes.greedy,
        long_inputs=wishes.long_inputs,
    )
    if wishes.beam is None:
        check_size(search, run.config_path, wishes.overrides)
    check_num_hypotheses(search, wishes.n_best)
    check_attention_options(wishes)
    translator = Translator.load(folder, wishes.device, engine=wishes.engine, export_dir=wishes.export_dir)
    check_engine_supports(translator.engine, search, run, wishes.overrides)
    if wishes.tag is not None:
        check_tag(translator.source, wishes.tag)
    if wishes.attention is not None:  # is there what was chosen? Better known before the work
        choose = wishes.attention_selection.select_all if wishes.draws_html else wishes.attention_selection.select
        choose(translator.attention_weights("", ""))
    with _input(wishes) as groups, _output(wishes.output_file) as out:
        seen = _translate(translator, search, groups, out, wishes, folder)
    if wishes.draws_html:
        _draw(seen, wishes, folder)


def _translate(
    translator: Translator,
    search: SearchConfig,
    groups: Iterator[list[str]],
    out: TextIO | codecs.StreamWriter,
    wishes: TranslateOptions,
    folder: Path,
) -> list[AttentionWeights]:
    """Write the translations of all lines, group by group; where the model looked, as far as that is drawn."""
    noticed, seen = InputChecker(translator.training_report), list[AttentionWeights]()
    prefixes = wishes.prefixes(translator.target)
    for lines in groups:
        number = noticed.num_lines + 1
        drawn = wishes.attention is not None and (number == 1 or wishes.draws_html)
        tagged = [add_tag(line, wishes.tag) for line in lines]
        found = translator.translate_iterable(
            tagged,
            search,
            num_hypotheses=wishes.n_best,
            prefix=_prefix(prefixes, number, len(lines), wishes),
            attention=drawn,
            noticed=noticed,
        )
        for line, translation in enumerate(found, number):
            out.write(format_output(line, lines[line - number], translation, wishes))
            if drawn and translation.attention_weights is not None:
                seen.append(translation.attention_weights)
        out.flush()
        print_warnings(noticed.new_warnings())
        if drawn and not wishes.draws_html:
            _draw(seen, wishes, folder)
    print_warnings(noticed.remaining_warnings())
    if prefixes is not None and noticed.num_lines < len(prefixes):
        raise DataError(_unequal(wishes, len(prefixes), f"{noticed.num_lines:,}"))
    return seen


def _prefix(prefixes: list[str] | None, number: int, count: int, wishes: TranslateOptions) -> str | list[str]:
    """The prefixes of `count` lines from the line `number` on, or the one of all lines."""
    if prefixes is None:
        return wishes.prefix or ""
    found = prefixes[number - 1 : number - 1 + count]
    if len(found) < count:
        raise DataError(_unequal(wishes, len(prefixes), "more"))
    return found


def _unequal(wishes: TranslateOptions, count: int, lines: str) -> str:
    return f"{wishes.prefix_file}: has {count:,} lines and the input has {lines}: a line of each belong together"


def print_warnings(said: Iterable[str]) -> None:
    """Say things about the input, where they do not mix with the output."""
    for line in said:
        print(f"warning: {line}", file=sys.stderr)


def check_attention_options(wishes: TranslateOptions) -> None:
    """Raises UserError when attention cannot be drawn to where it is wanted, or is chosen but not wanted."""
    if wishes.attention is None:
        if wishes.attention_selection != AttentionSelection():
            raise UserError("what of the attention to draw is chosen, but not where to: --attention FILE")
    elif wishes.attention != "-" and not wishes.draws_html:
        check_picture(Path(wishes.attention), others=(PAGE,))


def format_output(number: int, line: str, translation: Translation, wishes: TranslateOptions) -> str:
    """What is printed of a line's translations."""
    best = [translation, *translation.alternatives]
    if wishes.as_json:
        found = [{"text": t.text, "score": t.score, "log_prob": t.log_prob, "tokens": list(t.tokens)} for t in best]
        content = {"source": line, **found[0]}
        if translation.segments:
            content["segments"] = list(translation.segments)
        if translation.truncated:
            content["truncated"] = True
        if wishes.n_best > 1:
            content["alternatives"] = found[1:]
        return escape_breaks(json.dumps(content, ensure_ascii=False)) + "\n"
    if wishes.n_best > 1:
        return "".join(f"{number}\t{t.score:.4f}\t{t.text}\n" for t in best)
    return translation.text + "\n"


@contextmanager
def _input(wishes: TranslateOptions) -> Iterator[Iterator[list[str]]]:
    """What to translate, in groups: sentences of the command line, or the lines of a file or of standard input."""
    if wishes.sentences:
        yield _lines(iter([[os.fsencode(sentence) for sentence in wishes.sentences]]), wishes)
    elif wishes.input_file is None:
        if sys.stdin is None:  # closed by whoever started us
            raise UserError("there is no standard input; give sentences or --input")
        yield _lines(read_line_batches(sys.stdin.buffer), wishes)
    else:
        try:
            stream = wishes.input_file.open("rb")
        except OSError as error:
            raise DataError(f"{wishes.input_file}: cannot be read: {error.strerror}") from None
        with stream:
            yield _lines(read_line_batches(stream), wishes)


def _lines(groups: Iterator[list[bytes]], wishes: TranslateOptions) -> Iterator[list[str]]:
    """The text of the lines; one that is to be drawn is a group of its own."""
    if wishes.attention is not None and not wishes.draws_html:
        first = next(groups, [])
        groups = chain(filter(None, (first[:1], first[1:])), groups)
    number = 0
    for group in groups:
        yield [_decoded(line, n) for n, line in enumerate(group, number + 1)]
        number += len(group)


def _decoded(line: bytes, number: int) -> str:
    """The text of a line. What is not UTF-8 is replaced, with a warning: one bad line shall not cost the others."""
    line = (line.removeprefix(BOM) if number == 1 else line).removesuffix(b"\r")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        print(f"warning: line {number}: not UTF-8 at byte {error.start + 1}; replaced", file=sys.stderr)
        return line.decode("utf-8", errors="replace")


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO | codecs.StreamWriter]:
    """Where translations go; a file is there only when it is whole."""
    if path is None:
        yield sys.stdout
        return
    with output(path) as file:
        yield codecs.getwriter("utf-8")(file)


def _draw(seen: list[AttentionWeights], wishes: TranslateOptions, folder: Path) -> None:
    """Draw what was seen of the run in `folder`. Raises UserError when that is nothing."""
    if not seen:
        raise UserError("there is no attention to draw: there was no line with words")
    if wishes.attention == "-":
        columns = shutil.get_terminal_size().columns
        print(attention_text(seen[0], wishes.attention_selection, columns=columns))
    else:
        draw_attention(seen, Path(wishes.attention or ""), wishes.attention_selection, run=folder)

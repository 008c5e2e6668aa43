"""The work of `seq2attn translate`: where lines come from, what is printed of each, and the picture."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TextIO

from seq2attn.arrivals import arriving
from seq2attn.drawing.alignment import alignment_text
from seq2attn.drawing.figure import check_picture
from seq2attn.drawing.page import Drawing, attention_page
from seq2attn.drawing.picture import draw_alignment
from seq2attn.errors import DataError, UserError
from seq2attn.run import Run
from seq2attn.search.config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.text.files import write_bytes
from seq2attn.text.lines import BOM
from seq2attn.translator import Translation, Translator, chosen_search


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    sentences: tuple[str, ...]
    input_file: Path | None
    output_file: Path | None
    beam: int | None
    greedy: bool
    n_best: int
    as_json: bool
    attention: str | None
    device: str
    overrides: tuple[str, ...]

    @property
    def wants_page(self) -> bool:
        """Whether the attention of every line is to be drawn as a page, rather than that of the first."""
        return self.attention is not None and Path(self.attention).suffix.lower() == ".html"


def translate_stream(folder: Path, wishes: Wishes) -> None:
    """Translate what was asked for, line by line.

    Raises UserError when wishes exclude each other or a file cannot be used.
    """
    if wishes.sentences and wishes.input_file is not None:
        raise UserError("give sentences or --input, not both")
    search = chosen_search(
        Run(folder).experiment(wishes.overrides).search, beam=wishes.beam, greedy=wishes.greedy
    )
    check_n_best(search, wishes.n_best)
    if wishes.attention not in (None, "-") and not wishes.wants_page:
        check_picture(Path(wishes.attention), others=(".html",))
    translator = Translator.load(folder, wishes.device)
    number, drawings = 0, list[Drawing]()
    with _input(wishes) as groups, _output(wishes.output_file) as out:
        for lines in groups:
            drawn = wishes.attention is not None and (number == 0 or wishes.wants_page)
            found = translator.translate(lines, search, attention=drawn)
            for line, translation in zip(lines, found, strict=True):
                number += 1
                out.write(shown(number, line, translation, wishes))
                if drawn and (line.strip() or not wishes.wants_page):
                    drawings.append(_drawing(translation))
            out.flush()
            if drawings and not wishes.wants_page:
                _draw(drawings.pop(), wishes)
    if drawings:
        write_bytes(Path(wishes.attention or ""), attention_page(drawings).encode())


def check_n_best(search: SearchConfig, n_best: int) -> None:
    """Raises UserError when a search does not find as many translations as are wanted."""
    width = search.width if isinstance(search, BeamConfig | SampleConfig) else 1
    if n_best > width:
        raise UserError(
            f"--n-best {n_best} needs a search at least as wide; this one finds {width} (--beam {n_best})"
        )


def shown(number: int, line: str, translation: Translation, wishes: Wishes) -> str:
    """What is printed of a line's translations."""
    best = [translation, *translation.alternatives][: wishes.n_best]
    if wishes.as_json:
        found = [
            {"text": t.text, "score": t.score, "log_prob": t.log_prob, "tokens": list(t.tokens)} for t in best
        ]
        content = {"source": line, **found[0]}
        if wishes.n_best > 1:
            content["alternatives"] = found[1:]
        return json.dumps(content, ensure_ascii=False) + "\n"
    if wishes.n_best > 1:
        return "".join(f"{number}\t{t.score:.4f}\t{t.text}\n" for t in best)
    return translation.text + "\n"


@contextmanager
def _input(wishes: Wishes) -> Iterator[Iterator[list[str]]]:
    """What to translate, in groups: sentences of the command line, or the lines of a file or of standard input."""
    if wishes.sentences:
        yield _lines(iter([[os.fsencode(sentence) for sentence in wishes.sentences]]), wishes)
    elif wishes.input_file is None:
        if sys.stdin is None:  # closed by whoever started us
            raise UserError("there is no standard input; give sentences or --input")
        yield _lines(arriving(sys.stdin.buffer), wishes)
    else:
        try:
            stream = wishes.input_file.open("rb")
        except OSError as error:
            raise DataError(f"{wishes.input_file}: cannot be read: {error.strerror}") from None
        with stream:
            yield _lines(arriving(stream), wishes)


def _lines(groups: Iterator[list[bytes]], wishes: Wishes) -> Iterator[list[str]]:
    """The text of the lines; one that is to be drawn is a group of its own."""
    if wishes.attention is not None and not wishes.wants_page:
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
def _output(path: Path | None) -> Iterator[TextIO]:
    """Where translations go; a file is there only when it is whole."""
    if path is None:
        yield sys.stdout
        return
    whole = path.resolve()  # behind a symbolic link
    is_file = whole.is_file() or not whole.exists()  # else a device or a pipe, which must not be replaced
    partial = whole.with_name(whole.name + ".partial") if is_file else whole
    try:
        file = partial.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    with file:
        yield file
    if is_file:
        partial.replace(whole)


def _drawing(translation: Translation) -> Drawing:
    """Where a translation looked."""
    if translation.attention is None:
        raise UserError("there is no attention to draw: the model has none, or the first line is empty")
    source, target = [*translation.source_tokens, "</s>"], [*translation.tokens, "</s>"]
    return Drawing(source, target, translation.attention)


def _draw(drawing: Drawing, wishes: Wishes) -> None:
    """The attention of the top layer: in the terminal the mean of its heads, in a file each of them."""
    top = drawing.weights[-1]
    if wishes.attention == "-":
        print(alignment_text(drawing.source, drawing.target, top.mean(0)))
    else:
        draw_alignment(drawing.source, drawing.target, top, Path(wishes.attention or ""))

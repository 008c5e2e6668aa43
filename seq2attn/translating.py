"""The work of `seq2attn translate`: where lines come from, what is printed of each, and the picture."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from seq2attn.arrivals import arriving
from seq2attn.drawing.alignment import alignment_text
from seq2attn.drawing.picture import draw_alignment
from seq2attn.errors import DataError, UserError
from seq2attn.run import Run
from seq2attn.search.config import BeamConfig, SampleConfig, SearchConfig
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
    translator = Translator.load(folder, wishes.device)
    number = 0
    with _output(wishes.output_file) as out:
        for lines in _input(wishes):
            drawn = number == 0 and wishes.attention is not None
            for translation, line in zip(
                translator.translate(lines, search, attention=drawn), lines, strict=True
            ):
                number += 1
                out.write(shown(number, line, translation, wishes))
                if number == 1 and wishes.attention is not None:
                    _draw(translation, wishes.attention)
            out.flush()


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


def _input(wishes: Wishes) -> Iterator[list[str]]:
    """The lines to translate, in groups."""
    if wishes.sentences:
        yield list(wishes.sentences)
        return
    try:
        stream = sys.stdin.buffer if wishes.input_file is None else wishes.input_file.open("rb")
    except OSError as error:
        raise DataError(f"{wishes.input_file}: cannot be read: {error.strerror}") from None
    number = 0
    with stream:
        for group in arriving(stream):
            yield [_decoded(line, number + i) for i, line in enumerate(group, 1)]
            number += len(group)


def _decoded(line: bytes, number: int) -> str:
    """The text of a line. What is not UTF-8 is replaced, with a warning: one bad line shall not cost the others."""
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
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def _draw(translation: Translation, where: str) -> None:
    """The attention of a translation, in the terminal or as a file."""
    if translation.attention is None:
        raise UserError("there is no attention to draw: the model has none, or the first line is empty")
    source, target = [*translation.source_tokens, "</s>"], [*translation.tokens, "</s>"]
    if where == "-":
        print(alignment_text(source, target, translation.attention.mean(0)))
    else:
        draw_alignment(source, target, translation.attention, Path(where))

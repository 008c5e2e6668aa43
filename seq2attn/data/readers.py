"""Parallel text in its usual forms, every complaint with its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt

from seq2attn.config.base import Config, InputPath
from seq2attn.data.word_alignment import WordAlignment, parse_pharaoh
from seq2attn.errors import DataError
from seq2attn.io.text_lines import read_lines
from seq2attn.tokenizers.tags import NAME, add_tag

__all__ = [
    "CorpusConfig",
    "JSONLinesConfig",
    "PlainTextConfig",
    "TSVConfig",
    "read_lines",
    "read_pairs",
    "read_pairs_with_alignments",
    "read_references",
]

Pair = tuple[str, str]


class _TaggedConfig(Config):
    """What corpora of all kinds may say."""

    tag: Annotated[str, Field(pattern=NAME)] | None = None
    """A name such as `2en` or `news`, of which the token `<2en>` is put before each source: see docs/data.md."""
    repeat: Annotated[float, Field(gt=0, le=1000)] = 1
    """How often each pair is in an epoch of training; of a fraction, pairs are drawn anew for each epoch."""


class PlainTextConfig(_TaggedConfig):
    """Two files of which each line of one is the translation of the same line of the other."""

    kind: Literal["plain"] = "plain"
    source: InputPath
    """Text in the language translated from; .gz and .xz are decompressed."""
    target: InputPath
    """Text in the language translated into."""
    alignment: InputPath | None = None
    """Which words of each pair belong together, as `0-0 1-2`: source and target words, counted from 0."""

    references: tuple[InputPath, ...] = ()
    """Further translations of each line, of the dev set and of test sets: all count in their scores."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files read."""
        return (*self._sides, *self.references)

    @property
    def _sides(self) -> tuple[Path, ...]:
        return (self.source, self.target, *([self.alignment] if self.alignment else []))

    def pairs(self) -> Iterator[Pair]:
        """The lines of both files, side by side."""
        return (pair for pair, _ in self.pairs_with_alignments())

    def pairs_with_alignments(self) -> Iterator[tuple[Pair, WordAlignment | None]]:
        """The lines of both files, side by side, and their links where there is a file of them."""
        counts = [0] * len(self._sides)
        for number, lines in enumerate(zip_longest(*map(read_lines, self._sides)), start=1):
            counts = [count + (line is not None) for count, line in zip(counts, lines, strict=True)]
            source, target, *links = lines
            if None not in lines:
                place = f"{self.alignment}:{number}"
                yield (
                    (source, target),
                    parse_pharaoh(links[0], (source, target), place) if links else None,
                )
        why = (
            "one must be the translation of the other",
            "one must tell which words of the other belong together",
        )
        for count, file, reason in zip(counts[1:], self._sides[1:], why, strict=False):
            if count != counts[0]:
                raise DataError(
                    f"{self.source} has {_lines(counts[0])} and {file} has {_lines(count)}: line by line, {reason}"
                )


class TSVConfig(_TaggedConfig):
    """A file with a pair a line, in columns separated by tabs (quotes are ordinary characters)."""

    kind: Literal["tsv"] = "tsv"
    path: InputPath
    """The file; .gz and .xz are decompressed."""
    source: PositiveInt = 1
    """Column of the language translated from; the first is 1."""
    target: PositiveInt = 2
    """Column of the language translated into."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The file read."""
        return (self.path,)

    def pairs(self) -> Iterator[Pair]:
        """Two columns of each line."""
        needed = max(self.source, self.target)
        for number, line in enumerate(read_lines(self.path), start=1):
            columns = line.split("\t")
            if len(columns) < needed:
                found = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
                raise DataError(f"{self.path}:{number}: expected at least {needed} columns, found {found}")
            yield columns[self.source - 1], columns[self.target - 1]


class JSONLinesConfig(_TaggedConfig):
    """A file with a JSON object a line."""

    kind: Literal["jsonl"] = "jsonl"
    path: InputPath
    """The file; .gz and .xz are decompressed."""
    source: str = "source"
    """Key of the text translated from."""
    target: str = "target"
    """Key of the text translated into."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The file read."""
        return (self.path,)

    def pairs(self) -> Iterator[Pair]:
        """Two values of each object."""
        for number, line in enumerate(read_lines(self.path), start=1):
            place = f"{self.path}:{number}"
            try:
                item = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{place}: is not JSON ({error})") from None
            if not isinstance(item, dict):
                raise DataError(f"{place}: expected a JSON object, found {_json_type(item)}")
            yield _text(item, self.source, place), _text(item, self.target, place)


CorpusConfig = Annotated[PlainTextConfig | TSVConfig | JSONLinesConfig, Field(discriminator="kind")]


def read_pairs(corpus: CorpusConfig) -> Iterator[Pair]:
    """The (source, target) pairs of a corpus, in their order, each source with the tag of the corpus.

    Raises: DataError at the first line that cannot be used.
    """
    return ((add_tag(source, corpus.tag), target) for source, target in corpus.pairs())


def read_pairs_with_alignments(corpus: CorpusConfig) -> Iterator[tuple[Pair, WordAlignment | None]]:
    """The pairs of a corpus, each with its links where the corpus has them.

    Raises: DataError at the first line that cannot be used.
    """
    if not isinstance(corpus, PlainTextConfig):
        yield from ((pair, None) for pair in read_pairs(corpus))
        return
    for (source, target), alignment in corpus.pairs_with_alignments():
        tagged = add_tag(source, corpus.tag)
        if alignment is not None and tagged != source:
            alignment = alignment.shifted(1)  # the tag is a word, too
        yield (tagged, target), alignment


def check_regular(corpus: CorpusConfig) -> None:
    """Refuse a corpus that a run's config names and that is a pipe or a device: it may have no end.

    Raises: DataError.
    """
    for file in corpus.files:
        if file.exists() and not file.is_file():
            raise DataError(f"{file}: is no regular file (perhaps a pipe or a device), and a run's config names it")


def read_references(corpus: CorpusConfig, targets: Sequence[str]) -> list[Sequence[str]]:
    """The reference streams of a corpus: its `targets`, then each file of further references.

    Raises: DataError where one of them has another number of lines.
    """
    further = corpus.references if isinstance(corpus, PlainTextConfig) else ()
    streams = [targets, *(list(read_lines(path)) for path in further)]
    for path, stream in zip(further, streams[1:], strict=True):
        if len(stream) != len(targets):
            raise DataError(
                f"{corpus.files[1]} has {_lines(len(targets))} and {path} has {_lines(len(stream))}: line by line,"
                " they must be translations of the same source"
            )
    return streams


def _text(item: dict[str, Any], key: str, place: str) -> str:
    if key not in item:
        raise DataError(f'{place}: has no key "{key}"; its keys are {", ".join(map(json.dumps, item)) or "none"}')
    value = item[key]
    if not isinstance(value, str):
        raise DataError(f'{place}: the value of "{key}" must be a string, found {_json_type(value)}')
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can escape half a character
        raise DataError(f'{place}: the value of "{key}" is not Unicode ({error.reason})') from None
    return value


def _json_type(value: Any) -> str:
    names = {str: "a string", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"

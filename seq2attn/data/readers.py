"""Corpora of sentence pairs: plain text, TSV and JSON lines; errors name the file and line."""

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, PositiveInt, ValidationError

from seq2attn.config.base import Config, InputPath
from seq2attn.data.corpus import TextPair
from seq2attn.data.word_alignment import WordAlignment, parse_pharaoh
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import parse_json
from seq2attn.io.terminal import plural
from seq2attn.io.text_lines import read_lines
from seq2attn.tokenizers.base import TAG_NAME, add_tag


class Pair(NamedTuple):
    """A source and its translation, and their word alignment if the corpus has it; a tag is no word of it."""

    text: TextPair
    alignment: WordAlignment | None = None


Repeat = Annotated[float, Field(gt=0, le=1000)]


class _CorpusConfig(Config):
    """Options of corpora in all formats."""

    tag: Annotated[str, Field(pattern=TAG_NAME)] | None = None
    """A name such as `2en` or `news`; the token `<2en>` is put before each source: see docs/data.md."""
    repeat: Repeat = 1.0
    """How often each pair is in an epoch of training; a fraction is a random sample of the pairs, new in each epoch."""


class PlainTextConfig(_CorpusConfig):
    """Two files; each line of one is the translation of the same line of the other."""

    kind: Literal["plain"] = "plain"
    source: InputPath
    """Text in the source language; .gz and .xz are decompressed."""
    target: InputPath
    """Text in the target language."""
    alignment: InputPath | None = None
    """Word alignments of the pairs, as `0-0 1-2`: source and target words, counted from 0."""

    references: tuple[InputPath, ...] = ()
    """Further translations of each line, for dev and test sets; the scores use all of them."""

    @classmethod
    def of_files(
        cls,
        source: Path,
        target: Path,
        *,
        references: Sequence[Path] = (),
        alignment: Path | None = None,
        tag: str | None = None,
    ) -> Self:
        """The corpus of files that a command names. Raises DataError for a path that is not valid."""
        try:
            return cls(source=source, target=target, references=tuple(references), alignment=alignment, tag=tag)
        except ValidationError as error:
            first = error.errors()[0]
            raise DataError(f"{first['input']}: {first['msg'].removeprefix('Value error, ')}") from None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the corpus."""
        return (*self._parallel_files, *self.references)

    @property
    def _parallel_files(self) -> tuple[Path, ...]:
        return (self.source, self.target, *([self.alignment] if self.alignment else []))

    def pairs(self) -> Iterator[Pair]:
        """The lines of both files, and their word alignments if there is a file of them."""
        counts = [0] * len(self._parallel_files)
        for number, lines in enumerate(zip_longest(*map(read_lines, self._parallel_files)), start=1):
            counts = [count + (line is not None) for count, line in zip(counts, lines, strict=True)]
            source, target, *links = lines
            if None not in lines:
                text = source, target
                yield Pair(text, parse_pharaoh(links[0], text, f"{self.alignment}:{number}") if links else None)
        reasons = (
            "each line of one must be the translation of the same line of the other",
            "each pair needs a line of alignments",
        )
        for count, file, reason in zip(counts[1:], self._parallel_files[1:], reasons, strict=False):
            if count != counts[0]:
                first, other = plural(counts[0], "line"), plural(count, "line")
                raise DataError(f"{self.source} has {first} and {file} has {other}: {reason}")


class _OneFileConfig(_CorpusConfig):
    path: InputPath
    """The file; .gz and .xz are decompressed."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the corpus."""
        return (self.path,)


class TSVConfig(_OneFileConfig):
    """A file with one pair per line, in columns separated by tabs (quotes are ordinary characters)."""

    kind: Literal["tsv"] = "tsv"
    source: PositiveInt = 1
    """Column of the source language; the first is 1."""
    target: PositiveInt = 2
    """Column of the target language."""

    def pairs(self) -> Iterator[Pair]:
        """Two columns of each line."""
        num_expected, max_columns = max(self.source, self.target), 0
        for number, line in enumerate(read_lines(self.path), start=1):
            columns = line.split("\t")
            if len(columns) < num_expected:
                found = plural(len(columns), "column")
                raise DataError(f"{self.path}:{number}: expected at least {num_expected} columns, found {found}")
            max_columns = max_columns or len(columns)
            if len(columns) > max_columns:
                found = f"{len(columns)} columns, and line 1 has {max_columns}"
                raise DataError(f"{self.path}:{number}: {found}; is there a tab in a text?")
            yield Pair((columns[self.source - 1], columns[self.target - 1]))


class JSONLinesConfig(_OneFileConfig):
    """A file with one JSON object per line."""

    kind: Literal["jsonl"] = "jsonl"
    source: str = "source"
    """Key of the source text."""
    target: str = "target"
    """Key of the target text."""

    def pairs(self) -> Iterator[Pair]:
        """Two values of each object."""
        for number, line in enumerate(read_lines(self.path), start=1):
            place = f"{self.path}:{number}"
            try:
                item = parse_json(line, place, "each line should be a JSON object")
            except RunError as error:
                raise DataError(str(error)) from None
            if not isinstance(item, dict):
                raise DataError(f"{place}: expected a JSON object, found {_json_type(item)}")
            yield Pair((_text(item, self.source, place), _text(item, self.target, place)))


CorpusConfig = Annotated[PlainTextConfig | TSVConfig | JSONLinesConfig, Field(discriminator="kind")]


def read_pairs(corpus: CorpusConfig) -> Iterator[Pair]:
    """The pairs of a corpus, each source with its tag. Raises DataError at the first invalid line."""
    for (source, target), alignment in corpus.pairs():
        yield Pair((add_tag(source, corpus.tag), target), alignment)


def check_regular(corpus: CorpusConfig) -> None:
    """Raises DataError for a pipe, which can be read only once, and for a device, which may be infinite."""
    for file in corpus.files:
        if file.exists() and not (file.is_file() or file.is_dir()):  # the error for a folder is that of read_lines
            raise DataError(f"{file}: is not a regular file; write text from a pipe or a device to a file first")


def read_references(corpus: CorpusConfig, targets: Sequence[str]) -> list[Sequence[str]]:
    """The reference streams of a corpus: its `targets`, then each file of further references.

    Raises DataError when a stream has another number of lines.
    """
    streams = [targets]
    for path in corpus.references if isinstance(corpus, PlainTextConfig) else ():
        stream = list(read_lines(path))
        if len(stream) != len(targets):
            raise DataError(
                f"{corpus.files[1]} has {plural(len(targets), 'line')} and {path} has {plural(len(stream), 'line')}:"
                " each line must be a translation of the same source line"
            )
        streams.append(stream)
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

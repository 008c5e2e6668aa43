"""Glossaries: terms of the source with the terms that their translations must have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import regex

from seq2attn.errors import DataError, UserError
from seq2attn.io.text_lines import read_lines
from seq2attn.search.search_config import BeamConfig, SearchConfig
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair
from seq2attn.tokenizers.normalize import WORD_END, WORD_START, NormalizeConfig, is_blank
from seq2attn.tokenizers.vocabulary import UNK

AT_WORD_END = regex.compile(WORD_END)


@dataclass(frozen=True)
class Term:
    """A target term and its token ids."""

    text: str
    ids: tuple[int, ...]  # empty for one that only replaces unknown words


@dataclass(frozen=True)
class TermCounts:
    """The target terms of a text that its translations have."""

    met: int
    terms: int

    def __str__(self) -> str:
        if not self.terms:
            return "no source line has one of its terms"
        return f"{self.met:,} of {self.terms:,} terms are in the translations ({self.met / self.terms:.1%})"


@dataclass(frozen=True)
class Glossary:
    """Target terms by their source terms. All text is compared as the tokenizers normalize it."""

    terms: Mapping[str, Term]
    tokenizers: TokenizerPair

    @classmethod
    def load(cls, path: Path, tokenizers: TokenizerPair, *, replace_unk: bool = False) -> Glossary:
        """The glossary of a file: in each line a source term, a tab and a target term.

        Raises: DataError for another line, for a source term with two target terms, and for a target term that the
        vocabulary cannot produce, unless its source term is one token and `replace_unk` puts it in place of `<unk>`.
        """
        terms, lines = dict[str, Term](), dict[str, int]()
        for number, line in enumerate(read_lines(path), start=1):
            source, *others = (column.strip() for column in line.split("\t"))
            source = _normalize(tokenizers.source, source)
            if len(others) != 1 or not source or is_blank(others[0]):
                raise DataError(f"{path}:{number}: expected a source term, a tab and a target term")
            ids = tuple(tokenizers.target.encode_phrase(others[0]))
            if replace_unk and UNK in ids and len(tokenizers.source.encode_phrase(source)) == 1:
                ids = ()
            elif UNK in ids or not ids:
                raise DataError(f"{path}:{number}: the model cannot produce {others[0]!r}: not all tokens are known")
            if terms.setdefault(source, Term(others[0], ids)).text != others[0]:
                raise DataError(f"{path}:{number}: {source!r} has another target term in line {lines[source]}")
            lines.setdefault(source, number)
        return cls(terms, tokenizers)

    def find(self, text: str) -> list[Term]:
        """The target terms of the source terms in a text, each once; of overlapping source terms the longest."""
        _, untagged = self.tokenizers.source.split_tag(text)
        text, spans = _normalize(self.tokenizers.source, untagged), list[tuple[int, int]]()
        for start, end in sorted(self._matches(text), key=lambda span: (span[0] - span[1], span)):
            if all(end <= other_start or other_end <= start for other_start, other_end in spans):
                spans.append((start, end))
        return list(dict.fromkeys(self.terms[text[start:end]] for start, end in sorted(spans)))

    def _matches(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each source term in a text; they may overlap."""
        for longest in self._pattern.finditer(text, overlapped=True):  # of those with the same start
            start = longest.start()
            for end in range(start + 1, longest.end() + 1):
                if text[start:end] in self.terms and AT_WORD_END.match(text, end):
                    yield start, end

    @cached_property
    def _pattern(self) -> regex.Pattern[str]:
        sources = map(regex.escape, sorted(self.terms, key=len, reverse=True))
        return regex.compile(f"{WORD_START}(?:{'|'.join(sources) or '(?!)'}){WORD_END}")

    def phrases(self, text: str, search: SearchConfig) -> tuple[tuple[int, ...], ...] | None:
        """The token ids of all target terms for a text; None if they have more tokens than a translation may have.

        Raises UserError for a search that cannot follow them.
        """
        check_glossary_search(search)
        phrases = tuple(term.ids for term in self.find(text) if term.ids)
        return phrases if sum(map(len, phrases)) <= search.lengths.max_length else None

    def word(self, source: str) -> str:
        """The target term of a source word; the word itself if it has none."""
        return self.terms[source].text if source in self.terms else source

    def count_met(self, sources: Iterable[str], translations: Iterable[str]) -> TermCounts:
        """The terms of all lines that their translations have."""
        met = [one for line in zip(sources, translations, strict=True) for one in self.is_met(*line)]
        return TermCounts(sum(met), len(met))

    def is_met(self, source: str, translation: str) -> Iterator[bool]:
        """For each term of a line, True if the translation has it as whole words."""
        normalize = partial(_normalize, self.tokenizers.target)
        text, terms = normalize(translation), (regex.escape(normalize(term.text)) for term in self.find(source))
        return (regex.search(f"{WORD_START}{term}{WORD_END}", text) is not None for term in terms)


def _normalize(tokenizer: Tokenizer, text: str) -> str:
    """The text that a tokenizer segments; for those of pretrained models in NFC and with single spaces."""
    text = tokenizer.normalize(text)
    return text if isinstance(tokenizer.config, NormalizeConfig) else NormalizeConfig().normalize(text)


def check_glossary_search(search: SearchConfig) -> None:
    """Raises UserError for a search that cannot follow a glossary."""
    if not isinstance(search, BeamConfig):
        raise UserError("``glossary`` needs beam search: ``beam=5``")
    for key, is_other in (
        ("num_beam_groups", search.num_beam_groups > 1),
        ("no_repeat_ngram_size", search.no_repeat_ngram_size is not None),
    ):
        if is_other:
            raise UserError(f"``glossary`` and `search.{key}` exclude each other")

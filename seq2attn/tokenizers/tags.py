"""Tags: tokens such as `<2en>` before a source, for its domain or the language to translate into (Johnson et al. 2017).

Each is one entry of the vocabulary, after those of the tokenizer that it is given beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from seq2attn.errors import RunError, UserError
from seq2attn.io.files import read_object, write_json
from seq2attn.tokenizers.characters import CharacterTokenizer
from seq2attn.tokenizers.subwords import SubwordTokenizer
from seq2attn.tokenizers.tokenizer_files import TAGS
from seq2attn.tokenizers.vocabulary import Vocabulary
from seq2attn.tokenizers.words import WordTokenizer

UntaggedTokenizer: TypeAlias = WordTokenizer | CharacterTokenizer | SubwordTokenizer
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""The name of a tag, as configs and commands have it: without `<` and `>`."""
_LEADING_TAG = re.compile(r"\s*(<[^\s<>]+>)(?:\s+|$)")


def add_tag(line: str, tag: str | None) -> str:
    """The line with a tag before it; an empty line stays empty."""
    return line if tag is None or not line.strip() else f"<{tag}> {line}"


@dataclass(frozen=True)
class TaggedTokenizer:
    """A tokenizer for lines that may begin with a tag."""

    tokenizer: UntaggedTokenizer
    tags: tuple[str, ...]  # tokens such as `<2en>`
    required: bool = False  # whether all training text had one

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens and their ids."""
        known = self.tokenizer.vocabulary.tokens  # those of text with spaces around tags may have them already
        return Vocabulary((*known, *(tag for tag in self.tags if tag not in known)))

    @property
    def is_stochastic(self) -> bool:
        """Whether `sample` differs from `encode`."""
        return self.tokenizer.is_stochastic

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag that a line begins with, or nothing, and the rest."""
        found = _LEADING_TAG.match(line)
        return (found[1], line[found.end() :]) if found and found[1] in self.tags else ("", line)

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        tag, rest = self.split_tag(line)
        return [*self._ids(tag), *self.tokenizer.encode(rest)]

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, perhaps cut at random: a function of `lines` and `seed` alone."""
        tags, rests = zip(*map(self.split_tag, lines), strict=True) if lines else ((), ())
        drawn = self.tokenizer.sample(rests, seed)
        return [[*self._ids(tag), *ids] for tag, ids in zip(tags, drawn, strict=True)]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as shown to people."""
        return [token for tags, run in self._runs(ids) for token in tags or self.tokenizer.convert_ids_to_tokens(run)]

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the number of the word of `decode(ids)` it belongs to; PAD, BOS and EOS: -1."""
        indices, start = list[int](), 0
        for tags, run in self._runs(ids):
            found = list(range(len(tags))) if tags else self.tokenizer.word_ids(run)
            indices += [start + index if index >= 0 else index for index in found]
            start += max(found, default=-1) + 1
        return indices

    def decode(self, ids: Sequence[int]) -> str:
        """The text, its tags among it, without PAD, BOS and EOS."""
        texts = [" ".join(tags) or self.tokenizer.decode(run) for tags, run in self._runs(ids)]
        return " ".join(filter(None, texts))

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        write_json(folder / TAGS, {"tags": list(self.tags), "required": self.required})
        self.tokenizer.save(folder)

    def _ids(self, tag: str) -> list[int]:
        return [self.vocabulary.id(tag)] if tag else []

    def _runs(self, ids: Sequence[int]) -> Iterator[tuple[list[str], list[int]]]:
        """The ids in runs, each with its tokens if these are tags."""
        of_tags = {self.vocabulary.id(tag): tag for tag in self.tags}
        for is_tags, group in groupby(map(int, ids), of_tags.__contains__):
            run = list(group)
            yield ([of_tags[id] for id in run] if is_tags else []), run


def with_tags(tokenizer: UntaggedTokenizer, folder: Path, fix: str) -> UntaggedTokenizer | TaggedTokenizer:
    """The tokenizer with the tags that were saved beside it. Raises RunError for a file that does not list tags."""
    path = folder / TAGS
    if not path.exists():
        return tokenizer
    content = read_object(path, fix)
    tags, required = content.get("tags"), content.get("required")
    if not isinstance(tags, list) or not all(isinstance(tag, str) and _LEADING_TAG.match(tag) for tag in tags):
        raise RunError(f"{path}: does not list tags; {fix}")
    return TaggedTokenizer(tokenizer, tuple(tags), required is True)


def split_tag(tokenizer: object, line: str) -> tuple[str, str]:
    """The tag that a line begins with, or nothing, and the rest."""
    return tokenizer.split_tag(line) if isinstance(tokenizer, TaggedTokenizer) else ("", line)


def check_tag(tokenizer: object, tag: str) -> None:
    """Raises UserError unless the model of a source tokenizer was trained with a tag."""
    tags = tokenizer.tags if isinstance(tokenizer, TaggedTokenizer) else ()
    if f"<{tag}>" not in tags:
        known = ", ".join(f"`{known[1:-1]}`" for known in tags)
        has = f"its tags are {known}" if tags else "it was trained without tags (`data.train` with `tag`)"
        raise UserError(f"the model does not know the tag `{tag}`: {has}")

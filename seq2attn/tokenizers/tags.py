"""Tags: tokens such as `<2en>` before a source, for its domain or the language to translate into (Johnson et al. 2017).

Each is one entry of the vocabulary, after those of the tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import groupby
from pathlib import Path
from typing import Self

from seq2attn.errors import RunError, UserError
from seq2attn.io.files import read_object, write_json
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.vocabulary import TOKENIZER_HINT, Vocabulary

TAGS_FILE = "tags.json"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""The name of a tag in configs and commands: without `<` and `>`."""
_LEADING_TAG = re.compile(r"\s*(<[^\s<>]+>)(?:\s+|$)")


def add_tag(line: str, tag: str | None) -> str:
    """The line with a tag before it; an empty line stays empty."""
    return line if tag is None or is_blank(line) else f"<{tag}> {line}"


class TaggedTokenizer(Tokenizer):
    """A tokenizer for lines that may begin with a tag."""

    def __init__(self, tokenizer: Tokenizer, tags: tuple[str, ...], required: bool = False) -> None:
        """`tags` are tokens such as `<2en>`; `required` if all training text had one."""
        tokens = tokenizer.vocabulary.tokens  # may include tags, if the training text has them between spaces
        super().__init__(tokenizer.config, Vocabulary(tuple(dict.fromkeys((*tokens, *tags)))))
        self.tokenizer, self.tags, self.required = tokenizer, tags, required
        self.is_stochastic, self.line_prefix = tokenizer.is_stochastic, tokenizer.line_prefix

    def with_tokenizer(self, tokenizer: Tokenizer) -> Self:
        """The same tags with another tokenizer of the same vocabulary, which is large and therefore shared."""
        tagged = copy(self)
        tagged.tokenizer, tagged.config, tagged.line_prefix = tokenizer, tokenizer.config, tokenizer.line_prefix
        return tagged

    @property
    def languages(self) -> Mapping[str, str]:
        """The tag of each language of a multilingual model."""
        return self.tokenizer.languages

    def with_language(self, language: str) -> Self:
        """The same with the tag of a language of `languages`."""
        return self.with_tokenizer(self.tokenizer.with_language(language))

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag at the beginning of a line, or an empty string, and the rest."""
        match = _LEADING_TAG.match(line)
        return (match[1], line[match.end() :]) if match and match[1] in self.tags else ("", line)

    def lacks_tag(self, line: str) -> bool:
        """True for text without a tag if all training text had one."""
        return self.required and not is_blank(line) and not self.split_tag(line)[0]

    def tagged_prefix(self, tag: str) -> tuple[int, ...]:
        """The id of a tag, if any, and those before each line of the tokenizer."""
        return (*self._tag_ids(tag), *self.line_prefix)

    def normalize(self, line: str) -> str:
        """The line, without its tag, that is segmented."""
        return self.tokenizer.normalize(line)

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        tag, rest = self.split_tag(line)
        return [*self._tag_ids(tag), *self.tokenizer.encode(rest)]

    def encode_phrase(self, text: str) -> list[int]:
        """The ids of a text within a line: in scripts without spaces, with none before it."""
        return self.tokenizer.encode_phrase(text)

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, segmented at random: a function of `lines` and `seed` alone."""
        pairs = [self.split_tag(line) for line in lines]
        samples = self.tokenizer.sample([rest for _, rest in pairs], seed)
        return [[*self._tag_ids(tag), *ids] for (tag, _), ids in zip(pairs, samples, strict=True)]

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the index of its word in `decode(ids)`; -1 for PAD, BOS and EOS."""
        word_ids, num_words = list[int](), 0
        for tags, run in self._runs(ids):
            run_word_ids = list(range(len(tags))) if tags else self.tokenizer.word_ids(run)
            word_ids += [num_words + index if index >= 0 else index for index in run_word_ids]
            num_words += max(run_word_ids, default=-1) + 1
        return word_ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text with its tags, without PAD, BOS and EOS."""
        texts = [" ".join(tags) or self.tokenizer.decode(run) for tags, run in self._runs(ids)]
        return " ".join(filter(None, texts))

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` reads."""
        write_json(folder / TAGS_FILE, {"tags": list(self.tags), "required": self.required})
        self.tokenizer.save(folder)

    def _tag_ids(self, tag: str) -> list[int]:
        return [self.vocabulary.id(tag)] if tag else []

    def _runs(self, ids: Sequence[int]) -> Iterator[tuple[list[str], list[int]]]:
        """The ids in runs of tags, each with its tokens, and runs of others, without."""
        tags_by_id = {self.vocabulary.id(tag): tag for tag in self.tags}
        for is_tags, group in groupby(map(int, ids), tags_by_id.__contains__):
            run = list(group)
            yield ([tags_by_id[id] for id in run] if is_tags else []), run


def load_tags(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """The tokenizer with the tags saved beside it, if any. Raises RunError for a file that does not list tags."""
    path = folder / TAGS_FILE
    if not path.exists():
        return tokenizer
    content = read_object(path, TOKENIZER_HINT)
    tags = content.get("tags")
    if not isinstance(tags, list) or not all(isinstance(tag, str) and _LEADING_TAG.match(tag) for tag in tags):
        raise RunError(f"{path}: does not list tags; {TOKENIZER_HINT}")
    return TaggedTokenizer(tokenizer, tuple(tags), content.get("required") is True)


def tags_of(tokenizer: Tokenizer) -> tuple[str, ...]:
    """The tags of a tokenizer, such as `<2en>`."""
    return tokenizer.tags if isinstance(tokenizer, TaggedTokenizer) else ()


def check_tag(tokenizer: Tokenizer, tag: str | None) -> None:
    """Raises UserError unless a tag is None or one that the model of a source tokenizer was trained with."""
    tags = tags_of(tokenizer)
    if tag is not None and f"<{tag}>" not in tags:
        known = ", ".join(f"`{known[1:-1]}`" for known in tags)
        has = f"its tags are {known}" if tags else "it was trained without tags (`data.train` with `tag`)"
        raise UserError(f"the model does not know the tag `{tag}`: {has}")

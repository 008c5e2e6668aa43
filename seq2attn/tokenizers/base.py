"""The interface of all tokenizers."""

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

from seq2attn.config.base import Config
from seq2attn.errors import UserError
from seq2attn.io.files import write_bytes, write_json
from seq2attn.tokenizers.normalize import SPACE_MARK, NormalizeConfig, collapse_whitespace, is_blank, is_unspaced
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, UNK, Vocabulary

TOKENIZER_FILE, VOCABULARY_FILE, TAGS_FILE = "tokenizer.json", "vocabulary.json", "tags.json"
LEADING_TAG = re.compile(r"\s*(<[^\s<>]+>)(?:\s+|$)")
TAG_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""The name of a tag in configs and commands: without `<` and `>`."""


def add_tag(line: str, tag: str | None) -> str:
    """The line with a tag before it; an empty line stays empty."""
    return line if tag is None or is_blank(line) else f"<{tag}> {line}"


class Tokenizer(ABC):
    """Conversion of a line to token ids and back.

    `decode(encode(line))` is the normalized line, apart from unknown tokens. A line may begin with one of `tags`. With
    `is_right_to_left` the first id of a line, after a tag, is that of its end: of a target that is written from its end
    (Liu et al. 2016), or of a source that is read from it (Sutskever et al. 2014, section 3.3).

    Subclasses segment text without tags, from left to right, by `_encode` and `_sample`, and join it by `_surface` or
    `_decode`.
    """

    is_stochastic: bool = False
    """Whether `sample` differs from `encode`."""
    line_prefix: tuple[int, ...] = ()
    """Ids before those of each line, such as the language of a multilingual model or the `[CLS]` of BERT."""
    line_tag: str | None = None
    """The tag of a language among them."""
    files: Mapping[str, bytes] = {}
    """Content of files beside the config and the vocabulary, by name."""
    tags: tuple[str, ...] = ()
    """Tokens that a line may begin with, such as `<2en>` for its domain or target language (Johnson et al. 2017); the
    last entries of the vocabulary."""
    requires_tag: bool = False
    """Whether all training text had a tag."""
    is_right_to_left: bool = False

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        self.config = config
        self.vocabulary = vocabulary
        self.pieces = vocabulary  # without tags: in the middle of a text they are no tokens
        self._silent = {*CONTROL_IDS}

    def with_tags(self, tags: tuple[str, ...], *, required: bool = False) -> Self:
        """This tokenizer with these tags in the place of its own; `required` if all training text had one."""
        tokens = self.pieces.tokens  # may include tags, if the training text has them between spaces
        vocabulary = Vocabulary(tuple(dict.fromkeys((*tokens, *tags))))
        return self._replace(vocabulary=vocabulary, tags=tags, requires_tag=required)

    def with_direction(self, *, right_to_left: bool) -> Self:
        """This tokenizer with its ids from right to left, or from left to right; a tag stays before them."""
        return self._replace(is_right_to_left=right_to_left)

    def _replace(self, **attributes: Any) -> Self:
        """A copy with other attributes; the large ones are shared."""
        tokenizer = copy(self)
        vars(tokenizer).update(attributes)
        return tokenizer

    def normalize(self, line: str) -> str:
        """The line, without its tag, that is segmented."""
        return self.config.normalize(line) if isinstance(self.config, NormalizeConfig) else line

    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""
        tag, text = self.split_tag(line) if self.tags else ("", line)
        return [*self._tag_ids(tag), *self._ordered(self._encode(text))]

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """The ids of `line_prefix` and of a text."""

    def encode_phrase(self, text: str) -> list[int]:
        """The ids of a text within a line: in scripts without spaces, with none before it."""
        return [*self._ordered(self._encode_phrase(text))]

    def _encode_phrase(self, text: str) -> list[int]:
        ids = self._encode(text)[len(self.line_prefix) :]
        first = self.pieces.tokens[ids[0]] if ids else ""
        if not first.startswith(SPACE_MARK) or not is_unspaced(text.strip()[0]):
            return ids
        bare = first.removeprefix(SPACE_MARK)
        pieces: Iterable[str] = bare if self.pieces.id(bare) == UNK else [bare]
        return [*map(self.pieces.id, pieces), *ids[1:]]

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, segmented at random if `is_stochastic`: a function of `lines` and `seed` alone."""
        pairs = [self.split_tag(line) if self.tags else ("", line) for line in lines]
        samples = self._sample([text for _, text in pairs], seed)
        return [[*self._tag_ids(tag), *self._ordered(ids)] for (tag, _), ids in zip(pairs, samples, strict=True)]

    def _sample(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens in human-readable form, with special tokens and marks of spaces."""
        return [self.vocabulary.tokens[int(id)] for id in ids]

    @cached_property
    def characters(self) -> frozenset[str]:
        """All characters in tokens, if others are encoded as bytes (`<0xC3>`); none if others are unknown tokens."""
        tokens = self.convert_ids_to_tokens(range(len(self.pieces)))
        return frozenset(" ").union(*tokens) if any(token.startswith("<0x") for token in tokens) else frozenset()

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the index of its word in `decode(ids)`; -1 for PAD, BOS and EOS. A tag is a word."""
        if not self.tags:
            return [*self._ordered(assign_word_ids(self._surfaces(self._ordered(ids))))]
        plain = self._replace(tags=())
        word_ids, num_words = list[int](), 0
        for tags, run in self._split_runs(ids):
            run_word_ids = range(len(tags)) if tags else plain.word_ids(run)
            word_ids += [num_words + index if index >= 0 else index for index in run_word_ids]
            num_words += max(run_word_ids, default=-1) + 1
        return word_ids

    def _surfaces(self, ids: Sequence[int]) -> Iterable[str]:
        """The text of each id with its spaces; nothing for those without text."""
        surface, silent = self._surface, self._silent
        return ["" if id in silent else surface(id) for id in ids]

    def _surface(self, id: int) -> str:
        return self.vocabulary.tokens[int(id)].replace(SPACE_MARK, " ")

    def decode(self, ids: Sequence[int]) -> str:
        """The text with its tags, always one line, without PAD, BOS and EOS; unknown tokens become `<unk>`."""
        if not self.tags:
            return self._decode(self._ordered(ids))
        texts = [" ".join(tags) or self._decode(self._ordered(run)) for tags, run in self._split_runs(ids)]
        return " ".join(filter(None, texts))

    def _decode(self, ids: Sequence[int]) -> str:
        return collapse_whitespace("".join(self._surfaces(ids)))

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag at the beginning of a line, or an empty string, and the rest."""
        match = LEADING_TAG.match(line)
        return (match[1], line[match.end() :]) if match and match[1] in self.tags else ("", line)

    def untagged(self, line: str) -> str:
        """The text of a line that is segmented, without a tag."""
        return self.normalize(self.split_tag(line)[1])

    def lacks_tag(self, line: str) -> bool:
        """True for text without a tag if all training text had one."""
        return self.requires_tag and not is_blank(line) and not self.split_tag(line)[0]

    def check_tag(self, tag: str | None) -> None:
        """Raises UserError unless a tag is None or one that the model of this source tokenizer was trained with."""
        if tag is not None and f"<{tag}>" not in self.tags:
            known = ", ".join(f"`{known[1:-1]}`" for known in self.tags)
            has = f"its tags are {known}" if self.tags else "it was trained without tags (`data.train` with `tag`)"
            raise UserError(f"the model does not know the tag `{tag}`: {has}")

    def tagged_prefix(self, tag: str) -> tuple[int, ...]:
        """Ids before those of the text of a line with a tag, or with none if it is empty."""
        return (*self._tag_ids(tag), *self.line_prefix)

    def reverse(self, line: str, items: Sequence[int]) -> tuple[int, ...]:
        """The `items`, one for each token of a line, in reverse order; that of a tag stays the first."""
        num_tags = bool(self.split_tag(line)[0])
        return (*items[:num_tags], *items[num_tags:][::-1])

    def _tag_ids(self, tag: str) -> list[int]:
        return [self.vocabulary.id(tag)] if tag else []

    def _ordered(self, ids: Sequence[int]) -> Sequence[int]:
        return ids[::-1] if self.is_right_to_left else ids

    def _split_runs(self, ids: Sequence[int]) -> Iterator[tuple[list[str], Sequence[int]]]:
        """The ids in runs of tags, each with its tokens, and runs of others, without."""
        tags_by_id = {self.vocabulary.id(tag): tag for tag in self.tags}
        for is_tags, group in groupby(ids, tags_by_id.__contains__):
            run = list(group)
            yield ([tags_by_id[id] for id in run] if is_tags else []), run

    @property
    def languages(self) -> Mapping[str, str]:
        """The tag of each language of a multilingual model."""
        return {}

    def with_language(self, language: str) -> Self:
        """This tokenizer with the tag of a language of `languages`."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` reads; the header is written last."""
        if self.tags:
            write_json(folder / TAGS_FILE, {"tags": list(self.tags), "required": self.requires_tag})
        for name, content in self.files.items():
            write_bytes(folder / name, content)
        self.pieces.save(folder / VOCABULARY_FILE)
        direction = {"right_to_left": True} if self.is_right_to_left else {}
        write_json(folder / TOKENIZER_FILE, {"config": self.config.model_dump(mode="json"), **direction})


class TokenizerPair(NamedTuple):
    """The tokenizers of source and target."""

    source: Tokenizer
    target: Tokenizer

    @property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of source and target."""
        return self.source.vocabulary, self.target.vocabulary

    @property
    def max_vocab_size(self) -> int:
        """The entries of the larger vocabulary."""
        return max(map(len, self.vocabularies))

    def encode(self, pair: tuple[str, str]) -> tuple[list[int], list[int]]:
        """The ids of a pair."""
        return self.source.encode(pair[0]), self.target.encode(pair[1])

    def save(self, folder: Path) -> None:
        """Write both, in the place of others, to the folder that `load_tokenizers` reads."""
        for side, tokenizer in self._asdict().items():
            shutil.rmtree(folder / side, ignore_errors=True)
            tokenizer.save(folder / side)

    def translate_into(self, language: str) -> Self:
        """The tokenizers for translations into another language of a multilingual model.

        Its tag is that of the target, or of the source if targets have none, as in OPUS-MT. Raises UserError for a
        language that the model does not have.
        """
        tagged = self.target if self.target.line_prefix else self.source
        if language not in tagged.languages:
            names = ", ".join(tagged.languages)
            known = f"its languages are {names}" if names else "it has no tags of languages"
            raise UserError(f"the model does not translate into `{language}`: {known}")
        if tagged is self.target:
            return self._replace(target=self.target.with_language(language))
        return self._replace(source=self.source.with_language(language))


def assign_word_ids(surfaces: Iterable[str]) -> list[int]:
    """For the text of each token, including spaces, the index of the word with its first letter.

    The words are those of `"".join(surfaces).split()`. A token of spaces only belongs to the next word, at the end to
    the last word; an empty token has index -1.
    """
    word_ids, last, is_open = list[int](), -1, False
    for surface in surfaces:
        if not surface:
            word_ids.append(-1)
            continue
        words = surface.split()
        is_open = is_open and not surface[0].isspace()
        word_ids.append(last if is_open else last + 1)
        if words:
            last += len(words) - is_open
            is_open = not surface[-1].isspace()
    return [min(index, last) for index in word_ids]

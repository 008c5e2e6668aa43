"""The interface of all tokenizers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from seq2attn.config.base import Config
from seq2attn.errors import UserError
from seq2attn.io.files import write_bytes, write_json
from seq2attn.tokenizers.normalize import SPACE_MARK, NormalizeConfig, collapse_whitespace, is_unspaced
from seq2attn.tokenizers.vocabulary import UNK, Vocabulary

TOKENIZER_FILE, VOCABULARY_FILE = "tokenizer.json", "vocabulary.json"


class Tokenizer(ABC):
    """Conversion of a line to token ids and back.

    `decode(encode(line))` is the normalized line, apart from unknown tokens.
    """

    is_stochastic: bool = False
    """Whether `sample` differs from `encode`."""
    line_prefix: tuple[int, ...] = ()
    """Ids before those of each line, such as the language of a multilingual model or the `[CLS]` of BERT."""
    files: Mapping[str, bytes] = {}
    """Content of files beside the config and the vocabulary, by name."""

    def __init__(self, config: Config, vocabulary: Vocabulary) -> None:
        self.config, self.vocabulary = config, vocabulary

    def normalize(self, line: str) -> str:
        """The line that is segmented."""
        return self.config.normalize(line) if isinstance(self.config, NormalizeConfig) else line

    @abstractmethod
    def encode(self, line: str) -> list[int]:
        """The ids of a line, without BOS and EOS."""

    def encode_phrase(self, text: str) -> list[int]:
        """The ids of a text within a line: in scripts without spaces, with none before it."""
        ids = self.encode(text)[len(self.line_prefix) :]
        first = self.vocabulary.tokens[ids[0]] if ids else ""
        if not first.startswith(SPACE_MARK) or not is_unspaced(text.strip()[0]):
            return ids
        bare = first.removeprefix(SPACE_MARK)
        pieces: Iterable[str] = bare if self.vocabulary.id(bare) == UNK else [bare]
        return [*map(self.vocabulary.id, pieces), *ids[1:]]

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, segmented at random if `is_stochastic`: a function of `lines` and `seed` alone."""
        return [self.encode(line) for line in lines]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens in human-readable form, with special tokens and marks of spaces."""
        return [self.vocabulary.tokens[int(id)] for id in ids]

    @cached_property
    def characters(self) -> frozenset[str]:
        """All characters in tokens, if others are encoded as bytes (`<0xC3>`); none if others are unknown tokens."""
        tokens = self.convert_ids_to_tokens(range(len(self.vocabulary)))
        return frozenset(" ").union(*tokens) if any(token.startswith("<0x") for token in tokens) else frozenset()

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the index of its word in `decode(ids)`; -1 for PAD, BOS and EOS."""
        return assign_word_ids(self._surfaces(ids))

    def _surfaces(self, ids: Sequence[int]) -> Iterable[str]:
        """The text of each id with its spaces; nothing for PAD, BOS and EOS."""
        return map(self._surface, ids)

    def _surface(self, id: int) -> str:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text, always one line, without PAD, BOS and EOS; unknown tokens become `<unk>`."""
        return collapse_whitespace("".join(self._surfaces(ids)))

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag at the beginning of a line, or an empty string, and the rest: see `TaggedTokenizer`."""
        return "", line

    def lacks_tag(self, line: str) -> bool:
        """True for text without a tag if all training text had one."""
        return False

    def tagged_prefix(self, tag: str) -> tuple[int, ...]:
        """Ids before those of the text of a line with a tag, or with none if it is empty."""
        return self.line_prefix

    @property
    def languages(self) -> Mapping[str, str]:
        """The tag of each language of a multilingual model."""
        return {}

    def with_language(self, language: str) -> Self:
        """The same with the tag of a language of `languages`."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` reads; the header is written last."""
        for name, content in self.files.items():
            write_bytes(folder / name, content)
        self.vocabulary.save(folder / VOCABULARY_FILE)
        write_json(folder / TOKENIZER_FILE, {"config": self.config.model_dump(mode="json")})


class TokenizerPair(NamedTuple):
    """The tokenizers of source and target."""

    source: Tokenizer
    target: Tokenizer

    @property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of source and target."""
        return self.source.vocabulary, self.target.vocabulary

    def translate_into(self, language: str) -> TokenizerPair:
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

"""A given SentencePiece model with its own normalization; the ids may come from a vocabulary of its pieces.

OPUS-MT models have a SentencePiece model for each side, and `vocab.json` with the pieces of both. Those with several
target languages have a tag such as `>>fra<<` before each source line. Those of NLLB have tags of languages before the
lines of both sides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from seq2attn.config.base import InputPath
from seq2attn.config.yaml_reader import read_ids
from seq2attn.errors import DataError, RunError, UserError
from seq2attn.io.files import FILE_HINT, parse_object, read_bytes
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.given import GivenTokenizerConfig
from seq2attn.tokenizers.normalize import SPACE_MARK, collapse_line, collapse_whitespace
from seq2attn.tokenizers.subwords import MODEL_FILE, UNK_SURFACE
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, SPECIAL_TOKENS, TOKENIZER_HINT, UNK, Vocabulary

_LEADING_TAG = re.compile(r"\s*(>>\S+<<)")
_LANGUAGE_TAG = re.compile(r">>(\S+)<<|__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3}|[a-z]{2}_[A-Z]{2})")
"""Tags of OPUS-MT, M2M100, and NLLB or mBART, with the name of their language as a group."""


class SentencePieceTokenizerConfig(GivenTokenizerConfig):
    """A given SentencePiece model, which is not trained."""

    file_keys = ("path", "vocabulary")
    kind: Literal["sentencepiece"] = "sentencepiece"
    path: InputPath
    """File of the SentencePiece model."""
    vocabulary: InputPath | None = None
    """File with the id of each piece: JSON such as `vocab.json` of Hugging Face, or Marian's `.yml`; none: the pieces
    of the model."""
    punctuation: str | None = Field(None, pattern="^[a-z]{2,3}$")
    """Language code for Moses' normalization of punctuation, as of the older OPUS-MT models; none: off. Needs
    sacremoses."""
    special_tokens: tuple[str, ...] = ()
    """Tokens without text, after those of the files: languages, such as `fra_Latn`, and others of the model."""
    tag: str | None = None
    """Token before every line: the language of a multilingual model, such as `>>fra<<` or `fra_Latn`."""
    prefix: str | None = None
    """Text before every line: the task of a T5 model, such as `translate English to German:`."""

    @property
    def vocabulary_source(self) -> tuple[object, ...]:
        """The origin of the tokens: equal for two tokenizers with the same vocabulary."""
        return self.vocabulary or self.path, self.special_tokens

    def train(self, lines: Iterable[str]) -> SentencePieceTokenizer:
        """The tokenizer in the files; `lines` are not used.

        Raises UserError for a file that is missing or corrupt, or was changed.
        """
        model = read_bytes(self.path, FILE_HINT)
        pieces = read_model_pieces(self.path) if self.vocabulary is None else read_pieces(self.vocabulary)
        self.check_digest()
        tokens = dict.fromkeys((*pieces, *self.special_tokens))
        return SentencePieceTokenizer(self, model, load_processor(model, self.path), Vocabulary.from_tokens(tokens))

    def load(self, folder: Path, vocabulary: Vocabulary) -> SentencePieceTokenizer:
        """The tokenizer saved in a folder, with its vocabulary. Raises RunError when its model cannot be read."""
        model = read_bytes(folder / MODEL_FILE, TOKENIZER_HINT)
        return SentencePieceTokenizer(self, model, load_processor(model, folder / MODEL_FILE), vocabulary)


def load_processor(model: bytes, path: Path) -> Any:
    """SentencePiece with a model. Raises RunError when `model`, the content of `path`, is none."""
    from sentencepiece import SentencePieceProcessor

    try:
        if not model:
            raise ValueError("it is empty")  # which SentencePiece does not notice
        return SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"{path}: is not a SentencePiece model ({error}); {FILE_HINT}") from None


def read_model_pieces(path: Path) -> dict[str, int]:
    """The id of each piece of a SentencePiece model, in ascending order. Raises RunError when it cannot be read."""
    processor = load_processor(read_bytes(path, FILE_HINT), path)
    return {processor.id_to_piece(id): id for id in range(len(processor))}


def read_pieces(path: Path) -> dict[str, int]:
    """The id of each piece in a JSON file, or in Marian's `.yml`, in ascending order.

    Raises UserError for a corrupt file, and unless the ids are 0, 1, 2 and so on, each once.
    """
    raw = read_bytes(path, FILE_HINT)
    ids = read_ids(raw, path, FILE_HINT) if path.suffix == ".yml" else parse_object(raw, path, FILE_HINT)
    for piece, id in ids.items():
        if type(id) is not int:
            raise DataError(f"{path}: the id of `{piece}` is {id!r}, not a number; {FILE_HINT}")
    ids = {piece: ids[piece] for piece in sorted(ids, key=ids.__getitem__)}
    for number, (piece, id) in enumerate(ids.items()):
        if id != number:
            raise DataError(f"{path}: `{piece}` has the id {id}, expected {number}; {FILE_HINT}")
    return ids


def find_languages(tokens: Iterable[str]) -> dict[str, str]:
    """The tag of each language that has one among the tokens."""
    matches = map(_LANGUAGE_TAG.fullmatch, tokens)
    return {match[match.lastindex or 0]: match[0] for match in matches if match}


class SentencePieceTokenizer(Tokenizer):
    """Segmentation by a SentencePiece model. A line may begin with a tag of the vocabulary, such as `>>fra<<`."""

    config: SentencePieceTokenizerConfig

    def __init__(
        self, config: SentencePieceTokenizerConfig, model: bytes, processor: Any, vocabulary: Vocabulary
    ) -> None:
        """Raises UserError for an unknown tag, or when sacremoses is missing."""
        super().__init__(config, vocabulary)
        self.model, self.files, self._processor = model, {MODEL_FILE: model}, processor
        self._moses = None if config.punctuation is None else _load_moses(config.punctuation)
        self._silent |= {*map(vocabulary.id, config.special_tokens)}
        self._text_prefix: tuple[int, ...] = () if config.prefix is None else (*self._piece_ids(config.prefix),)
        if UNK in self._text_prefix:
            raise UserError(f"the model does not know all tokens of the `prefix` {config.prefix!r}")
        self.line_prefix = self._text_prefix
        if config.tag is not None:
            if config.tag not in vocabulary.tokens[len(SPECIAL_TOKENS) :]:
                raise UserError(f"the vocabulary has no tag `{config.tag}`")
            self.line_tag, self.line_prefix = config.tag, self._language_prefix(config.tag)
            self._silent |= {vocabulary.id(config.tag)}

    @property
    def languages(self) -> Mapping[str, str]:
        """The tag of each language of a multilingual model."""
        return find_languages(self.config.special_tokens or self.pieces.tokens)

    def with_language(self, language: str) -> Self:
        """This tokenizer with the tag of a language of `languages`."""
        tag = self.languages[language]
        config, silent = self.config.model_copy(update={"tag": tag}), self._silent | {self.pieces.id(tag)}
        return self._replace(config=config, line_tag=tag, line_prefix=self._language_prefix(tag), _silent=silent)

    def normalize(self, line: str) -> str:
        """The line that SentencePiece normalizes and segments."""
        return collapse_line(self.normalize_punctuation(line))

    def normalize_punctuation(self, line: str) -> str:
        """The line with spaces for control characters, and Moses' punctuation; the same line without `punctuation`."""
        if self._moses is None:
            return line
        line = "".join(" " if unicodedata.category(letter).startswith("C") else letter for letter in line)
        return str(self._moses.normalize(line))

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag at the beginning of a line, or that of a language if there are no others, and the rest."""
        return super().split_tag(line) if self.tags else self._split_language(line)

    def _split_language(self, line: str) -> tuple[str, str]:
        match = _LEADING_TAG.match(line)
        is_known = match is not None and self.pieces.id(match[1]) != UNK
        return (match[1], line[match.end() :]) if match and is_known else ("", line)

    def tagged_prefix(self, tag: str) -> tuple[int, ...]:
        """Ids before those of the text of a line; the tag of a language is in the place of `line_prefix`."""
        return super().tagged_prefix(tag) if self.tags else self._language_prefix(tag)

    def _language_prefix(self, language: str) -> tuple[int, ...]:
        return (self.pieces.id(language), *self._text_prefix) if language else self.line_prefix

    def _encode(self, text: str) -> list[int]:
        language, rest = self._split_language(text)
        ids = self._piece_ids(rest)
        return [*self._language_prefix(language), *ids] if ids or language else []

    def _piece_ids(self, text: str) -> list[int]:
        ids = (self.pieces.id(piece) for piece in self._processor.encode(self.normalize(text), out_type=str))
        return [UNK if id in CONTROL_IDS else id for id in ids]

    def _prefix_of(self, ids: Sequence[int]) -> slice:
        """The part of the ids of a line that is no text of it: after the tag of another language, without that."""
        has_tag = len(ids) > 0 and _LEADING_TAG.fullmatch(self.vocabulary.tokens[int(ids[0])])
        for start, prefix in ((0, self.line_prefix), (1, self._text_prefix if has_tag else ())):
            if prefix and (*map(int, ids[start : start + len(prefix)]),) == prefix:
                return slice(start, start + len(prefix))
        return slice(0)

    def _surfaces(self, ids: Sequence[int]) -> Iterable[str]:
        surfaces, prefix = [*super()._surfaces(ids)], self._prefix_of(ids)
        surfaces[prefix] = [""] * len(surfaces[prefix])
        return surfaces

    def _surface(self, id: int) -> str:
        return UNK_SURFACE if id == UNK else super()._surface(id)

    def _decode(self, ids: Sequence[int]) -> str:
        rest = [*ids]
        del rest[self._prefix_of(ids)]
        tokens = (self.vocabulary.tokens[int(id)] for id in rest if id not in self._silent)
        runs = groupby(tokens, SPECIAL_TOKENS[UNK].__eq__)
        texts = (" ".join(run) if is_unknown else self._processor.decode_pieces([*run]) for is_unknown, run in runs)
        # SentencePiece leaves pieces that its model lacks as they are: a joint vocabulary has those of the other side.
        return collapse_whitespace(" ".join(texts).replace(SPACE_MARK, " "))


def _load_moses(language: str) -> Any:
    """Moses' normalization of punctuation as OPUS-MT's scripts use it. Raises UserError without sacremoses."""
    try:
        from sacremoses import MosesPunctNormalizer
    except ImportError:
        raise UserError("Moses' normalization needs sacremoses: pip install 'seq2attn[pretrained]'") from None
    return MosesPunctNormalizer(language, pre_replace_unicode_punct=True)

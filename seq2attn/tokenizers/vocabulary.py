"""Tokens and their ids; the special ids in one place."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Self

from seq2attn.errors import RunError
from seq2attn.io.files import MAX_FILE_BYTES, read_object, write_json

PAD, BOS, EOS, UNK = 0, 1, 2, 3
CONTROL_IDS = (PAD, BOS, EOS)
"""Ids without text."""
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
UNKNOWN_MARK = "⍰"
"""U+2370: the form of `<unk>` in texts that are compared. All of sacreBLEU's tokenizers keep it whole."""
TOKENIZER_HINT = "copy the whole run directory from where it was made, or make it again"
"""The advice in errors about the files of a tokenizer in a run."""


def mark_unknown(translation: str) -> str:
    """A translation as metrics take it: each unknown word, `<unk>` for readers, is one token that no reference has."""
    return translation.replace(SPECIAL_TOKENS[UNK], UNKNOWN_MARK)


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids, `SPECIAL_TOKENS` first, each token once."""

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise ValueError(f"a vocabulary begins with {SPECIAL_TOKENS}, this one with {self.tokens[:4]}")
        if len(self._ids) != len(self.tokens):
            token = Counter(self.tokens).most_common(1)[0][0]
            raise ValueError(f"the vocabulary has the token {token!r} more than once")

    @classmethod
    def from_tokens(cls, tokens: Iterable[str]) -> Self:
        """The vocabulary of `tokens` in their order, after the special tokens."""
        return cls(SPECIAL_TOKENS + tuple(token for token in tokens if token not in SPECIAL_TOKENS))

    @classmethod
    def from_counts(cls, tokens: Iterable[str], min_frequency: int, vocab_size: int | None) -> Self:
        """The most frequent tokens, equally frequent ones by code point; `vocab_size` includes the special tokens."""
        counts = Counter(tokens)
        frequent = [token for token, n in counts.items() if n >= min_frequency and token not in SPECIAL_TOKENS]
        ordered = sorted(frequent, key=lambda token: (-counts[token], token))
        return cls.from_tokens(ordered if vocab_size is None else ordered[: vocab_size - len(SPECIAL_TOKENS)])

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @cached_property
    def _max_length(self) -> int:
        return max(map(len, self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, token: str) -> int:
        """The id of `token`; `UNK` if the vocabulary lacks it."""
        return self._ids.get(token, UNK)

    def compose(self, token: str) -> list[int]:
        """The ids of the fewest entries that `token` is made of, or its own id; none if it cannot be made of them.

        A character without an entry is made of its UTF-8 bytes (`<0xF0>`). Bytes and tags are not made of anything.
        """
        if token in self._ids or re.fullmatch("<[^<>]+>", token):
            return [self._ids[token]] if token in self._ids else []
        fewest: list[list[int] | None] = [[]]  # of each beginning of the token
        for end in range(1, len(token) + 1):
            spans = [(start, [token[start:end]]) for start in range(max(0, end - self._max_length), end)]
            spans.append((end - 1, [f"<0x{byte:02X}>" for byte in token[end - 1].encode()]))
            options = [
                [*before, *(self._ids[piece] for piece in pieces)]
                for start, pieces in spans
                if (before := fewest[start]) is not None and all(piece in self._ids for piece in pieces)
            ]
            fewest.append(min(options, key=len, default=None))
        return fewest[-1] or []

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON."""
        write_json(path, {"tokens": list(self.tokens)})

    @classmethod
    def load(cls, path: Path) -> Self:
        """The vocabulary in a file of `save`. Raises RunError when the file is missing or is not a vocabulary."""
        tokens = read_object(path, TOKENIZER_HINT, MAX_FILE_BYTES).get("tokens")
        if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            raise RunError(f"{path}: has no list of tokens; {TOKENIZER_HINT}")
        try:
            return cls(tuple(tokens))
        except ValueError as error:
            raise RunError(f"{path}: {error}; {TOKENIZER_HINT}") from None


def check_same(expected: Vocabulary, actual: Vocabulary, file: Path) -> None:
    """Check that two vocabularies have the same ids.

    Raises RunError with the file, both sizes and the first difference.
    """
    if expected.tokens == actual.tokens:
        return
    pairs = enumerate(zip_longest(map(repr, actual.tokens), map(repr, expected.tokens), fillvalue="nothing"))
    index, (token, expected_token) = next((index, pair) for index, pair in pairs if pair[0] != pair[1])
    raise RunError(
        f"{file}: is not the vocabulary expected: {len(actual)} entries, expected {len(expected)}; "
        f"the first difference is entry {index}: {token}, expected {expected_token}"
    )

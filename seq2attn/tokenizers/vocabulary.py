"""Tokens and their ids; the special ids in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

from seq2attn.errors import RunError
from seq2attn.io.files import read_object, write_json

PAD, BOS, EOS, UNK = 0, 1, 2, 3
CONTROL_IDS = (PAD, BOS, EOS)
"""What is no part of a text."""
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens in the order of their ids, `SPECIAL_TOKENS` first, each token once."""

    tokens: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.tokens[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
            raise ValueError(f"a vocabulary begins with {SPECIAL_TOKENS}, this one with {self.tokens[:4]}")
        if len(self._ids) != len(self.tokens):
            token = Counter(self.tokens).most_common(1)[0][0]
            raise ValueError(f"the token {token!r} stands in the vocabulary more than once")

    @classmethod
    def from_tokens(cls, words: Iterable[str]) -> Vocabulary:
        """The vocabulary of `words` in their order; a special among them keeps its own place."""
        return cls(SPECIAL_TOKENS + tuple(word for word in words if word not in SPECIAL_TOKENS))

    @classmethod
    def from_counts(cls, words: Iterable[str], min_frequency: int, vocab_size: int | None) -> Vocabulary:
        """The most frequent words, equally frequent ones by code point; `vocab_size` includes the special tokens."""
        counts = Counter(words)
        frequent = [word for word, count in counts.items() if count >= min_frequency and word not in SPECIAL_TOKENS]
        ordered = sorted(frequent, key=lambda word: (-counts[word], word))
        return cls.from_tokens(ordered if vocab_size is None else ordered[: max(0, vocab_size - len(SPECIAL_TOKENS))])

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, token: str) -> int:
        """The id of `token`; `UNK` for one that is not here."""
        return self._ids.get(token, UNK)

    def token(self, id: int) -> str:
        """The token with this id."""
        return self.tokens[id]

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON, whole or not at all."""
        write_json(path, {"tokens": list(self.tokens)})

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote.

        Raises: RunError when the file is missing, or is no vocabulary.
        """
        fix = "prepare the data again, or copy the file from where it was prepared"
        tokens = read_object(path, fix).get("tokens")
        if not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
            raise RunError(f"{path}: has no list of tokens; {fix}")
        try:
            return cls(tuple(tokens))
        except ValueError as error:
            raise RunError(f"{path}: {error}; {fix}") from None


def check_same(expected: Vocabulary, found: Vocabulary, file: Path) -> None:
    """Refuse a vocabulary that gives other ids than the one expected.

    Raises: RunError with the file, both sizes and the first difference.
    """
    if expected.tokens == found.tokens:
        return
    pairs = enumerate(zip_longest(expected.tokens, found.tokens))
    index, (ours, theirs) = next((index, pair) for index, pair in pairs if pair[0] != pair[1])
    raise RunError(
        f"{file}: is not the vocabulary expected: {len(found)} entries, expected {len(expected)}; "
        f"the first difference is entry {index}: {_shown(theirs)}, expected {_shown(ours)}"
    )


def _shown(token: str | None) -> str:
    return "nothing" if token is None else repr(token)


def ids_to_tokens(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    """The tokens with these ids, as shown to people."""
    return [vocabulary.token(int(id)) for id in ids]

"""Tokens from right to left: of a target that is written from its end (Liu et al. 2016), or of a source that is read
from its end (Sutskever et al. 2014, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seq2attn.io.files import write_json
from seq2attn.tokenizers.base import TOKENIZER_FILE, Tokenizer
from seq2attn.tokenizers.tags import TaggedTokenizer


class RightToLeftTokenizer(Tokenizer):
    """A tokenizer with the ids of each line in reverse order; the text that they stand for is the same."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.config, tokenizer.vocabulary)
        self.tokenizer, self.is_stochastic = tokenizer, tokenizer.is_stochastic

    def encode(self, line: str) -> list[int]:
        """The ids of a line from its end, without BOS and EOS."""
        return self.tokenizer.encode(line)[::-1]

    def encode_phrase(self, text: str) -> list[int]:
        """The ids of a text within a line, from its end."""
        return self.tokenizer.encode_phrase(text)[::-1]

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line from its end, segmented at random: a function of `lines` and `seed` alone."""
        return [ids[::-1] for ids in self.tokenizer.sample(lines, seed)]

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the index of its word in `decode(ids)`; -1 for PAD, BOS and EOS."""
        return self.tokenizer.word_ids(ids[::-1])[::-1]

    def decode(self, ids: Sequence[int]) -> str:
        """The text, without PAD, BOS and EOS."""
        return self.tokenizer.decode(ids[::-1])

    def save(self, folder: Path) -> None:
        """Write the files that `load_tokenizer` reads; the header is written last."""
        self.tokenizer.save(folder)
        header = {"config": self.config.model_dump(mode="json"), "right_to_left": True}
        write_json(folder / TOKENIZER_FILE, header)


def with_direction(tokenizer: Tokenizer, *, right_to_left: bool) -> Tokenizer:
    """The tokenizer with its ids from right to left, or from left to right; a tag stays before them."""
    if isinstance(tokenizer, TaggedTokenizer):
        return tokenizer.with_tokenizer(with_direction(tokenizer.tokenizer, right_to_left=right_to_left))
    plain = tokenizer.tokenizer if isinstance(tokenizer, RightToLeftTokenizer) else tokenizer
    return RightToLeftTokenizer(plain) if right_to_left else plain


def is_right_to_left(tokenizer: Tokenizer) -> bool:
    """True if the first id of a line, after a tag, is that of its end."""
    plain = tokenizer.tokenizer if isinstance(tokenizer, TaggedTokenizer) else tokenizer
    return isinstance(plain, RightToLeftTokenizer)


def in_reverse(tokenizer: Tokenizer, line: str, items: Sequence[int]) -> tuple[int, ...]:
    """The `items`, one for each token of a line, in reverse order; that of a tag stays the first."""
    num_tags = bool(tokenizer.split_tag(line)[0])
    return (*items[:num_tags], *items[num_tags:][::-1])

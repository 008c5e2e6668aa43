"""The `tokenizer` section of a config."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from seq2attn.config.base import Config, FieldError
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.subwords import BPETokenizerConfig, UnigramTokenizerConfig
from seq2attn.tokenizers.wordpiece import WordPieceTokenizerConfig
from seq2attn.tokenizers.words import WordTokenizerConfig

TokenizerConfig = Annotated[
    BPETokenizerConfig
    | UnigramTokenizerConfig
    | WordTokenizerConfig
    | CharacterTokenizerConfig
    | WordPieceTokenizerConfig,
    Field(discriminator="kind"),
]


def _check_sides(
    joint: TokenizerConfig | None, source: TokenizerConfig | None, target: TokenizerConfig | None
) -> list[FieldError]:
    message = "has no tokenizer: give `joint`, or both `source` and `target`"
    if joint is not None:
        message = "`joint` is for both sides: leave this out, or leave `joint` out and give both sides"
    sides = {"source": source, "target": target}
    return [FieldError(side, message) for side, one in sides.items() if (one is None) == (joint is None)]


def _check_wordpiece(joint: TokenizerConfig | None, target: TokenizerConfig | None) -> list[FieldError]:
    message = "`wordpiece` is for the source: its decoding does not restore the text exactly"
    sides = {"joint": joint, "target": target}
    return [
        FieldError(f"{side}.kind", message) for side, one in sides.items() if isinstance(one, WordPieceTokenizerConfig)
    ]


class TokenizersConfig(Config):
    """The tokenizers of both languages: one `joint` tokenizer, or one for `source` and one for `target`."""

    rules = (_check_sides, _check_wordpiece)

    joint: TokenizerConfig | None = None
    """One tokenizer and one vocabulary, trained on both sides."""
    source: TokenizerConfig | None = None
    """The tokenizer of the source language."""
    target: TokenizerConfig | None = None
    """The tokenizer of the target language."""

    @property
    def is_joint(self) -> bool:
        """True if both sides have the same vocabulary."""
        return self.joint is not None

    @property
    def per_side(self) -> tuple[TokenizerConfig, TokenizerConfig]:
        """The tokenizers of source and target: the same one twice if it is joint."""
        source, target = self.joint or self.source, self.joint or self.target
        assert source is not None and target is not None  # guaranteed by _check_sides
        return source, target

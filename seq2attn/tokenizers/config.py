"""The tokenizers to choose from, and who shares them."""

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


def _joint_or_each(
    joint: TokenizerConfig | None, source: TokenizerConfig | None, target: TokenizerConfig | None
) -> list[FieldError]:
    given = {"source": source is not None, "target": target is not None}
    if joint is not None:
        message = "`joint` serves both sides: leave this out, or leave `joint` out and give both sides"
        return [FieldError(side, message) for side, is_given in given.items() if is_given]
    message = "has no tokenizer: give `joint`, or both `source` and `target`"
    return [FieldError(side, message) for side, is_given in given.items() if not is_given]


def _wordpiece_reads(joint: TokenizerConfig | None, target: TokenizerConfig | None) -> list[FieldError]:
    message = "`wordpiece` is for the source: what it cuts is not joined again to the text that it was"
    given = {"joint": joint, "target": target}
    return [
        FieldError(f"{side}.kind", message) for side, one in given.items() if isinstance(one, WordPieceTokenizerConfig)
    ]


class TokenizersConfig(Config):
    """How text becomes tokens: `joint` for both languages, or `source` and `target`, each with its own."""

    rules = (_joint_or_each, _wordpiece_reads)

    joint: TokenizerConfig | None = None
    """One tokenizer and one vocabulary, learnt from both sides."""
    source: TokenizerConfig | None = None
    """The tokenizer of the language translated from."""
    target: TokenizerConfig | None = None
    """The tokenizer of the language translated into."""

    @property
    def is_joint(self) -> bool:
        """Whether one vocabulary serves both sides."""
        return self.joint is not None

    @property
    def per_side(self) -> tuple[TokenizerConfig, TokenizerConfig]:
        """The tokenizer of the source and that of the target: the same one twice where it is joint."""
        source, target = self.joint or self.source, self.joint or self.target
        assert source is not None and target is not None  # the rule saw to it
        return source, target

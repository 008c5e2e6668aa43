"""Tags: tokens such as `<2en>` before a source, for its domain or its target language (Johnson et al. 2017)."""

from __future__ import annotations

from pathlib import Path

from seq2attn.errors import RunError, UserError
from seq2attn.io.files import read_object
from seq2attn.tokenizers.base import LEADING_TAG, TAGS_FILE, Tokenizer
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.vocabulary import TOKENIZER_HINT

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""The name of a tag in configs and commands: without `<` and `>`."""


def add_tag(line: str, tag: str | None) -> str:
    """The line with a tag before it; an empty line stays empty."""
    return line if tag is None or is_blank(line) else f"<{tag}> {line}"


def load_tags(tokenizer: Tokenizer, folder: Path) -> Tokenizer:
    """The tokenizer with the tags saved beside it, if any. Raises RunError for a file that does not list tags."""
    path = folder / TAGS_FILE
    if not path.exists():
        return tokenizer
    content = read_object(path, TOKENIZER_HINT)
    tags = content.get("tags")
    if not isinstance(tags, list) or not all(isinstance(tag, str) and LEADING_TAG.match(tag) for tag in tags):
        raise RunError(f"{path}: does not list tags; {TOKENIZER_HINT}")
    return tokenizer.with_tags(tuple(tags), required=content.get("required") is True)


def check_tag(tokenizer: Tokenizer, tag: str | None) -> None:
    """Raises UserError unless a tag is None or one that the model of a source tokenizer was trained with."""
    if tag is not None and f"<{tag}>" not in tokenizer.tags:
        known = ", ".join(f"`{known[1:-1]}`" for known in tokenizer.tags)
        has = f"its tags are {known}" if tokenizer.tags else "it was trained without tags (`data.train` with `tag`)"
        raise UserError(f"the model does not know the tag `{tag}`: {has}")

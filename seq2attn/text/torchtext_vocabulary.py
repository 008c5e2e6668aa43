"""Vocabularies of torchtext 0.6, read without running anything that a stranger put into the file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch
from torch.serialization import safe_globals

from seq2attn.errors import DataError

SPECIALS = ("<unk>", "<pad>")  # torchtext's own; ours are added elsewhere


class _SavedVocabulary:
    """Stands in for `torchtext.vocab.Vocab`, whose constructor can be talked into downloading."""

    itos: object = None


def read_torchtext_vocabulary(path: Path) -> list[str]:
    """The tokens, in order, of a `torchtext.vocab.Vocab` saved by `torch.save`, less `<unk>` and `<pad>`.

    Raises DataError if `path` is missing or holds anything else; no code in it is run.
    """
    try:
        with safe_globals([(_SavedVocabulary, "torchtext.vocab.Vocab"), Counter]):
            saved = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    except Exception as error:  # a damaged or hostile pickle can raise nearly anything
        raise DataError(
            f"{path}: not a torchtext 0.6 Vocab saved with torch.save, or it holds other objects beside, "
            "which are not loaded because they could run code"
        ) from error
    tokens = saved.itos if isinstance(saved, _SavedVocabulary) else None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise DataError(f"{path}: holds a {type(saved).__name__}, not a torchtext 0.6 Vocab with its tokens")
    return [token for token in tokens if token not in SPECIALS]

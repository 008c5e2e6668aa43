"""mBART-50 (Tang et al. 2020), which translates between its languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from seq2attn.errors import DataError
from seq2attn.pretrained.bart import BART_NAMES, BART_OFFSET, POSITIONS, BartArchitecture
from seq2attn.pretrained.family import TOKENIZER_FILE, ImportOptions
from seq2attn.pretrained.multilingual import Multilingual


class MBartArchitecture(BartArchitecture):
    """Fields of `config.json` that define a model of this kind, with their names there."""

    normalize_before: Literal[True] = True
    normalize_embedding: Literal[True] = True
    add_final_layer_norm: Literal[True] = True
    static_position_embeddings: Literal[False] = False


class MBart(Multilingual):
    """Pre-norm layers with a norm of the embeddings, and learned positions."""

    model_type = "mbart"
    architecture_class = MBartArchitecture
    names = replace(BART_NAMES, sinusoids=(), learned=POSITIONS, first_position=BART_OFFSET)

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Raises DataError with the file and the key that cannot be used."""
        super().__init__(folder, config)
        if self.tokenizer_settings.get("tokenizer_class") in ("MBartTokenizer", "MBartTokenizerFast"):
            raise DataError(
                f"{folder / TOKENIZER_FILE}: `tokenizer_class` is that of the first mBART, whose sources end with their"
                " language; only mBART-50 can be imported"
            )

    def layers(self, options: ImportOptions) -> dict[str, Any]:
        """Settings that encoder and decoder share: norms and positions."""
        positions = {"position_encoding": "learned", "max_positions": self.max_positions}
        return {"norm_order": "pre", "embedding_norm": True, **positions}

    def original_tokenizer(self, options: ImportOptions) -> Any:
        """The original tokenizer with the language of the sources."""
        from transformers import MBart50Tokenizer

        return self.load_tokenizer(MBart50Tokenizer, src_lang=options.source_language)

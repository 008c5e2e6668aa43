"""Pegasus (Zhang et al. 2020), with its own tokenizer or the files of Marian's.

spiece.model    a SentencePiece model; its pieces follow 105 tokens of pretraining and of control
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from seq2attn.nn.layers import SinusoidalPositionEncoding
from seq2attn.pretrained.bart import BART_NAMES, POSITIONS, BartArchitecture
from seq2attn.pretrained.family import Encode, Family, VocabularyFile
from seq2attn.pretrained.marian import SOURCE_MODEL, MarianTokens
from seq2attn.tokenizers.sentencepiece_model import read_model_pieces

MODEL_FILE = "spiece.model"
PRETRAINING_TOKENS = ("<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)))


class PegasusArchitecture(BartArchitecture):
    """Fields of `config.json` that define a model of this kind, with their names there."""

    normalize_before: Literal[True] = True
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[True] = True


class Pegasus(MarianTokens):
    """Pre-norm layers; a table of positions, sinusoids if it is not in the file."""

    model_type = "pegasus"
    architecture_class = PegasusArchitecture
    names = replace(BART_NAMES, sinusoids=(), learned=POSITIONS)
    tokenizer_class = "PegasusTokenizer"
    norms: ClassVar[Mapping[str, Any]] = {"norm_order": "pre"}

    def computed(self) -> dict[str, Tensor]:
        """Tables of positions for a file without them."""
        encoding = SinusoidalPositionEncoding(self.architecture.d_model, "paper")
        return {name: encoding(torch.arange(self.max_positions)) for name in self.names.learned}

    @property
    def own_options(self) -> tuple[str, ...]:
        """The normalization of punctuation, for Marian's tokenizer."""
        return ("punctuation",) if self.has_marian_tokenizer else ()

    @property
    def has_marian_tokenizer(self) -> bool:
        """True for the files of Marian's tokenizer, as of exports of this package."""
        return (self.folder / SOURCE_MODEL).is_file()

    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides."""
        if self.has_marian_tokenizer:
            return super().tokenizers()
        self.check_target_language()
        path = self.folder.resolve() / MODEL_FILE
        section = {"kind": "sentencepiece", "path": path, "special_tokens": [*PRETRAINING_TOKENS]}
        return section, section

    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """A file and its id of each token, for both sides."""
        if self.has_marian_tokenizer:
            return super().token_ids()
        file = self.folder / MODEL_FILE
        pieces = [*read_model_pieces(file)]
        tokens = (*pieces[:2], *PRETRAINING_TOKENS, *pieces[2:])
        side = file, {token: id for id, token in enumerate(tokens)}
        return side, side

    def original_encoder(self) -> Encode:
        """The original tokenizer of the source."""
        return super().original_encoder() if self.has_marian_tokenizer else Family.original_encoder(self)

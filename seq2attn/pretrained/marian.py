"""Marian models in a folder of Hugging Face, such as OPUS-MT (Tiedemann and Thottingal 2020).

config.json generation_config.json    architecture and search
model.safetensors                     weights
source.spm target.spm                 a SentencePiece model for each side
vocab.json target_vocab.json          ids of pieces, of both sides or of one each
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from seq2attn.nn.layers import SinusoidalPositionEncoding
from seq2attn.pretrained.bart import BartArchitecture, BartFamily
from seq2attn.pretrained.family import Encode, Size, VocabularyFile
from seq2attn.pretrained.hf_weights import Tables
from seq2attn.tokenizers.sentencepiece_model import read_pieces

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
Wavelengths = Literal["tensor2tensor", "paper"]


class MarianArchitecture(BartArchitecture):
    """Fields of `config.json` that define a Marian model, with their names there."""

    decoder_vocab_size: Size | None = None
    share_encoder_decoder_embeddings: bool = True
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    static_position_embeddings: Literal[True] = True
    wavelengths: Wavelengths | tuple[Wavelengths, Wavelengths] | None = None  # of encoder and decoder in our exports


class MarianTokens(BartFamily):
    """A SentencePiece model for each side, with ids from a vocabulary."""

    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides; a multilingual model has a tag before each source line."""
        normalizes = self.options.punctuation and self.tokenizer_settings.get("normalize_punctuation") is not False
        source, target = (
            {
                "kind": "sentencepiece",
                "path": self.folder.resolve() / model,
                "vocabulary": self.folder.resolve() / vocabulary,
                "punctuation": code if normalizes else None,
            }
            for model, vocabulary, code in zip(
                (SOURCE_MODEL, TARGET_MODEL), self.vocabulary_files, self.language_codes, strict=True
            )
        )
        return source | {"tag": self.language_tag(read_pieces(self.folder / VOCABULARY_FILE))}, target

    def language_tag(self, pieces: Iterable[str]) -> str | None:
        """The token before each source line; None for a model with one language.

        Raises UserError for a language that has no tag among the pieces, or that is missing.
        """
        self.check_target_language(re.findall(">>(\\S+)<<", " ".join(pieces)))
        return None if self.options.target_language is None else f">>{self.options.target_language}<<"

    @property
    def language_codes(self) -> tuple[str, str]:
        """ISO 639 codes of both sides by `tokenizer_config.json`; `und` where it has none."""
        codes = [str(self.tokenizer_settings.get(key)) for key in ("source_lang", "target_lang")]
        source, target = (code if re.fullmatch("[a-z]{2,3}", code) else "und" for code in codes)
        return source, target

    def search(self) -> dict[str, Any]:
        """The search section."""
        return self.generation.search(self.max_positions, self.language_codes[0])

    @property
    def vocabulary_files(self) -> tuple[str, str]:
        """The vocabularies of both sides."""
        separate = self.tokenizer_settings.get("separate_vocabs") is True or not self.tables.shared
        return VOCABULARY_FILE, TARGET_VOCABULARY_FILE if separate else VOCABULARY_FILE

    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """A vocabulary and its id of each token, for both sides."""
        source, target = (self.folder / name for name in self.vocabulary_files)
        return (source, read_pieces(source)), (target, read_pieces(target))

    def original_encoder(self) -> Encode:
        """The original tokenizer of the source."""
        from transformers import MarianTokenizer

        files = [str(self.folder / name) for name in (SOURCE_MODEL, TARGET_MODEL, VOCABULARY_FILE)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sacremoses, which it does not call
            tokenizer = MarianTokenizer(*files)
        tag = self.language_tag(read_pieces(self.folder / VOCABULARY_FILE))
        return lambda line: list(tokenizer(line if tag is None else f"{tag} {line}").input_ids)


class Marian(MarianTokens):
    """Post-norm layers and sinusoids."""

    model_type = "marian"
    architecture_class = MarianArchitecture
    architecture: MarianArchitecture
    norms: ClassVar[Mapping[str, Any]] = {"norm_order": "post"}

    @property
    def own_options(self) -> tuple[str, ...]:
        """The normalization of punctuation, and positions that are not known."""
        return ("punctuation",) if self.architecture.wavelengths else ("punctuation", "positions")

    @property
    def tables(self) -> Tables:
        """The embeddings and the output layer."""
        fields = self.architecture
        shared = fields.share_encoder_decoder_embeddings
        target_size = fields.vocab_size if shared else fields.decoder_vocab_size or fields.vocab_size
        return Tables(self.names, fields.vocab_size, target_size, fields.d_model, shared, fields.tie_word_embeddings)

    @cached_property
    def wavelengths(self) -> tuple[Wavelengths, Wavelengths]:
        """Those of both sides: of an export, or Marian's, or those that `transformers` puts in their place."""
        default: Wavelengths = "paper" if self.options.positions == "transformers" else "tensor2tensor"
        known = self.architecture.wavelengths or default
        return (known, known) if isinstance(known, str) else known

    def model(self) -> dict[str, Any]:
        """The model section; translations begin with a zero vector, which stays zero in further training."""
        model = super().model()
        for side, wavelengths in zip(("encoder", "decoder"), self.wavelengths, strict=True):
            model[side] |= {"wavelengths": wavelengths}
        return model | {"embeddings": model["embeddings"] | {"frozen_bos": True}}

    def load_original(self, tensors: Mapping[str, Tensor]) -> Any:
        """The original model with its `tensors` and the given positions."""
        model = super().load_original(tensors)
        sides = model.model.encoder, model.model.decoder
        for side, wavelengths in zip(sides, self.wavelengths, strict=True):
            encoding = SinusoidalPositionEncoding(self.architecture.d_model, wavelengths)
            side.embed_positions.weight.data.copy_(encoding(torch.arange(self.max_positions)))
        return model

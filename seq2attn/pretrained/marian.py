"""Marian models in a folder of Hugging Face, such as OPUS-MT (Tiedemann and Thottingal 2020).

config.json generation_config.json    architecture and search
model.safetensors                     weights
source.spm target.spm                 a SentencePiece model for each side
vocab.json target_vocab.json          ids of pieces, of both sides or of one each
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from seq2attn.config.base import Config
from seq2attn.errors import DataError, UserError
from seq2attn.io.hf_folder import CONFIG_FILE, check_files, read_hf_config, validate_fields
from seq2attn.pretrained.bart_weights import BartTables
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.sentencepiece_model import read_pieces
from seq2attn.tokenizers.vocabulary import BOS, SPECIAL_TOKENS

GENERATION_FILE, TOKENIZER_FILE = "generation_config.json", "tokenizer_config.json"
SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
Positions = Literal["tensor2tensor", "transformers"]


class MarianArchitecture(Config):
    """Fields of `config.json` that define a Marian model, with their names there."""

    d_model: PositiveInt
    encoder_layers: PositiveInt
    decoder_layers: PositiveInt
    encoder_attention_heads: PositiveInt
    decoder_attention_heads: PositiveInt
    encoder_ffn_dim: PositiveInt
    decoder_ffn_dim: PositiveInt
    vocab_size: PositiveInt
    pad_token_id: NonNegativeInt
    eos_token_id: NonNegativeInt
    decoder_start_token_id: NonNegativeInt
    decoder_vocab_size: PositiveInt | None = None
    max_position_embeddings: PositiveInt = 1024
    activation_function: Literal["swish", "silu", "relu", "gelu"] = "gelu"
    scale_embedding: bool = False
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False
    static_position_embeddings: Literal[True] = True

    @property
    def tables(self) -> BartTables:
        """The embeddings and the output layer."""
        target_size = self.vocab_size
        if not self.share_encoder_decoder_embeddings:
            target_size = self.decoder_vocab_size or self.vocab_size
        shared, tied = self.share_encoder_decoder_embeddings, self.tie_word_embeddings
        return BartTables(self.vocab_size, target_size, self.d_model, shared, tied)


class MarianGeneration(Config):
    """Fields of `generation_config.json`, or of an older `config.json`, that define the search."""

    num_beams: PositiveInt = 1
    max_length: int | None = Field(None, ge=3)
    length_penalty: float = Field(1.0, ge=0, le=10)
    early_stopping: bool | Literal["never"] = False

    def search(self, max_positions: int, language: str) -> dict[str, Any]:
        """The search section, for sources in a language. Their maximum length includes the first token and EOS."""
        longest = min(self.max_length or max_positions + 1, max_positions + 1) - 2
        lengths: dict[str, Any] = {"length_penalty": "average", "alpha": self.length_penalty, "max_length": longest}
        lengths["source_language"] = language
        if self.num_beams == 1:
            return {"kind": "greedy", "lengths": lengths}
        patience = {True: 1.0, False: 2.0, "never": None}[self.early_stopping]
        return {"kind": "beam", "beam_size": self.num_beams, "patience": patience, "lengths": lengths}


@dataclass(frozen=True)
class MarianFolder:
    """The small files of a folder, read and validated."""

    folder: Path
    architecture: MarianArchitecture
    generation: MarianGeneration
    languages: tuple[str, str]  # codes for the normalization of punctuation
    separate: bool  # a vocabulary for each side

    @classmethod
    def read(cls, folder: Path, *, allow_pickle: bool) -> MarianFolder:
        """Raises DataError with the file and the key that cannot be used."""
        check_files(folder, allow_pickle=allow_pickle, pickle_hint="is a pickle: --allow-pickle reads it")
        config = read_hf_config(folder / CONFIG_FILE)
        if config.get("model_type") != "marian":
            raise DataError(
                f"{folder / CONFIG_FILE}: `model_type` is `{config.get('model_type')}`; only `marian` can be imported"
            )
        architecture = validate_fields(MarianArchitecture, config, folder / CONFIG_FILE)
        generation, names = config, {}
        if (folder / GENERATION_FILE).is_file():
            generation = {**config, **read_hf_config(folder / GENERATION_FILE)}
        if (folder / TOKENIZER_FILE).is_file():
            names = read_hf_config(folder / TOKENIZER_FILE)
        codes = [str(names.get(key)) for key in ("source_lang", "target_lang")]
        source, target = (code if re.fullmatch("[a-z]{2,3}", code) else "und" for code in codes)
        search = validate_fields(MarianGeneration, generation, folder / GENERATION_FILE)
        separate = names.get("separate_vocabs") is True or not architecture.share_encoder_decoder_embeddings
        return cls(folder, architecture, search, (source, target), separate)

    def tokenizers(self, *, punctuation: bool, language: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides; `language` is that of the translations, for a multilingual model.

        Raises: UserError for a language that the model lacks, or that is missing.
        """
        source, target = (
            {
                "kind": "sentencepiece",
                "path": self.folder.resolve() / model,
                "vocabulary": self.folder.resolve() / vocabulary,
                "punctuation": code if punctuation else None,
            }
            for model, vocabulary, code in zip(
                (SOURCE_MODEL, TARGET_MODEL), self.vocabulary_files, self.languages, strict=True
            )
        )
        known = re.findall(">>(\\S+)<<", " ".join(read_pieces(self.folder / VOCABULARY_FILE)))
        if (language is None and known) or (language is not None and language not in known):
            has = f"the model translates into {', '.join(known)}" if known else "the model has no tags of languages"
            raise UserError(f"{self.folder}: {has}; {'give one' if known else 'leave it out'} (--to LANG)")
        return source | {"tag": language and f">>{language}<<"}, target

    @property
    def vocabulary_files(self) -> tuple[str, str]:
        """The vocabularies of both sides."""
        return VOCABULARY_FILE, TARGET_VOCABULARY_FILE if self.separate else VOCABULARY_FILE

    def model(self, positions: Positions) -> dict[str, Any]:
        """The model section."""
        one = self.architecture
        both = {
            "kind": "transformer",
            "activation": {"swish": "silu"}.get(one.activation_function, one.activation_function),
            "norm_order": "post",
            "wavelengths": {"transformers": "paper"}.get(positions, positions),
            "dropout": one.dropout,
            "attention_dropout": one.attention_dropout,
        }
        score = {"kind": "multi-head", "heads": one.decoder_attention_heads}
        tie = "none" if not one.tie_word_embeddings else "all" if one.share_encoder_decoder_embeddings else "output"
        return {
            "embeddings": {"dim": one.d_model, "tie": tie, "scaled": one.scale_embedding},
            "encoder": both
            | {"layers": one.encoder_layers, "heads": one.encoder_attention_heads, "ffn_dim": one.encoder_ffn_dim},
            "decoder": both
            | {"layers": one.decoder_layers, "heads": one.decoder_attention_heads, "ffn_dim": one.decoder_ffn_dim}
            | {"attention": {"score": score, "dropout": one.attention_dropout}},
        }

    def rows(self, source: Tokenizer, target: Tokenizer) -> tuple[list[int], list[int]]:
        """Their id of each token of ours, of both sides; BOS is the token that their decoder starts with.

        Raises: DataError when a vocabulary has another size than its table, or lacks a special token.
        """
        tables = self.architecture.tables
        sides = []
        sizes = tables.source_size, tables.target_size
        for tokenizer, name, size in zip((source, target), self.vocabulary_files, sizes, strict=True):
            file = self.folder / name
            ids = {piece: id for id, piece in enumerate(read_pieces(file))}
            if len(ids) != size:
                raise DataError(f"{file}: has {len(ids)} entries, and the model {size} by config.json")
            for token, key in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
                if ids.get(token) != (expected := getattr(self.architecture, key)):
                    raise DataError(f"{file}: `{token}` has the id {ids.get(token)}, expected `{key}`, {expected}")
            if "<unk>" not in ids:
                raise DataError(f"{file}: lacks `<unk>`")
            ids |= {SPECIAL_TOKENS[BOS]: self.architecture.decoder_start_token_id}
            sides.append([ids[token] for token in tokenizer.vocabulary.tokens])
        return sides[0], sides[1]

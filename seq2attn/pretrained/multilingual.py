"""M2M100, NLLB and mBART-50: descendants of BART with the tag of a language before the lines of both sides.

sentencepiece.bpe.model    a SentencePiece model for all languages
vocab.json                 ids of its pieces; without this file fairseq's: four special tokens, then the pieces
special_tokens_map.json tokenizer_config.json tokenizer.json    the tags, in one of these files
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from seq2attn.errors import DataError
from seq2attn.io.hf_folder import CONFIG_FILE
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.bart import BART_NAMES, LEARNED_NAMES, BartArchitecture, BartFamily
from seq2attn.pretrained.family import OUR_START, TOKENIZER_FILE, Encode, VocabularyFile
from seq2attn.tokenizers.sentencepiece_model import find_languages, read_model_pieces, read_pieces

MODEL_FILE, VOCABULARY_FILE = "sentencepiece.bpe.model", "vocab.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
FAIRSEQ_TOKENS = ("<s>", "<pad>", "</s>", "<unk>")
MAX_UNUSED = 8
"""Maximum number of rows without a token at the end of the table: fairseq's made-up words."""


class Multilingual(BartFamily):
    """Lines of both sides begin with the tag of their language, the first word of a translation."""

    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides."""
        options = self.options
        languages = find_languages(self.special_tokens)
        if not languages:
            raise DataError(f"{self.folder}: {SPECIAL_TOKENS_FILE} lacks `additional_special_tokens`, the languages")
        self.check_language(options.source_language, languages, "source_language")
        self.check_language(options.target_language, languages, "target_language")
        section = {
            "kind": "sentencepiece",
            "path": self.folder.resolve() / MODEL_FILE,
            "vocabulary": self.vocabulary.resolve() if self.vocabulary.is_file() else None,
            "special_tokens": self.special_tokens,
        }
        source, target = (languages[str(name)] for name in (options.source_language, options.target_language))
        return {**section, "tag": source}, {**section, "tag": target}

    @property
    def vocabulary(self) -> Path:
        """A file that the folder may have."""
        return self.folder / VOCABULARY_FILE

    @cached_property
    def pieces(self) -> dict[str, int]:
        """The id of each piece, and of fairseq's special tokens. Raises UserError."""
        if self.vocabulary.is_file():
            return read_pieces(self.vocabulary)
        tokens = dict.fromkeys((*FAIRSEQ_TOKENS, *read_model_pieces(self.folder / MODEL_FILE)))
        return {token: id for id, token in enumerate(tokens)}

    @cached_property
    def added(self) -> dict[str, int]:
        """The id of each token after the pieces: tags, `<mask>`, and unused rows. Raises DataError."""
        try:
            ids = self._listed_ids()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            files = f"{SPECIAL_TOKENS_FILE}, {TOKENIZER_FILE}"
            raise DataError(f"{self.folder}: the tokens in one of {files} cannot be read ({error!r})") from None
        first, size = len(self.pieces), self.architecture.vocab_size
        unused = range(first + len(ids), size)
        if len(unused) <= MAX_UNUSED:
            ids |= {f"<unused{id}>": id for id in unused}
        if sorted(ids.values()) != [*range(first, first + len(ids))]:
            raise DataError(f"{self.folder}: the ids of its languages do not follow those of the {first:,} pieces")
        return ids

    def _listed_ids(self) -> dict[str, int]:
        """The ids of tags and `<mask>` as the files say, or in the order of the list of tags."""
        settings, lists = self.tokenizer_settings, self.read_optional(SPECIAL_TOKENS_FILE)
        explicit = {token: id for token, (id, _) in self.added_tokens.items() if token not in self.pieces}
        if find_languages(explicit):
            return explicit
        names = lists.get("additional_special_tokens") or settings.get("additional_special_tokens") or []
        tokens = dict.fromkeys(str(name["content"] if isinstance(name, dict) else name) for name in names)
        mask = [] if self.vocabulary.is_file() or "<mask>" in tokens else ["<mask>"]
        return {token: len(self.pieces) + number for number, token in enumerate((*tokens, *mask))}

    @property
    def special_tokens(self) -> list[str]:
        """Our tokens that are no pieces."""
        return [OUR_START, *self.added]

    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """A file and its id of each token, for both sides: the same."""
        ids = {**self.pieces, **self.added}
        ids[OUR_START] = ids.pop("<s>")
        side = (self.vocabulary if self.vocabulary.is_file() else self.folder / MODEL_FILE), ids
        return side, side


class M2M100Architecture(BartArchitecture):
    """Fields of `config.json` that define a model of this kind, with their names there."""

    activation_function: Literal["swish", "silu", "relu", "gelu"] = "relu"
    scale_embedding: bool = True


class M2M100(Multilingual):
    """Pre-norm layers; tensor2tensor's sinusoids, of which the first token has the one after that of padding."""

    model_type = "m2m_100"
    architecture_class = M2M100Architecture
    norms: ClassVar[Mapping[str, Any]] = {"norm_order": "pre"}
    tokenizer_class = "NllbTokenizer"
    names = replace(
        BART_NAMES, bias="", sinusoids=tuple(f"model.{side}coder.embed_positions.weights" for side in ("en", "de"))
    )

    def __init__(self, folder: Path, config: Mapping[str, Any], options: ImportOptions) -> None:
        """Raises UserError with the file and the key that cannot be used."""
        super().__init__(folder, config, options)
        if self.tokenizer_settings.get("tokenizer_class") == "SMALL100Tokenizer":
            raise DataError(
                f"{folder / TOKENIZER_FILE}: `tokenizer_class` is that of SMaLL-100, whose sources begin with the"
                " target language; it cannot be imported"
            )

    @property
    def layers(self) -> dict[str, Any]:
        """Settings that encoder and decoder share: norms and positions."""
        return {**super().layers, "position_offset": self.architecture.pad_token_id + 1}

    def original_encoder(self) -> Encode:
        """The original tokenizer of the source: that of NLLB, or of M2M100 with its vocabulary."""
        if not self.vocabulary.is_file():
            return super().original_encoder()
        from transformers import M2M100Tokenizer

        files = [str(path) for path in (self.vocabulary, self.folder / MODEL_FILE)]
        codes = self.tokenizer_settings.get("language_codes", "m2m100")
        tokenizer = M2M100Tokenizer(*files, src_lang=self.options.source_language, language_codes=codes)
        return lambda line: list(tokenizer(line).input_ids)


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
    names = LEARNED_NAMES
    tokenizer_class = "MBart50Tokenizer"
    norms: ClassVar[Mapping[str, Any]] = {"norm_order": "pre", "embedding_norm": True}

    def __init__(self, folder: Path, config: Mapping[str, Any], options: ImportOptions) -> None:
        """Raises UserError with the file and the key that cannot be used."""
        super().__init__(folder, config, options)
        if self.tokenizer_settings.get("tokenizer_class") in ("MBartTokenizer", "MBartTokenizerFast"):
            raise DataError(
                f"{folder / TOKENIZER_FILE}: `tokenizer_class` is that of the first mBART, whose sources end with their"
                " language; only mBART-50 can be imported"
            )
        if self.architecture.decoder_start_token_id != self.architecture.eos_token_id:
            raise DataError(
                f"{folder / CONFIG_FILE}: `decoder_start_token_id` is not EOS, as in translation models of the first"
                " mBART; only mBART-50 can be imported"
            )

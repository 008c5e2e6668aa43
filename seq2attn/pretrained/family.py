"""A family of pretrained models: how the files of a Hugging Face folder become a run."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias
from zipfile import is_zipfile

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from seq2attn.config.base import Config
from seq2attn.errors import DataError, UserError
from seq2attn.io.files import FILE_HINT, MAX_FILE_BYTES, MAX_JSON_BYTES, open_regular, read_object
from seq2attn.io.hf_folder import (
    CONFIG_FILE,
    INDEX_FILE,
    PICKLE_FILE,
    WEIGHTS_FILE,
    read_hf_specs,
    read_hf_tensors,
    validate_fields,
)
from seq2attn.nn.layers import SinusoidalPositionEncoding
from seq2attn.options.runs import ImportOptions
from seq2attn.pretrained.hf_weights import Tables, WeightNames, Weights
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.sentencepiece_model import SentencePieceTokenizer
from seq2attn.tokenizers.vocabulary import BOS, SPECIAL_TOKENS

GENERATION_FILE, TOKENIZER_FILE = "generation_config.json", "tokenizer_config.json"
HF_TOKENIZER_FILE = "tokenizer.json"
OUR_START = "<bos>"
"""Our name of their `<s>` where it is not the first token of a translation."""
NumPositions = Annotated[int, Field(gt=0, le=2**16)]
"""Number of positions, for which a table may be computed."""
Size = Annotated[int, Field(gt=0, lt=2**31)]
"""Number of rows or columns, which PyTorch can hold."""
VocabularyFile: TypeAlias = tuple[Path, dict[str, int]]
"""A file with a vocabulary, and its id of each token."""
Encode: TypeAlias = Callable[[str], list[int]]
"""A normalized line -> its ids with those of special tokens."""


def _read_pickle(file: Path) -> dict[str, Tensor]:
    """Pickled weights. Raises DataError for a file that holds anything but tensors."""
    try:
        open_regular(file).close()
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
        if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
            raise TypeError("it holds other values than tensors")
        for name, tensor in content.items():
            if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
                raise TypeError(f"`{name}` is sparse, nested or without values")
    except Exception as error:  # a corrupt or hostile file raises any
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{file}: cannot be converted to safetensors ({reason})") from None
    return {str(name): tensor.detach() for name, tensor in content.items()}


class Architecture(Config):
    """Fields of `config.json` that all families have, with their names there."""

    vocab_size: Size
    pad_token_id: NonNegativeInt
    eos_token_id: NonNegativeInt
    decoder_start_token_id: NonNegativeInt
    tie_word_embeddings: bool = True


class Generation(Config):
    """Fields of `generation_config.json`, or of an older `config.json`, that define the search."""

    num_beams: PositiveInt = 1
    max_length: int | None = Field(None, ge=3)
    min_length: NonNegativeInt = 0
    no_repeat_ngram_size: NonNegativeInt = 0
    length_penalty: float = Field(1.0, ge=0, le=10)
    early_stopping: bool | Literal["never"] = False
    max_length_ratio: float | None = None  # of Marian's own files

    def search(self, max_positions: int, language: str | None) -> dict[str, Any]:
        """The search section, for sources in a language such as `de` or `deu_Latn`, or another name.

        The lengths of the file include the first token, and the maximum EOS too.
        """
        code = re.match("[a-z]{2,3}(?![A-Za-z])", language or "")
        lengths = {
            "length_penalty": "average",
            "alpha": self.length_penalty,
            "min_length": max(self.min_length - 1, 0),
            "max_length": min(self.max_length or max_positions + 1, max_positions + 1) - 2,
            "max_length_ratio": self.max_length_ratio,
            "source_language": code[0] if code else "und",
        }
        search = {"no_repeat_ngram_size": self.no_repeat_ngram_size or None, "lengths": lengths}
        if self.num_beams == 1:
            return {"kind": "greedy", **search}
        patience = {True: 1.0, False: 2.0, "never": None}[self.early_stopping]
        return {"kind": "beam", "beam_size": self.num_beams, "patience": patience, **search}


class Family(ABC):
    """A pretrained model: the small files of its folder, read and validated."""

    model_type: ClassVar[str]
    """The value in `config.json`."""
    architecture_class: ClassVar[type[Architecture]]
    """The fields of `config.json`."""
    names: ClassVar[WeightNames]
    """Names of the weights in the file."""
    tokenizer_class: ClassVar[str]
    """The tokenizer of `transformers`."""
    has_original = True
    """True if `transformers` has such a model."""

    def __init__(self, folder: Path, config: Mapping[str, Any], options: ImportOptions) -> None:
        """Raises UserError with the file and the key that cannot be used."""
        self.folder = folder
        self.options = options
        self.architecture = validate_fields(self.architecture_class, config, folder / CONFIG_FILE)
        file = folder / (GENERATION_FILE if (folder / GENERATION_FILE).is_file() else CONFIG_FILE)
        self.generation = validate_fields(Generation, self.read_optional(file.name), file)
        self.tokenizer_settings = self.read_optional(TOKENIZER_FILE)

    def read_optional(self, name: str, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
        """The JSON object in a file of the folder; empty without the file. Raises RunError."""
        return read_object(self.folder / name, FILE_HINT, max_bytes) if (self.folder / name).is_file() else {}

    @cached_property
    def added_tokens(self) -> dict[str, tuple[int, bool]]:
        """Tokens beside the pieces, by two files of the tokenizer: id, and whether it is special. Raises UserError."""
        try:
            entries = [*self.read_optional(HF_TOKENIZER_FILE, MAX_FILE_BYTES).get("added_tokens", [])]
            decoder = self.tokenizer_settings.get("added_tokens_decoder", {})
            entries += [{"id": id, **token} for id, token in decoder.items()]
            return {str(token["content"]): (int(token["id"]), token.get("special") is not False) for token in entries}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            files = f"{TOKENIZER_FILE}, {HF_TOKENIZER_FILE}"
            raise DataError(f"{self.folder}: the tokens in one of {files} cannot be read ({error!r})") from None

    def weights(self, *, allow_pickle: bool) -> Weights:
        """The weights of the folder. Raises DataError."""
        if not allow_pickle or any((self.folder / name).is_file() for name in (WEIGHTS_FILE, INDEX_FILE)):
            return Weights(read_hf_specs(self.folder), partial(read_hf_tensors, self.folder))
        return Weights.in_memory(_read_pickle(self.folder / PICKLE_FILE))

    @property
    def own_options(self) -> tuple[str, ...]:
        """Fields of `ImportOptions`, besides languages, that have an effect on this model."""
        return ()

    @property
    @abstractmethod
    def tables(self) -> Tables:
        """The embeddings and the output layer."""

    @property
    @abstractmethod
    def max_positions(self) -> int:
        """Positions of the original, for source and translation each."""

    @abstractmethod
    def model(self) -> dict[str, Any]:
        """The model section."""

    @abstractmethod
    def tokenizers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer sections of both sides.

        Raises UserError for a language that the model lacks, or that is missing.
        """

    def search(self) -> dict[str, Any]:
        """The search section."""
        return self.generation.search(self.max_positions, self.options.source_language)

    @abstractmethod
    def token_ids(self) -> tuple[VocabularyFile, VocabularyFile]:
        """A file and its id of each token, for both sides; PAD, EOS and UNK have our names. Raises UserError."""

    def rows(self, source: Tokenizer, target: Tokenizer) -> tuple[list[int], list[int]]:
        """Their id of each token of ours, of both sides; BOS is the token that their decoder starts with.

        Raises DataError when a vocabulary has another size than its table, or lacks a special token, and for added
        tokens of text, which SentencePiece does not find in a line.
        """
        if isinstance(source, SentencePieceTokenizer):
            for token, (id, is_special) in self.added_tokens.items():
                if not is_special:
                    raise DataError(f"{self.folder}: its tokenizer has added tokens of text, such as `{token}` ({id})")
        sides = []
        sizes = self.tables.source_size, self.tables.target_size
        for tokenizer, (file, ids), size in zip((source, target), self.token_ids(), sizes, strict=True):
            if len(ids) != size:
                raise DataError(f"{file}: has {len(ids)} entries, and the model {size} by config.json")
            if {*ids.values()} != {*range(size)}:
                raise DataError(f"{file}: its ids are not 0 to {size - 1}, each once")
            for token, key in (("<pad>", "pad_token_id"), ("</s>", "eos_token_id")):
                if ids.get(token) != (expected := getattr(self.architecture, key)):
                    raise DataError(f"{file}: `{token}` has the id {ids.get(token)}, expected `{key}`, {expected}")
            if "<unk>" not in ids:
                raise DataError(f"{file}: lacks `<unk>`")
            if (start := self.architecture.decoder_start_token_id) >= size:
                raise DataError(f"{self.folder / CONFIG_FILE}: `decoder_start_token_id` is {start} of {size} entries")
            ids = ids | {SPECIAL_TOKENS[BOS]: start}
            sides.append([ids[token] for token in tokenizer.vocabulary.tokens])
        return sides[0], sides[1]

    def convert(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Weights of the same function in our layers, where these differ in scale; with the same names."""
        return tensors

    def computed(self) -> dict[str, Tensor]:
        """Weights that a file may lack, by their names there."""
        return {}

    def check_positions(self, tensors: Mapping[str, Tensor]) -> None:
        """Raises DataError for a table of positions in the file that is not of either formula."""
        for name in self.names.sinusoids:
            if name in tensors:
                table = tensors[name]
                rows = table.any(1).nonzero().flatten()  # M2M100 has zeros at the position of padding
                for wavelengths in ("tensor2tensor", "paper"):
                    formula = SinusoidalPositionEncoding(table.size(1), wavelengths)(rows)
                    if len(rows) >= len(table) - 1 and torch.allclose(table[rows], formula, atol=2e-3):  # of float16
                        break
                else:
                    problem = "is not a table of sinusoidal position encodings, which this model needs"
                    raise DataError(f"{self.folder}: `{name}` {problem}")

    def load_original(self, tensors: Mapping[str, Tensor]) -> Any:
        """The original model with its `tensors`; `from_pretrained` would follow other files."""
        from transformers import AutoConfig, AutoModelForSeq2SeqLM, GenerationConfig

        config = AutoConfig.for_model(self.model_type, **self.architecture.model_dump())
        model = AutoModelForSeq2SeqLM.from_config(config).eval()
        model.generation_config = GenerationConfig()  # without a forced EOS
        model.load_state_dict({**tensors, **self.tables.all_names(tensors)}, strict=False)
        return model

    def original_encoder(self) -> Encode:
        """The original tokenizer of the source, a `tokenizer_class`. Raises DataError if it cannot be read."""
        import transformers

        language = self.options.source_language
        settings = {} if language is None else {"src_lang": language}
        try:
            tokenizer_class = getattr(transformers, self.tokenizer_class)
            tokenizer = tokenizer_class.from_pretrained(self.folder, local_files_only=True, **settings)
        except Exception as error:  # corrupt files raise many kinds
            reason = str(error).partition("\n")[0]
            raise DataError(f"{self.folder}: `transformers` cannot read its tokenizer ({reason})") from None
        return lambda line: list(tokenizer(line).input_ids)

    def check_language(self, language: str | None, known: Collection[str], argument: str) -> None:
        """Raises UserError for a `language` that the model lacks, or that is missing."""
        if (language is None and not known) or language in known:
            return
        has = f"the model has the languages {', '.join(known)}" if known else "the model has no tags of languages"
        raise UserError(f"{self.folder}: {has}; {'give one' if known else 'leave it out'} (``{argument}=LANG``)")

    def check_target_language(self, known: Collection[str] = ()) -> None:
        """Raises UserError for a source language, and for a target language that is not `known`, or missing."""
        self.check_language(self.options.target_language, known, "target_language")
        self.check_language(self.options.source_language, (), "source_language")

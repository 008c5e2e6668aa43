"""The WordPiece tokenizer of a BERT checkpoint: its vocabulary, rules and special tokens.

Segmentation is that of Hugging Face's `tokenizers`. BERT's special tokens are renamed:

    [PAD] is <pad>,  [CLS] is <s>,  [SEP] is </s>,  [UNK] is <unk>

`encode` puts `[CLS]` before every non-empty line, as in BERT's training; `[SEP]` is added when a batch is collated,
like EOS of any source. All others, including `[MASK]`, are tokens. As with Hugging Face's BERT tokenizers, the name of
a special token in the text is that token: `which city ? [SEP] anna lives in rome`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from seq2attn.config.base import FieldError, InputPath, input_path
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import MAX_FILE_BYTES, json_bytes, read_object, sha256_json
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.given import GivenTokenizerConfig, file_digest
from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.vocabulary import BOS, SPECIAL_TOKENS, TOKENIZER_HINT, UNK, Vocabulary

WORDPIECE_FILE = "wordpiece.json"
VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")
"""Vocabulary files of a checkpoint: as Devlin et al. published it, and as `tokenizers` writes it."""
RULE_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Optional files of a checkpoint with rules of segmentation."""
CONTINUATION_PREFIX = "##"
"""Prefix of tokens that continue a word."""


def check_dependency() -> None:
    """Raises FieldError if `transformers` is not installed."""
    if find_spec("transformers") is None:
        raise FieldError("kind", "needs the package transformers: pip install 'seq2attn[bert]'")


def resolve_folder(path: str | Path) -> Path:
    """The absolute folder of a path in a config. Raises FieldError if it does not exist."""
    folder = input_path("path", path)
    if not folder.is_dir():
        raise FieldError("path", f"there is no folder {folder}; expected that of a BERT checkpoint")
    return folder


class WordPieceTokenizerConfig(GivenTokenizerConfig):
    """The tokenizer of a BERT, for the source only: decoding does not restore the text exactly."""

    kind: Literal["wordpiece"] = "wordpiece"
    path: InputPath
    """The folder of a BERT checkpoint, with its `vocab.txt` or `tokenizer.json`."""

    @model_validator(mode="before")
    @classmethod
    def _check_dependency(cls, data: Any) -> Any:
        check_dependency()
        return data

    @classmethod
    def digest_of(cls, fields: Mapping[str, Any]) -> str:
        """SHA-256 of the tokenizer's files in the folder. Raises FieldError when there is no vocabulary."""
        folder = resolve_folder(fields["path"])
        files = [folder / name for name in (*VOCABULARY_FILES, *RULE_FILES) if (folder / name).is_file()]
        if not any(file.name in VOCABULARY_FILES for file in files):
            raise FieldError("path", f"{folder} has neither {' nor '.join(VOCABULARY_FILES)}")
        return sha256_json([[file.name, file_digest("path", file)] for file in files])

    @property
    def vocabulary_source(self) -> tuple[object, ...]:
        """The origin of the tokens: equal for two tokenizers with the same vocabulary."""
        return (self.path,)

    def train(self, lines: Iterable[str]) -> WordPieceTokenizer:
        """The tokenizer in the folder; `lines` are not used.

        Raises DataError for a vocabulary that was changed, cannot be read, is not WordPiece, or lacks a special token.
        """
        from tokenizers.models import WordPiece
        from transformers import BertTokenizerFast

        self.check_digest()
        try:
            hf_tokenizer = BertTokenizerFast.from_pretrained(self.path, local_files_only=True)
        except Exception as error:  # corrupt files raise many kinds
            raise DataError(f"{self.path}: its vocabulary cannot be read: {error}") from None
        backend = hf_tokenizer.backend_tokenizer
        if not isinstance(backend.model, WordPiece):
            raise DataError(f"{self.path}: its vocabulary is not WordPiece; expected that of a BERT")
        names = ("pad_token", "cls_token", "sep_token", "unk_token", "mask_token")
        special_tokens = [getattr(hf_tokenizer, name) for name in names]
        vocabulary = backend.get_vocab(with_added_tokens=False)
        if missing := [token for token in special_tokens if token not in vocabulary]:
            raise DataError(f"{self.path}: its vocabulary lacks {', '.join(map(str, missing))}")
        backend.no_truncation()
        backend.no_padding()
        return WordPieceTokenizer(self, backend, special_tokens[: len(SPECIAL_TOKENS)])

    def load(self, folder: Path, vocabulary: Vocabulary) -> WordPieceTokenizer:
        """The tokenizer saved in a folder. Raises RunError when its file is missing or corrupt."""
        from tokenizers import Tokenizer as Backend

        content = read_object(folder / WORDPIECE_FILE, TOKENIZER_HINT, MAX_FILE_BYTES)
        try:
            backend = Backend.from_str(json.dumps(content["tokenizer"], ensure_ascii=False))
            return WordPieceTokenizer(self, backend, content["controls"])
        except Exception as error:  # `tokenizers` raises no other class
            message = f"{folder / WORDPIECE_FILE}: is not a WordPiece tokenizer ({error}); {TOKENIZER_HINT}"
            raise RunError(message) from None


class WordPieceTokenizer(Tokenizer):
    """BERT's segmentation. The four special ids are those of `Vocabulary`; the others keep BERT's order."""

    config: WordPieceTokenizerConfig
    line_prefix = (BOS,)

    def __init__(self, config: WordPieceTokenizerConfig, backend: Any, special_tokens: Sequence[str]) -> None:
        """`special_tokens` are BERT's names of PAD, BOS, EOS and UNK."""
        self._backend = backend
        rules = json.loads(backend.to_str())
        self.files = {WORDPIECE_FILE: json_bytes({"controls": special_tokens, "tokenizer": rules})}
        ids_by_token: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        reserved = {*special_tokens, *SPECIAL_TOKENS}
        others = sorted((id, token) for token, id in ids_by_token.items() if token not in reserved)
        super().__init__(config, Vocabulary(SPECIAL_TOKENS + tuple(token for _, token in others)))
        self.bert_ids = (*(ids_by_token[token] for token in special_tokens), *(id for id, _ in others))
        """BERT's id of each token of the vocabulary."""
        self._from_bert_id = {bert_id: id for id, bert_id in enumerate(self.bert_ids)}

    def _encode(self, text: str) -> list[int]:
        ids = [] if is_blank(text) else self._backend.encode(text, add_special_tokens=False).ids
        return [*self.line_prefix, *(self._from_bert_id.get(id, UNK) for id in ids)] if ids else []

    def _surface(self, id: int) -> str:
        token = self.vocabulary.tokens[int(id)]
        return token.removeprefix(CONTINUATION_PREFIX) if token.startswith(CONTINUATION_PREFIX) else f" {token}"

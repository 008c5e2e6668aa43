"""WordPiece as a BERT checkpoint brings it: its vocabulary, its rules, its special tokens.

Cutting is the checkpoint's own, by Hugging Face's `tokenizers`. BERT's special tokens are ours by another name:

    [PAD] is <pad>,  [CLS] is <s>,  [SEP] is </s>,  [UNK] is <unk>

`[CLS]` stands at the head of every line that is not empty, since BERT was never shown one without; `[SEP]` comes with
the batch, like the end of any source. All others, `[MASK]` among them, are tokens. As BERT's own tokenizer does, a
special token written in the text is taken for one: `which city ? [SEP] anna lives in rome`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationInfo, model_validator

from seq2attn.config.base import Config, FieldError, InputPath
from seq2attn.config.trust import is_of_run
from seq2attn.errors import DataError, RunError
from seq2attn.io.files import read_object, sha256_json, sha256_of, write_json
from seq2attn.tokenizers.normalize import collapse_whitespace
from seq2attn.tokenizers.tokenizer_files import save_tokenizer_files
from seq2attn.tokenizers.vocabulary import BOS, CONTROL_IDS, SPECIAL_TOKENS, UNK, Vocabulary, ids_to_tokens
from seq2attn.tokenizers.word_ids import assign_word_ids

HF_TOKENIZER_FILE = "wordpiece.json"
VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")
"""Where a checkpoint may have its vocabulary: as Devlin et al. published it, and as `tokenizers` writes it."""
RULE_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""What else says how text is cut, where a checkpoint has it."""
CONTINUATION_PREFIX = "##"
"""The mark of a piece that goes on with the word before it."""


def missing_dependency() -> FieldError | None:
    """What to install, where `transformers` is not."""
    if find_spec("transformers") is not None:
        return None
    return FieldError("kind", "needs the package transformers: pip install 'seq2attn[bert]'")


def resolve_folder(path: str | Path) -> Path:
    """A path as a config has it to the folder that it means.

    Raises: FieldError when there is no such folder.
    """
    folder: Path = TypeAdapter(InputPath).validate_python(path)
    if not folder.is_dir():
        raise FieldError("path", f"there is no folder {folder}; expected that of a BERT checkpoint")
    return folder


def _digest(folder: Path) -> str:
    """SHA-256 of what a folder says of its pieces.

    Raises: FieldError when there is no vocabulary.
    """
    files = [folder / name for name in (*VOCABULARY_FILES, *RULE_FILES) if (folder / name).is_file()]
    if not any(file.name in VOCABULARY_FILES for file in files):
        raise FieldError("path", f"{folder} has neither {' nor '.join(VOCABULARY_FILES)}")
    return sha256_json([[file.name, sha256_of(file)] for file in files])


class WordPieceTokenizerConfig(Config):
    """The pieces of words that a BERT knows: for the source, as they are not joined again to what they were."""

    kind: Literal["wordpiece"] = "wordpiece"
    path: InputPath
    """The folder of a BERT checkpoint, with its `vocab.txt` or `tokenizer.json`."""
    digest: str = ""
    """SHA-256 of what the folder says of its pieces; filled in, and then the folder is not needed any more."""

    @model_validator(mode="before")
    @classmethod
    def _look(cls, data: Any, info: ValidationInfo) -> Any:
        if mistake := missing_dependency():
            raise mistake
        if not isinstance(data, dict) or data.get("digest") or not isinstance(data.get("path"), str | Path):
            return data
        if is_of_run(data["path"]):
            raise FieldError("digest", "is missing, which a run has: the folder that it names is not looked into")
        return {**data, "digest": _digest(resolve_folder(data["path"]))}

    def train(self, lines: Iterable[str]) -> WordPieceTokenizer:
        """Read the folder: there is nothing to learn from `lines`.

        Raises: DataError for a vocabulary that was changed, cannot be read, is no WordPiece, or lacks a special token.
        """
        from tokenizers.models import WordPiece
        from transformers import BertTokenizerFast

        try:
            is_same = _digest(resolve_folder(self.path)) == self.digest
        except FieldError as mistake:  # in a config that was filled in elsewhere, or long ago
            raise DataError(mistake.message) from None
        if not is_same:
            raise DataError(f"{self.path}: its vocabulary is not that of the config's `digest`; leave that out")
        try:
            own = BertTokenizerFast.from_pretrained(self.path, local_files_only=True)
        except Exception as error:  # whatever a damaged file makes of it: there are many kinds
            raise DataError(f"{self.path}: its vocabulary cannot be read: {error}") from None
        backend = own.backend_tokenizer
        if not isinstance(backend.model, WordPiece):
            raise DataError(f"{self.path}: its vocabulary is no WordPiece; expected that of a BERT")
        needed = (own.pad_token, own.cls_token, own.sep_token, own.unk_token, own.mask_token)
        known = backend.get_vocab(with_added_tokens=False)
        if absent := [token for token in needed if token not in known]:
            raise DataError(f"{self.path}: its vocabulary lacks {', '.join(map(str, absent))}")
        backend.no_truncation()
        backend.no_padding()
        return WordPieceTokenizer(self, backend, needed[: len(SPECIAL_TOKENS)])


class WordPieceTokenizer:
    """Cuts as BERT does. The four special ids are ours; the others keep the order that they have in BERT."""

    is_stochastic: ClassVar[bool] = False

    def __init__(self, config: WordPieceTokenizerConfig, backend: Any, controls: Sequence[str]) -> None:
        """`controls` are BERT's names for PAD, BOS, EOS and UNK."""
        self.config, self.special_tokens, self._backend = config, tuple(controls), backend
        known: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        taken = {*controls, *SPECIAL_TOKENS}
        others = sorted((id, token) for token, id in known.items() if token not in taken)
        self.bert_ids = (*(known[token] for token in controls), *(id for id, _ in others))
        """BERT's id for each of ours."""
        self.vocabulary = Vocabulary(SPECIAL_TOKENS + tuple(token for _, token in others))
        self._ours = {id: own for own, id in enumerate(self.bert_ids)}

    def encode(self, line: str) -> list[int]:
        """The ids of a line's pieces after BOS, without EOS; none for an empty line."""
        ids = self._backend.encode(line, add_special_tokens=False).ids
        return [BOS, *(self._ours.get(id, UNK) for id in ids)] if ids else []

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line: there is one way to cut it."""
        return [self.encode(line) for line in lines]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces as shown to people, `##` where a word goes on."""
        return ids_to_tokens(self.vocabulary, ids)

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the number of the word of `decode(ids)` it belongs to; PAD, BOS and EOS: -1."""
        return assign_word_ids(map(self._surface, ids))

    def decode(self, ids: Sequence[int]) -> str:
        """The words as BERT sees them, with spaces around punctuation; an unknown one is shown as `<unk>`."""
        return collapse_whitespace("".join(map(self._surface, ids)))

    def _surface(self, id: int) -> str:
        token = self.vocabulary.token(int(id))
        if id in CONTROL_IDS:
            return ""
        return token.removeprefix(CONTINUATION_PREFIX) if token.startswith(CONTINUATION_PREFIX) else f" {token}"

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        rules = json.loads(self._backend.to_str())
        write_json(folder / HF_TOKENIZER_FILE, {"controls": self.special_tokens, "tokenizer": rules})
        save_tokenizer_files(folder, self.config, self.vocabulary)


def load_wordpiece(config: WordPieceTokenizerConfig, folder: Path, fix: str) -> WordPieceTokenizer:
    """Read what `WordPieceTokenizer.save` wrote.

    Raises: RunError when it is missing or nothing of ours.
    """
    from tokenizers import Tokenizer

    content = read_object(folder / HF_TOKENIZER_FILE, fix)
    try:
        backend = Tokenizer.from_str(json.dumps(content["tokenizer"], ensure_ascii=False))
        return WordPieceTokenizer(config, backend, content["controls"])
    except Exception as error:  # `tokenizers` raises no other kind
        raise RunError(f"{folder / HF_TOKENIZER_FILE}: is no WordPiece of ours ({error}); {fix}") from None

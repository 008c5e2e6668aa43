"""A given `tokenizer.json` of Hugging Face's library `tokenizers`: byte-level BPE (Radford et al. 2019) for BART."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from seq2attn.config.base import InputPath
from seq2attn.errors import RunError, UserError
from seq2attn.io.files import FILE_HINT, read_bytes
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.given import GivenTokenizerConfig
from seq2attn.tokenizers.normalize import SPACE_MARK, collapse_line, collapse_whitespace, is_unspaced
from seq2attn.tokenizers.vocabulary import CONTROL_IDS, TOKENIZER_HINT, UNK, Vocabulary

BACKEND_FILE = "backend.json"
BYTE_SPACE = "Ġ"
"""The mark of a space in tokens of byte-level BPE."""
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES = {chr(byte): byte for byte in _VISIBLE} | {
    chr(0x100 + number): byte for number, byte in enumerate(sorted({*range(0x100)} - {*_VISIBLE}))
}
"""The byte of each letter of such a token: visible ones are themselves, the others in order from U+0100."""


class HFTokenizerConfig(GivenTokenizerConfig):
    """A given `tokenizer.json`, which is not trained."""

    kind: Literal["hugging-face"] = "hugging-face"
    path: InputPath
    """The file `tokenizer.json`."""
    tag: str | None = None
    """Token before every line, such as `<bos>` for BART; without text, and added if the file lacks it."""

    @property
    def vocabulary_source(self) -> tuple[object, ...]:
        """The origin of the tokens: equal for two tokenizers with the same vocabulary."""
        return self.path, self.tag

    def train(self, lines: Iterable[str]) -> HFTokenizer:
        """The tokenizer in the file; `lines` are not used.

        Raises UserError for a file that is missing or corrupt, or was changed.
        """
        content = read_bytes(self.path, FILE_HINT)
        backend = load_backend(content, self.path)
        self.check_digest()
        ids: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        tokens = dict.fromkeys((*sorted(ids, key=ids.__getitem__), *([self.tag] if self.tag else [])))
        return HFTokenizer(self, content, backend, Vocabulary.from_tokens(tokens))

    def load(self, folder: Path, vocabulary: Vocabulary) -> HFTokenizer:
        """The tokenizer saved in a folder, with its vocabulary. Raises RunError when its file cannot be read."""
        content = read_bytes(folder / BACKEND_FILE, TOKENIZER_HINT)
        return HFTokenizer(self, content, load_backend(content, folder / BACKEND_FILE), vocabulary)


def load_backend(content: bytes, path: Path) -> Any:
    """The tokenizer of the library. Raises RunError when `content`, that of `path`, is none; UserError without it."""
    try:
        from tokenizers import Tokenizer as Backend
    except ImportError:
        raise UserError("this tokenizer needs the package tokenizers: pip install 'seq2attn[pretrained]'") from None
    try:
        backend = Backend.from_str(content.decode())
        if backend.decoder is None:
            raise ValueError("it has no `decoder`")
    except Exception as error:  # `tokenizers` raises no other class
        raise RunError(f"{path}: is not a tokenizer of Hugging Face ({error}); {FILE_HINT}") from None
    backend.no_truncation()
    backend.no_padding()
    return backend


class HFTokenizer(Tokenizer):
    """Segmentation by the library, without its special tokens."""

    config: HFTokenizerConfig

    def __init__(self, config: HFTokenizerConfig, content: bytes, backend: Any, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.files, self._backend = {BACKEND_FILE: content}, backend
        if config.tag is not None:
            self.line_tag = config.tag
            self.line_prefix = (vocabulary.id(config.tag),)
        added = self._backend.get_added_tokens_decoder().values()
        special = {vocabulary.id(token.content) for token in added if token.special} - {UNK}
        self._silent |= {*self.line_prefix, *special}

    def normalize(self, line: str) -> str:
        """The line that the library segments."""
        return collapse_line(line)

    def _encode(self, text: str) -> list[int]:
        ids = self._token_ids(self.normalize(text))
        return [*self.line_prefix, *ids] if ids else []

    def _encode_phrase(self, text: str) -> list[int]:
        text = self.normalize(text)
        return self._token_ids(text if is_unspaced(text[:1]) else f" {text}")

    def _token_ids(self, text: str) -> list[int]:
        ids = map(self.pieces.id, self._backend.encode(text, add_special_tokens=False).tokens)
        return [UNK if id in CONTROL_IDS else id for id in ids]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as text, with special tokens, marks of spaces, and the bytes of incomplete characters."""
        return [_readable(token) for token in super().convert_ids_to_tokens(ids)]

    def _surface(self, id: int) -> str:
        return super()._surface(id).replace(BYTE_SPACE, " ")

    def _decode(self, ids: Sequence[int]) -> str:
        tokens = [self.vocabulary.tokens[int(id)] for id in ids if id not in self._silent]
        return collapse_whitespace(self._backend.decoder.decode(tokens))


def _readable(token: str) -> str:
    """A token of byte-level BPE as text, such as `▁über`; of incomplete characters `<0xC3>`, as in SentencePiece."""
    if not {*token} <= _BYTES.keys():
        return token
    content = bytes(_BYTES[letter] for letter in token)
    try:
        return content.decode().replace(" ", SPACE_MARK)
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in content)

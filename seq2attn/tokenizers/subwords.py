"""Pieces of words by SentencePiece: byte-pair encoding and the unigram model.

SentencePiece's own normalization is off (`identity`): what happens to a line stands in `normalize.py`. A
character that is no piece is written as its bytes (`<0xF0>`), so every line comes back as it was.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2attn.errors import DataError, RunError
from seq2attn.io.files import read_bytes, write_bytes
from seq2attn.tokenizers.normalize import SPACE_MARK, NormalizeConfig, collapse_whitespace
from seq2attn.tokenizers.subword_regularization import BPEDropoutSampler, UnigramSampler
from seq2attn.tokenizers.tokenizer_files import save_tokenizer_files
from seq2attn.tokenizers.vocabulary import (
    BOS,
    CONTROL_IDS,
    EOS,
    PAD,
    SPECIAL_TOKENS,
    UNK,
    Vocabulary,
    ids_to_tokens,
)
from seq2attn.tokenizers.word_ids import assign_word_ids

MODEL_FILE = "sentencepiece.model"
MAX_LINE_BYTES = 2**16
"""Bytes of the longest line that pieces are learnt from; longer ones are left out."""
UNK_SURFACE = f" {SPECIAL_TOKENS[UNK]} "
"""How decoding shows what is unknown: a word of its own."""


class _SubwordsConfig(NormalizeConfig):
    vocab_size: Annotated[int, Field(gt=len(SPECIAL_TOKENS) + 256)] = 8000
    """Entries of the vocabulary: pieces, 256 bytes and four special ones. A small text gives fewer."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the text's characters that become pieces; the rarest beyond it are written as bytes. SentencePiece takes
    0.98 and more."""

    def _train(self, lines: Iterable[str], model_type: str) -> bytes:
        options = {
            "model_type": model_type,
            "vocab_size": self.vocab_size,
            "hard_vocab_limit": False,
            "character_coverage": self.character_coverage,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "pad_id": PAD,
            "bos_id": BOS,
            "eos_id": EOS,
            "unk_id": UNK,
            "pad_piece": SPECIAL_TOKENS[PAD],
            "unk_surface": UNK_SURFACE,
            "max_sentence_length": MAX_LINE_BYTES,
            "num_threads": 2,  # a number, whatever the machine: sums depend on how the text is shared out
            "minloglevel": 2,
        }
        code, model, said = _run_trainer(options, (line for line in map(self.normalize, lines) if line))
        if code:
            raise self._explained(said.decode(errors="replace"))
        return model

    def _explained(self, message: str) -> DataError:
        if "sentences_.empty()" in message:
            return DataError("there is no text to learn pieces from: all its lines are empty or overlong")
        if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
            return DataError(
                f"a vocabulary of {self.vocab_size} entries is too small for the characters of the text: "
                f"raise `vocab_size` to {found[1]} or more, or lower `character_coverage`"
            )
        return DataError(f"SentencePiece could not learn pieces from the text: {message}")


def _run_trainer(options: dict[str, Any], lines: Iterable[str]) -> tuple[int, bytes, bytes]:
    """Exit code, model and messages of `train_sentencepiece.py`, which ends when this process is interrupted."""
    command = [
        sys.executable,
        "-P",
        str(Path(__file__).with_name("train_sentencepiece.py")),
        json.dumps(options),
    ]
    with (
        TemporaryFile() as said,
        Popen(command, stdin=PIPE, stdout=PIPE, stderr=said) as trainer,
    ):
        try:
            assert trainer.stdin is not None and trainer.stdout is not None
            with suppress(BrokenPipeError), trainer.stdin as text:
                text.writelines(line.encode() + b"\n" for line in lines)
            model = trainer.stdout.read()
            code = trainer.wait()
        except BaseException:
            trainer.kill()
            raise
        said.seek(0)
        return code, model, said.read()


class BPETokenizerConfig(_SubwordsConfig):
    """Byte-pair encoding: frequent neighbours are merged again and again (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of merges skipped at random in training (BPE-dropout, Provilkov et al. 2020); 0.1 is usual."""

    def train(self, lines: Iterable[str]) -> SubwordTokenizer:
        """Learn pieces from `lines`; the same lines give the same pieces.

        Raises: DataError when the text is empty or has more characters than the vocabulary entries.
        """
        return SubwordTokenizer(self, self._train(lines, "bpe"))


class UnigramTokenizerConfig(_SubwordsConfig):
    """The most probable cut under a unigram model of pieces (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"
    alpha: Annotated[float, Field(ge=0)] = 0.0
    """Sharpness with which training draws among cuts (subword regularisation, Kudo 2018): small is wild,
    0.1 to 0.5 is usual, and 0 turns it off."""

    def train(self, lines: Iterable[str]) -> SubwordTokenizer:
        """Learn pieces from `lines`; the same lines give the same pieces.

        Raises: DataError when the text is empty or has more characters than the vocabulary entries.
        """
        return SubwordTokenizer(self, self._train(lines, "unigram"))


class SubwordTokenizer:
    """A SentencePiece model and how it is to be used."""

    def __init__(self, config: BPETokenizerConfig | UnigramTokenizerConfig, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.config = config
        self.model = model
        self._processor: Any = SentencePieceProcessor(model_proto=model)
        ids = range(len(self._processor))
        self.vocabulary = Vocabulary(tuple(map(self._processor.id_to_piece, ids)))
        plain = [id for id in ids if id >= len(SPECIAL_TOKENS) and not self._processor.is_byte(id)]
        self._scores: dict[str, float] = {self.vocabulary.token(id): self._processor.get_score(id) for id in plain}
        self._draw = (
            BPEDropoutSampler(self._scores, config.dropout)
            if isinstance(config, BPETokenizerConfig)
            else UnigramSampler(self._scores, config.alpha)
        )

    @property
    def is_stochastic(self) -> bool:
        """Whether `sample` differs from `encode`."""
        config = self.config
        return (config.dropout if isinstance(config, BPETokenizerConfig) else config.alpha) > 0

    def encode(self, line: str) -> list[int]:
        """The ids of a line's pieces, without BOS and EOS."""
        ids: list[int] = self._processor.encode(self.config.normalize(line))
        return ids

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, cut at random: a function of `lines` and `seed` alone."""
        if not self.is_stochastic:
            return [self.encode(line) for line in lines]
        random, drawn = Random(seed), list[list[int]]()
        for line in lines:
            words = self.config.normalize(line).split()
            symbols = [symbol for word in words for symbol in self._draw.segment(SPACE_MARK + word, random)]
            drawn.append([id for symbol in symbols for id in self._ids(symbol)])
        return drawn

    def _ids(self, symbol: str) -> Sequence[int]:
        if symbol in self._scores:
            return (self.vocabulary.id(symbol),)
        return [self.vocabulary.id(f"<0x{byte:02X}>") for byte in symbol.encode()]

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces as shown to people, `▁` where a space was."""
        return ids_to_tokens(self.vocabulary, ids)

    def word_ids(self, ids: Sequence[int]) -> list[int]:
        """For each id the number of the word of `decode(ids)` it belongs to; PAD, BOS and EOS: -1."""
        return assign_word_ids(map(self._surface, ids))

    def _surface(self, id: int) -> str:
        if id in CONTROL_IDS:
            return ""
        if id == UNK:
            return UNK_SURFACE
        token = self.vocabulary.token(id)
        # Of the bytes only those that are spaces matter: wherever a letter is cut, it is in one word.
        byte = re.fullmatch("<0x([0-7].)>", token) if token not in self._scores else None
        return chr(int(byte[1], 16)) if byte else token.replace(SPACE_MARK, " ")

    def decode(self, ids: Sequence[int]) -> str:
        """The text, always one line, without PAD, BOS and EOS; UNK is shown as `<unk>`, bad bytes as `�`."""
        return collapse_whitespace(self._processor.decode([int(id) for id in ids if id not in CONTROL_IDS]))

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        write_bytes(folder / MODEL_FILE, self.model)
        save_tokenizer_files(folder, self.config, self.vocabulary)


def load_subwords(config: BPETokenizerConfig | UnigramTokenizerConfig, folder: Path, fix: str) -> SubwordTokenizer:
    """Read the model that `SubwordTokenizer.save` wrote.

    Raises: RunError when it is missing or no SentencePiece model.
    """
    model = read_bytes(folder / MODEL_FILE, fix)
    try:
        return SubwordTokenizer(config, model)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"{folder / MODEL_FILE}: is no SentencePiece model of ours ({error}); {fix}") from None

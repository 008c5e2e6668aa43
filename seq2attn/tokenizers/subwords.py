"""Subword tokenizers by SentencePiece: byte-pair encoding and the unigram model.

SentencePiece's normalization is off (`identity`): lines are normalized by `normalize.py`. A character that is not in
the vocabulary is encoded as its UTF-8 bytes (`<0xF0>`), so that every normalized line is decoded exactly.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from signal import SIGKILL
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from seq2attn.errors import DataError, RunError
from seq2attn.io.files import read_bytes
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.normalize import SPACE_MARK, NormalizeConfig, collapse_whitespace
from seq2attn.tokenizers.subword_regularization import BPEDropoutSampler, UnigramSampler
from seq2attn.tokenizers.vocabulary import BOS, CONTROL_IDS, EOS, PAD, SPECIAL_TOKENS, TOKENIZER_HINT, UNK, Vocabulary

MODEL_FILE = "sentencepiece.model"
MAX_LINE_BYTES = 2**16
"""Maximum bytes of a line that a tokenizer is trained on; longer lines are left out."""
UNK_SURFACE = f" {SPECIAL_TOKENS[UNK]} "
"""Text of an unknown token: a separate word."""


class _SubwordsConfig(NormalizeConfig):
    model_type: ClassVar[str]

    vocab_size: Annotated[int, Field(gt=len(SPECIAL_TOKENS) + 256)] = 8000
    """Size of the vocabulary: subwords, 256 bytes and four special tokens. A small text gives fewer."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the text's characters in the vocabulary; rarer characters are encoded as bytes. SentencePiece accepts
    0.98 to 1."""

    def sampler(self, scores: Mapping[str, float]) -> BPEDropoutSampler | UnigramSampler | None:
        """Random segmentation into the subwords with these scores; None without chance."""
        raise NotImplementedError

    def train(self, lines: Iterable[str]) -> SubwordTokenizer:
        """A tokenizer with subwords of `lines`; the same lines give the same subwords.

        Raises DataError when the text is empty or has too many characters for the vocabulary.
        """
        options = {
            "model_type": self.model_type,
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
            "num_threads": 2,  # fixed, because sums depend on the division of the text among threads
            "minloglevel": 2,
        }
        code, model, messages = _run_trainer(options, (line for line in map(self.normalize, lines) if line))
        if code < 0:
            reason = ", often because memory ran out" if code == -SIGKILL else ""
            raise DataError(
                f"the training of subwords was ended by signal {-code}{reason}; train them in a run with less text, and"
                " name that in `tokenizer.run_dir`"
            )
        if code:
            raise self._error(messages.decode(errors="replace"))
        return SubwordTokenizer(self, model)

    def load(self, folder: Path, vocabulary: Vocabulary) -> SubwordTokenizer:
        """The tokenizer saved in a folder. Raises RunError when its model is missing or is not of SentencePiece."""
        model = read_bytes(folder / MODEL_FILE, TOKENIZER_HINT)
        try:
            return SubwordTokenizer(self, model)
        except (RuntimeError, ValueError) as error:
            message = f"{folder / MODEL_FILE}: is not a SentencePiece model ({error}); {TOKENIZER_HINT}"
            raise RunError(message) from None

    def _error(self, message: str) -> DataError:
        if "sentences_.empty()" in message:
            return DataError("there is no text to train subwords on: all lines are empty or too long")
        if match := re.search(r"required_chars\. \d+ vs (\d+)", message):
            return DataError(
                f"a vocabulary of {self.vocab_size} entries is too small for the characters of the text: "
                f"raise `vocab_size` to {match[1]} or more, or lower `character_coverage`"
            )
        return DataError(f"SentencePiece could not train subwords on the text: {message}")


def _run_trainer(options: dict[str, Any], lines: Iterable[str]) -> tuple[int, bytes, bytes]:
    """Exit code, model and messages of `train_sentencepiece.py`; an interruption of this process ends it."""
    program = Path(__file__).with_name("train_sentencepiece.py")
    command = [sys.executable, "-P", str(program), json.dumps(options)]
    with TemporaryFile() as messages, Popen(command, stdin=PIPE, stdout=PIPE, stderr=messages) as trainer:
        try:
            assert trainer.stdin is not None and trainer.stdout is not None
            with suppress(BrokenPipeError), trainer.stdin as text:
                text.writelines(line.encode() + b"\n" for line in lines)
            model = trainer.stdout.read()
            code = trainer.wait()
        except BaseException:
            trainer.kill()
            raise
        messages.seek(0)
        return code, model, messages.read()


class BPETokenizerConfig(_SubwordsConfig):
    """Byte-pair encoding: frequent pairs of adjacent symbols are merged (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    model_type = "bpe"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of merges skipped at random in training (BPE-dropout, Provilkov et al. 2020); 0.1 is usual."""

    def sampler(self, scores: Mapping[str, float]) -> BPEDropoutSampler | None:
        """BPE-dropout, if there is any."""
        return BPEDropoutSampler(scores, self.dropout) if self.dropout else None


class UnigramTokenizerConfig(_SubwordsConfig):
    """The most probable segmentation under a unigram model of subwords (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"
    model_type = "unigram"
    alpha: Annotated[float, Field(ge=0)] = 0.0
    """Sharpness of the distribution that training samples segmentations from (subword regularization, Kudo 2018): 0.1
    to 0.5 is usual, smaller is more random, and 0 turns sampling off."""

    def sampler(self, scores: Mapping[str, float]) -> UnigramSampler | None:
        """Subword regularization, unless it is off."""
        return UnigramSampler(scores, self.alpha) if self.alpha else None


class SubwordTokenizer(Tokenizer):
    """A SentencePiece model, with random segmentation for training."""

    config: _SubwordsConfig

    def __init__(self, config: _SubwordsConfig, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model, self.files = model, {MODEL_FILE: model}
        self._processor: Any = SentencePieceProcessor(model_proto=model)
        ids = range(len(self._processor))
        super().__init__(config, Vocabulary(tuple(map(self._processor.id_to_piece, ids))))
        subwords = [id for id in ids if id >= len(SPECIAL_TOKENS) and not self._processor.is_byte(id)]
        self._scores: dict[str, float] = {self.vocabulary.tokens[id]: self._processor.get_score(id) for id in subwords}
        self._sampler = config.sampler(self._scores)
        self.is_stochastic = self._sampler is not None

    def _encode(self, text: str) -> list[int]:
        return self._processor.encode(self.config.normalize(text))

    def _sample(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        if self._sampler is None:
            return super()._sample(texts, seed)
        random, samples = Random(seed), list[list[int]]()
        for text in texts:
            words = self.config.normalize(text).split()
            symbols = [symbol for word in words for symbol in self._sampler.segment(SPACE_MARK + word, random)]
            samples.append([id for symbol in symbols for id in self._symbol_ids(symbol)])
        return samples

    def _symbol_ids(self, symbol: str) -> Sequence[int]:
        if symbol in self._scores:
            return (self.pieces.id(symbol),)
        return [self.pieces.id(f"<0x{byte:02X}>") for byte in symbol.encode()]

    def _surface(self, id: int) -> str:
        if id == UNK:
            return UNK_SURFACE
        token = self.vocabulary.tokens[id]
        # Only bytes of white space matter: all bytes of a letter are in one word.
        byte = re.fullmatch("<0x([0-7].)>", token) if token not in self._scores else None
        return chr(int(byte[1], 16)) if byte else token.replace(SPACE_MARK, " ")

    def _decode(self, ids: Sequence[int]) -> str:
        return collapse_whitespace(self._processor.decode([int(id) for id in ids if id not in CONTROL_IDS]))

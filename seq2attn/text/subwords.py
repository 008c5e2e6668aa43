"""Pieces of words by SentencePiece: byte-pair encoding and the unigram model.

SentencePiece's own normalisation is off (`identity`): what happens to a line stands in `normalize.py`. A
character that is no piece is written as its bytes (`<0xF0>`), so every line comes back as it was.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2attn.errors import DataError, RunError
from seq2attn.text.files import read_bytes, write_bytes
from seq2attn.text.header import save_header
from seq2attn.text.normalize import NormalizeConfig, one_line
from seq2attn.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary, pieces

MODEL = "sentencepiece.model"
LONGEST = 2**16
"""Bytes of the longest line that pieces are learnt from; longer ones are left out."""

_sampling = Lock()


class _SubwordsConfig(NormalizeConfig):
    size: Annotated[int, Field(gt=len(SPECIALS) + 256)] = 8000
    """Entries of the vocabulary: pieces, 256 bytes and four special ones. A small text gives fewer."""
    character_coverage: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the text's characters that become pieces; the rarest beyond it are written as bytes."""

    def _train(self, lines: Iterable[str], model_type: str) -> bytes:
        from sentencepiece import SentencePieceTrainer

        model = io.BytesIO()
        try:
            SentencePieceTrainer.train(
                sentence_iterator=(line for line in map(self.normalize, lines) if line),
                model_writer=model,
                model_type=model_type,
                vocab_size=self.size,
                hard_vocab_limit=False,
                character_coverage=self.character_coverage,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                pad_id=PAD,
                bos_id=BOS,
                eos_id=EOS,
                unk_id=UNK,
                pad_piece=SPECIALS[PAD],
                unk_surface=f" {SPECIALS[UNK]} ",
                max_sentence_length=LONGEST,
                num_threads=2,  # a number, whatever the machine: sums depend on how the text is shared out
                minloglevel=2,
            )
        except RuntimeError as error:
            raise self._explained(str(error)) from None
        return model.getvalue()

    def _explained(self, message: str) -> DataError:
        if "sentences_.empty()" in message:
            return DataError("there is no text to learn pieces from: all its lines are empty or overlong")
        if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
            return DataError(
                f"a vocabulary of {self.size} entries is too small for the characters of the text: "
                f"raise `size` to {found[1]} or more, or lower `character_coverage`"
            )
        return DataError(f"SentencePiece could not learn pieces from the text: {message}")


class BPEConfig(_SubwordsConfig):
    """Byte-pair encoding: frequent neighbours are merged again and again (Sennrich et al. 2016)."""

    kind: Literal["bpe"] = "bpe"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of merges skipped at random in training (BPE-dropout, Provilkov et al. 2020); 0.1 is usual."""

    def train(self, lines: Iterable[str]) -> SubwordTokenizer:
        """Learn pieces from `lines`; the same lines give the same pieces.

        Raises: DataError when the text is empty or has more characters than the vocabulary entries.
        """
        return SubwordTokenizer(self, self._train(lines, "bpe"))


class UnigramConfig(_SubwordsConfig):
    """The most probable cut under a unigram model of pieces (Kudo 2018)."""

    kind: Literal["unigram"] = "unigram"
    alpha: Annotated[float, Field(ge=0)] = 0.0
    """Sharpness with which training draws among cuts (subword regularisation, Kudo 2018): small is wild,
    0.1 to 0.5 is usual, and 0 turns it off."""
    nbest: Literal[-1] | Annotated[int, Field(ge=2, le=512)] = -1
    """Draw among this many best cuts; -1: among all."""

    def train(self, lines: Iterable[str]) -> SubwordTokenizer:
        """Learn pieces from `lines`; the same lines give the same pieces.

        Raises: DataError when the text is empty or has more characters than the vocabulary entries.
        """
        return SubwordTokenizer(self, self._train(lines, "unigram"))


class SubwordTokenizer:
    """A SentencePiece model and how it is to be used."""

    def __init__(self, config: BPEConfig | UnigramConfig, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.config = config
        self.model = model
        self._processor: Any = SentencePieceProcessor(model_proto=model)
        self.vocabulary = Vocabulary(tuple(map(self._processor.id_to_piece, range(len(self._processor)))))

    @property
    def stochastic(self) -> bool:
        """Whether `sample` differs from `encode`."""
        config = self.config
        return (config.dropout if isinstance(config, BPEConfig) else config.alpha) > 0

    def encode(self, line: str) -> list[int]:
        """The ids of a line's pieces, without BOS and EOS."""
        ids: list[int] = self._processor.encode(self.config.normalize(line))
        return ids

    def sample(self, lines: Sequence[str], seed: int) -> list[list[int]]:
        """The ids of each line, cut at random: a function of `lines` and `seed` alone."""
        if not self.stochastic:
            return [self.encode(line) for line in lines]
        # SentencePiece has one seed a process and one generator a thread, which in some versions takes the
        # seed only when it is made. A new thread starts anew; the lock keeps others from the seed.
        with _sampling, ThreadPoolExecutor(max_workers=1) as fresh_thread:
            return fresh_thread.submit(lambda: list(self._drawn(lines, seed))).result()

    def _drawn(self, lines: Sequence[str], seed: int) -> Iterator[list[int]]:
        from sentencepiece import set_random_generator_seed

        config = self.config
        draw = (
            partial(self._processor.encode, enable_sampling=True, alpha=config.dropout)
            if isinstance(config, BPEConfig)
            else partial(
                self._processor.encode, enable_sampling=True, alpha=config.alpha, nbest_size=config.nbest
            )
        )
        set_random_generator_seed(seed % (2**32 - 1))  # 2**32 - 1 would mean: take any seed
        for line in lines:
            yield draw(config.normalize(line))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces as shown to people, `▁` where a space was."""
        return pieces(self.vocabulary, ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text, always one line, without PAD, BOS and EOS; UNK is shown as `<unk>`, bad bytes as `�`."""
        return one_line(self._processor.decode([int(id) for id in ids if id not in (PAD, BOS, EOS)]))

    def save(self, folder: Path) -> None:
        """Write what `load_tokenizer` reads."""
        write_bytes(folder / MODEL, self.model)
        save_header(folder, self.config, self.vocabulary)


def load_subwords(config: BPEConfig | UnigramConfig, folder: Path, fix: str) -> SubwordTokenizer:
    """Read the model that `SubwordTokenizer.save` wrote.

    Raises: RunError when it is missing or no SentencePiece model.
    """
    model = read_bytes(folder / MODEL, fix)
    try:
        return SubwordTokenizer(config, model)
    except (RuntimeError, ValueError) as error:
        raise RunError(f"{folder / MODEL}: is no SentencePiece model of ours ({error}); {fix}") from None

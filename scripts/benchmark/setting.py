"""What all measurements share: the architectures, the sizes, and where everything lies."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIGS = REPOSITORY / "configs" / "bench"
MODELS = {
    "t": "3 + 3 x 256 Transformer, 4 heads, feed-forward 1024, one table for both languages and the output",
    "r1": "BiGRU 512, Bahdanau's GRU 512 with additive attention",
    "r2": "2 x BiLSTM 512, Luong's 2 x LSTM 512 with general attention and input feeding",
}

RECURRENT = ("r1", "r2")
CARD_MODELS = {
    "transformer-base": "6 + 6 x 512 Transformer, 8 heads, feed-forward 2048, one table",
    "transformer-big": "6 + 6 x 1024 Transformer, 16 heads, feed-forward 4096, one table",
}
"""What is measured on a card in place of T, which would leave it idle."""

TOKENS = 4096
"""Rows times the longer side of a batch, padding counted; every toolkit is told so."""
CARD_TOKENS = 25_000
"""The same on a card."""
MOST_WORDS = 100
"""Tokens that a translation may have, whatever its source."""
SENTENCES_A_BATCH = 64
"""For toolkits that make batches of sentences; it served them best."""
FIT_UPDATES, FIT_TOKENS = 600, 1024
"""How long the models that translate are trained."""
FOREVER = 1_000_000
"""Updates of a training that is ended from outside."""
TEST = "test_2016_flickr"


class UnavailableError(Exception):
    """What cannot be measured, and what to do about it."""


@dataclass(frozen=True)
class Setting:
    """Where everything lies, and with how many threads everybody computes."""

    peers: Path  # venv/NAME, data, runs
    corpus: Path  # train.de ...
    runs: Path  # of ours
    configs: Path = CONFIGS
    threads: int = 2
    tokens: int = TOKENS  # of a batch
    card: bool = False  # whether everybody may have the card

    @property
    def data(self) -> Path:
        """Segmented text and vocabularies."""
        return self.peers / "data"

    @property
    def work(self) -> Path:
        """Logs, models and translations of peers."""
        return self.peers / "runs"

    def python(self, name: str) -> Path:
        """The interpreter of a peer's virtual environment."""
        return self.peers / "venv" / name / "bin" / "python"

    def environment(self) -> dict[str, str]:
        """What every measured process is given: the threads, perhaps the card, no network, the way to our programs."""
        hidden = {} if self.card else {"CUDA_VISIBLE_DEVICES": ""}
        threads = str(self.threads)
        here = [str(REPOSITORY / "scripts"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            **hidden,
            "PYTHONPATH": os.pathsep.join(here),
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": "ignore",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # OpenNMT-py's and fairseq's checkpoints hold more than tensors
        }


def ours(*arguments: str | Path) -> list[str]:
    """`seq2attn ...` with the interpreter that runs this."""
    return [sys.executable, "-m", "seq2attn", *map(str, arguments)]


def shown(command: Sequence[str]) -> str:
    """A command as it is typed."""
    return shlex.join(command)

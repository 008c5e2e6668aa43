"""Architectures, sizes and folders of all measurements."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIGS = REPOSITORY / "configs" / "bench"
MODELS = ("t", "r1", "r2")
"""T: 3 + 3 x 256 Transformer; R1: Bahdanau's GRU 512; R2: Luong's 2 x LSTM 512; see their configs."""
RECURRENT = ("r1", "r2")
GPU_MODELS = ("transformer-base", "transformer-big")
"""Models for a GPU in place of T, which is too small for one."""
TRANSFORMERS = {
    "t": (3, 256, 4, 1024),
    "transformer-base": (6, 512, 8, 2048),
    "transformer-big": (6, 1024, 16, 4096),
}
"""Layers of encoder and decoder, model width, heads, feed-forward width."""

TOKENS = 4096
"""Rows times the longer side of a batch, with padding, in all systems."""
GPU_TOKENS = 25_000
"""The same on a GPU."""
FIT_UPDATES, FIT_TOKENS = 600, 1024
"""Training of the models for translation."""
FOREVER = 1_000_000
"""Updates of a training that is killed."""
TEST = "test_2016_flickr"


class UnavailableError(Exception):
    """A measurement that is not possible, and how to make it possible."""


@dataclass(frozen=True)
class Setting:
    """Folders, threads and batch size."""

    corpus: Path  # train.de ...
    runs: Path  # of ours; the text and logs of all systems are beside them
    configs: Path = CONFIGS
    threads: int = 2
    tokens: int = TOKENS  # of a batch
    gpu: bool = False  # use the GPU

    @property
    def data(self) -> Path:
        """Segmented text and vocabulary."""
        return self.runs / "text"

    @property
    def overrides(self) -> list[str]:
        """Overrides of our configs for the text of `corpus`."""
        splits = {"train": "train", "dev": "val", "test.test2016": TEST}
        sides = {"source": "de", "target": "en"}
        return [
            f"data.{name}.{side}={self.corpus / split}.{language}"
            for name, split in splits.items()
            for side, language in sides.items()
        ]

    @property
    def logs(self) -> Path:
        """Logs and translations."""
        return self.runs / "logs"

    def environment(self) -> dict[str, str]:
        """Environment of all measured processes: threads, GPU or none, no network, the path of our programs."""
        hidden = {} if self.gpu else {"CUDA_VISIBLE_DEVICES": ""}
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
        }


def ours(*arguments: str | Path) -> list[str]:
    """A `seq2attn` command with this Python."""
    return [sys.executable, "-m", "seq2attn", *map(str, arguments)]


def shell_line(command: Sequence[str]) -> str:
    """A command as a line for the shell."""
    return shlex.join(command)

"""CTranslate2 (https://opennmt.net/CTranslate2): Transformers in C++."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.config.base import Mistake
from seq2attn.engines.base import Engine
from seq2attn.experiment import Experiment
from seq2attn.run import Run


class CTranslate2:
    """Exports Transformers through CTranslate2's own specification."""

    name = "ctranslate2"
    types = ("float32", "float16", "int8")

    def refused(self, experiment: Experiment) -> list[Mistake]:
        """What CTranslate2 has no layer for."""
        raise NotImplementedError

    def write(self, run: Run, folder: Path, type_: str) -> None:
        """Weights and vocabularies."""
        raise NotImplementedError

    def open(self, run: Run, folder: Path, device: torch.device) -> Engine:
        """Their translator."""
        raise NotImplementedError

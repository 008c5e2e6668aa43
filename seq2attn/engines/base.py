"""What an engine is, and what makes one of a trained run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch

from seq2attn.config.base import FieldError
from seq2attn.errors import UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.run_directory import RunDirectory
from seq2attn.search.config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis


class Engine(Protocol):
    """Searches for translations."""

    @property
    def max_source_length(self) -> int | None:
        """Maximum tokens of a source, without the end; None without a limit."""
        ...

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        budget: int,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source (ids without the end), best first, in the order of the sources.

        At most `budget` source tokens, padding counted, times the hypotheses of each, are searched together. An empty
        source has one hypothesis, which is empty. The hypotheses of a source begin with its prefix, whose tokens count
        in length, log-probability and score as all others do. Raises EngineError for a search that this engine has
        not, even if there are no sources.
        """
        ...

    def token_log_probs(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int
    ) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of the end, for pairs of ids without ends.

        A pair of two empty sides has none.
        """
        ...


class ExportTarget(Protocol):
    """Something that a run can be exported to; every one is listed in `engines/targets.py`."""

    @property
    def name(self) -> str:
        """As `export --to` and `translate --engine` call it; also the folder's name inside the run."""
        ...

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What numbers the weights may become, the default first."""
        ...

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Why a model cannot be exported, each reason with its key in the config; nothing if it can.

        Raises UserError when what the target needs is not installed.
        """
        ...

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Put the exported model into an empty folder."""
        ...

    def load(self, run: RunDirectory, folder: Path, device: torch.device) -> Engine:
        """The engine of what `write` put into `folder`."""
        ...


class EngineError(UserError):
    """A search that an engine cannot do, each reason with its key in the config."""

    def __init__(self, engine: str, mistakes: Sequence[FieldError]) -> None:
        reasons = "; ".join(f"`{mistake.field}`: {mistake.message}" for mistake in mistakes)
        super().__init__(f"the engine {engine} cannot search so: {reasons}")
        self.errors = list(mistakes)

"""Interfaces of inference engines and of export targets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch

from seq2attn.attention.align_functions import GlobalAlignmentConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.config.base import FieldError
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.models import ModelConfig
from seq2attn.models.seq2seq import IdPairs
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds
from seq2attn.tokenizers.base import Tokenizer


class Engine(Protocol):
    """Search and forced decoding of a model."""

    @property
    def description(self) -> str:
        """Name and precision, for reports."""

    @property
    def max_source_length(self) -> int | None:
        """Maximum tokens of a source, without EOS; None for no limit."""

    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each source (ids without EOS), best first, in the order of the sources.

        A batch has at most `budget` source tokens, with padding, times the hypotheses of each. An empty source has one
        empty hypothesis. The hypotheses of a source begin with its prefix, which counts in length, log-probability and
        score, and those of a beam contain its `phrases`. Raises EngineError for a search that the engine does not
        support, even without sources.
        """

    def token_log_probs(self, pairs: IdPairs, *, budget: int) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of EOS, for pairs of ids without EOS.

        The list of a pair of two empty sides is empty.
        """


class ExportTarget(Protocol):
    """A format that runs can be exported to, listed in `pretrained/export_targets.py`."""

    @property
    def name(self) -> str:
        """Name in `export --to` and `translate --engine`, and of the folder in the run directory."""

    @property
    def hub_library(self) -> str:
        """Name of the library that loads an export, for its model card."""
        return self.name

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Data types of the exported weights, the default first."""

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Options of a model that the target does not support, with their config keys.

        Raises UserError when a package of the target is not installed.
        """

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write the exported model into an empty folder."""

    def load(self, run: RunDirectory, folder: Path, device: torch.device) -> Engine:
        """The engine of a model that `export` wrote."""

    def check_tokenizer(self, source: Tokenizer, folder: Path, lines: Sequence[str]) -> None:
        """Raises UserError if an export has a tokenizer of its own that gives other ids than `source` for a line."""
        return

    def usage(self, run: RunDirectory, folder: Path, options: Sequence[str]) -> str:
        """Instructions, in Markdown, for translating with the export in `folder`; `options` are those of its search."""
        command = ["seq2attn", "translate", str(run.folder), "--engine", self.name, "--export-dir", str(folder)]
        return f"""The lines of `input.txt` are translated by

```bash
pip install 'seq2attn[{self.name}]'
{shlex.join([*command, *options])} -i input.txt
```
"""


class EngineError(UserError):
    """A search that an engine does not support, each reason with its config key."""

    def __init__(self, engine: str, mistakes: Sequence[FieldError]) -> None:
        reasons = "; ".join(f"`{mistake.field}`: {mistake.message}" for mistake in mistakes)
        super().__init__(f"the engine {engine} does not support this search: {reasons}")
        self.errors = list(mistakes)


def check_engine_supports(engine: Engine, search: SearchConfig, run: RunDirectory, overrides: Sequence[str]) -> None:
    """Raises ConfigError for a search of the run's config that an engine does not support, UserError for --mbr."""
    try:
        engine.translate([], search, budget=1)
    except EngineError as error:
        if search.mbr and not run.load_config(overrides, ["search"]).search.mbr:
            raise UserError(f"--mbr: {error}") from None
        raise run.config_error(error.errors, overrides) from None


def unsupported_parts(engine: str, model: ModelConfig) -> list[FieldError]:
    """Parts that are not those of the Transformer of Vaswani et al. 2017, with their config keys."""
    encoder, decoder = model.encoder, model.decoder
    mistakes = []
    if not isinstance(encoder, TransformerEncoderConfig):
        mistakes.append(no_option(engine, "encoder.kind", f"encoder `{encoder.kind}`, only `transformer`"))
    if not isinstance(decoder, TransformerDecoderConfig):
        return [*mistakes, no_option(engine, "decoder.kind", f"decoder `{decoder.kind}`, only `transformer`")]
    score, align = decoder.attention.score, decoder.attention.align
    if not isinstance(score, MultiHeadScoreConfig):
        message = f"score `{score.kind}`, only `multi-head`"
        mistakes.append(no_option(engine, "decoder.attention.score.kind", message))
    elif score.heads != decoder.heads:
        message = f"decoder of {decoder.heads} heads with cross-attention of another number"
        mistakes.append(no_option(engine, "decoder.attention.score.heads", message))
    if not isinstance(align, GlobalAlignmentConfig):
        message = f"alignment `{align.kind}`, only `global`"
        mistakes.append(no_option(engine, "decoder.attention.align.kind", message))
    return mistakes


def no_option(engine: str, key: str, option: str) -> FieldError:
    """The message that an engine does not have an option, for a key of the `model` section."""
    return FieldError(f"model.{key}", f"{engine} has no {option}")

"""The interface of export targets, and the parts of a model that a target of Transformers lacks."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch

from seq2attn.attention.align_functions import GlobalAlignmentConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.config.base import FieldError
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.exporters.standalone import write_standalone
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.exported import ENGINES
from seq2attn.models import ModelConfig


class ExportTarget(ABC):
    """A format that runs can be exported to, listed in `exporters/export_run.py`."""

    name: ClassVar[str]
    """Name in `export --to` and `translate --engine`, and of the folder in the run directory."""
    hub_library: ClassVar[str]
    """Name of the library that loads an export, for its model card."""
    dtypes: ClassVar[tuple[str, ...]]
    """Data types of the exported weights, the default first."""

    @abstractmethod
    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Options of a model that the target does not support, with their config keys.

        Raises UserError when a package of the target is not installed.
        """

    @abstractmethod
    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write the exported model into an empty folder."""

    def load(self, run: RunDirectory, folder: Path) -> Engine:
        """The engine of a model that `export` wrote, on the CPU."""
        return ENGINES[self.name](run, folder, torch.device("cpu"))

    def write_program(self, engine: Engine, run: LoadedRun, folder: Path, lines: Sequence[str]) -> str:
        """Write what a translation without this package needs beside the model; returns instructions, in Markdown.

        Raises UserError if an export has a tokenizer of its own that gives other ids than that of the run for a line.
        """
        return write_standalone(engine, run, folder, lines)

    def usage(self, run: RunDirectory, folder: Path, options: Sequence[str]) -> str:
        """Instructions, in Markdown, for translating with the export in `folder`; `options` are those of its search."""
        command = ["seq2attn", "translate", str(run.folder), "--engine", self.name, "--export-dir", str(folder)]
        return f"""With seq2attn and the run:

```bash
pip install 'seq2attn[{self.name}] @ git+https://github.com/seq2attn/seq2attn'
{shlex.join([*command, *options])} -i input.txt
```
"""


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

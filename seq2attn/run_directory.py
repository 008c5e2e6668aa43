"""A run directory: everything that a training made, and all that translating needs.

run.json                the version of the format of all these files
config.yaml             the resolved config; config.00001200.yaml: that up to this update, where --resume changed it
source/ target/         the tokenizers
data/                   the encoded text
model.safetensors       the weights that translate, and the vocabularies they know
weights.json            where they come from
checkpoints/            where training can be resumed from
alignment.json          the attention that links are taken from, once it was chosen
metrics.jsonl train.log samples.txt

It may be untrusted: its files are data, and code that its config names is not run unless allowed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import seq2attn
from seq2attn.config.base import FieldError
from seq2attn.config.load import dump, errors_at, load
from seq2attn.errors import ConfigError, CorruptFileError, RunError, UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.files import atomic_path, read_object, write_bytes, write_json
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.io.weights import WEIGHTS_HINT, is_corrupt, read_metadata
from seq2attn.models import Seq2Seq
from seq2attn.models.weights import Vocabularies, check_vocabularies, load_model, save_weights
from seq2attn.nn.device import configure_cuda
from seq2attn.tokenizers.base import Tokenizer
from seq2attn.tokenizers.load import load_tokenizer

logger = logging.getLogger("seq2attn")
HINT = "train it, or give another run directory"
OVERRIDABLE_SECTIONS = ("search", "data", "evaluation")
"""What may be set otherwise for a model that is trained."""


@dataclass(frozen=True)
class RunDirectory:
    """The files of one run directory."""

    folder: Path

    @property
    def manifest_path(self) -> Path:
        """The version of the format of the folder."""
        return self.folder / "run.json"

    @property
    def config_path(self) -> Path:
        """The resolved config."""
        return self.folder / "config.yaml"

    @property
    def weights_path(self) -> Path:
        """The weights that translate."""
        return self.folder / "model.safetensors"

    @property
    def weights_info_path(self) -> Path:
        """Where the weights come from."""
        return self.folder / "weights.json"

    @property
    def metrics_path(self) -> Path:
        """A JSON object a line: training and validation as they went."""
        return self.folder / "metrics.jsonl"

    def load_config(self, overrides: Sequence[str] = ()) -> ExperimentConfig:
        """The config that the run was trained with, and what is set besides.

        Raises RunError when this is no run, UserError for what cannot be set any more.
        """
        self.check_exists()
        experiment = load(self.config_path, ExperimentConfig, overrides)
        for override in overrides:
            if (part := re.split("[.=]", override)[0]) not in OVERRIDABLE_SECTIONS:
                known = ", ".join(f"`{name}`" for name in OVERRIDABLE_SECTIONS)
                raise UserError(f"--set {override}: a trained run keeps its `{part}`; it may set {known}")
        return experiment

    def check_exists(self) -> None:
        """Raises RunError when this is no run, or one of another format."""
        if not self.config_path.is_file():
            raise RunError(f"{self.folder}: is no run directory (it has no config.yaml); {HINT}")
        check_format(read_object(self.manifest_path, HINT), self.manifest_path, HINT)

    def config_error(self, mistakes: Sequence[FieldError], overrides: Sequence[str] = ()) -> ConfigError:
        """What the config asks for that cannot be had, each at its place."""
        return errors_at(self.config_path, ExperimentConfig, mistakes, overrides)

    def save_config(self, experiment: ExperimentConfig) -> None:
        """Write the resolved config, and then the version of its format."""
        write_bytes(self.config_path, dump(experiment).encode())
        write_json(self.manifest_path, {"format": FORMAT_VERSION, "seq2attn": seq2attn.__version__})

    def load_tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of source and target. Raises RunError when their files are missing or do not fit together."""
        return load_tokenizer(self.folder / "source"), load_tokenizer(self.folder / "target")

    def save_model(self, weights: Mapping[str, Tensor], vocabularies: Vocabularies, origin: Mapping[str, Any]) -> None:
        """Make `weights` those that translate; `origin` names the checkpoints they come from.

        The file of weights holds it too, so that a kill leaves the old pair or the new one. The other file, for humans,
        names the checkpoint that lost weights can be taken from.
        """
        with atomic_path(self.weights_path) as partial:
            save_weights(weights, vocabularies, partial, origin)
        write_json(self.weights_info_path, {"origin": dict(origin)})

    def weights_origin(self) -> dict[str, Any]:
        """Where the weights that translate come from. Raises RunError when they cannot be read."""
        origin = read_metadata(self.weights_path).get("origin")
        if not isinstance(origin, dict):
            raise RunError(f"{self.weights_path}: has no record of the origin of its weights; {WEIGHTS_HINT}")
        return origin

    def weights_cover_checkpoint(self, checkpoint: str, metric: str) -> bool:
        """Whether those that translate are what was written, and come from that checkpoint or from newer ones.

        Not if another metric chose them; an average by hand, which none chose, stays.
        """
        try:
            if is_corrupt(self.weights_path):
                return False
            origin = self.weights_origin()
            is_chosen = origin.get("metric", metric) == metric and max(origin["checkpoints"]) >= checkpoint
            return is_chosen and read_object(self.weights_info_path, HINT).get("origin") == origin
        except (RunError, KeyError, ValueError, TypeError):
            return False

    def _made_from(self) -> Path | None:
        """The weights of the checkpoint that those that translate are, where it is one, and kept."""
        header = read_object(self.weights_info_path, HINT).get("origin")
        names = header.get("checkpoints") if isinstance(header, dict) else None
        if not isinstance(names, list) or len(names) != 1 or not re.fullmatch("[0-9]+", str(names[0])):
            return None
        path = self.folder / "checkpoints" / str(names[0]) / self.weights_path.name
        return path if path.is_file() else None

    def load_model(self, device: torch.device | str = "cpu") -> tuple[Seq2Seq, Tokenizer, Tokenizer]:
        """The trained model, ready to translate, and its tokenizers.

        Raises RunError when something is missing, or when model and vocabularies do not fit together.
        """
        experiment = self.load_config()
        source, target = self.load_tokenizers()

        def model_of(weights: Path) -> Seq2Seq:
            check_vocabularies(weights, self.folder, (source.vocabulary, target.vocabulary))
            sizes = len(source.vocabulary), len(target.vocabulary)
            return load_model(weights, experiment.model, *sizes)

        try:
            model = model_of(self.weights_path)
        except RunError as error:
            if not is_corrupt(self.weights_path):
                raise
            if (spare := self._made_from()) is None:
                fix = f"take other weights: `seq2attn average {self.folder} --best 1`"
                raise CorruptFileError(f"{error}; {fix}") from None
            logger.warning("warning: %s; %s is taken, which it was made from", error, spare)
            model = model_of(spare)
        configure_cuda(torch.device(device), tf32=False)
        return model.to(device).eval(), source, target

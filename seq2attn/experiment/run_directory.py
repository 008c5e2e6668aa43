"""The files of a run directory.

run.json                the version of the format of all these files
config.yaml             the resolved config; config.00001200.yaml: an earlier one, up to this update
source/ target/         the tokenizers
data/                   the encoded text
model.safetensors       the weights for translation, with their vocabularies and their origin
checkpoints/            weights, optimizer and training state; frozen weights once for all checkpoints
alignment.json          the attention head for word alignment, once it was selected
metrics.jsonl train.log samples.txt

The directory may be untrusted: its files are data, and plug-ins named in its config are imported only if allowed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2attn.config.base import FieldError
from seq2attn.config.load import dump, errors_at, load
from seq2attn.errors import ConfigError, CorruptFileError, RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.files import MANIFEST, atomic_path, check_format, read_object, write_bytes, write_manifest
from seq2attn.io.weights import WEIGHTS_HINT, is_corrupt, read_metadata, unique_state_dict
from seq2attn.models import Seq2Seq
from seq2attn.models.build import Vocabularies, check_vocabularies, load_model, save_weights
from seq2attn.nn.device import configure_cuda
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenizer_config import load_tokenizers

HINT = "train it, or give another run directory"


@dataclass(frozen=True)
class LoadedRun:
    """The trained model of a run, with its tokenizers and its config."""

    model: Seq2Seq
    tokenizers: TokenizerPair
    experiment: ExperimentConfig


@dataclass(frozen=True)
class RunDirectory:
    """One run directory."""

    folder: Path

    @property
    def config_path(self) -> Path:
        """The resolved config."""
        return self.folder / "config.yaml"

    @property
    def weights_path(self) -> Path:
        """The weights for translation."""
        return self.folder / "model.safetensors"

    def load_config(self, overrides: Sequence[str] = (), sections: Sequence[str] = ()) -> ExperimentConfig:
        """The config of the training, with overrides of `sections`, such as `data.test`.

        Raises RunError if this is not a run directory, UserError for an override of another section.
        """
        self.check_exists()
        experiment = load(self.config_path, ExperimentConfig, overrides)
        for override in overrides:
            key = override.partition("=")[0]
            if not any(f"{key}.".startswith(f"{section}.") for section in sections):
                known = ", ".join(f"`{name}`" for name in sections)
                raise UserError(
                    f"``overrides={override}``: has no effect here; this command uses only {known} of the config"
                )
        return experiment

    def check_exists(self) -> None:
        """Raises RunError if this is not a run directory, or has another format version."""
        if not self.config_path.is_file():
            raise RunError(f"{self.folder}: is not a run directory (it has no config.yaml); {HINT}")
        manifest = self.folder / MANIFEST
        check_format(read_object(manifest, HINT), manifest, HINT)

    def config_error(self, mistakes: Sequence[FieldError], overrides: Sequence[str] = ()) -> ConfigError:
        """An error with the places of its mistakes in the config."""
        return errors_at(self.config_path, ExperimentConfig, mistakes, overrides)

    def save_config(self, experiment: ExperimentConfig) -> None:
        """Write the resolved config, then the manifest."""
        write_bytes(self.config_path, dump(experiment).encode())
        write_manifest(self.folder)

    def load_tokenizers(self) -> TokenizerPair:
        """Tokenizers of source and target. Raises RunError if files are missing or do not match."""
        return load_tokenizers(self.folder)

    def save_model(self, weights: Mapping[str, Tensor], vocabularies: Vocabularies, origin: Mapping[str, Any]) -> None:
        """Write the weights for translation and, in the same file, their origin, which names their checkpoints."""
        with atomic_path(self.weights_path) as partial:
            save_weights(weights, vocabularies, partial, origin)

    def save_trained(self, model: Seq2Seq) -> None:
        """Write the weights of a model that was trained by a loop of your own, for translation."""
        self.save_model(unique_state_dict(model), self.load_tokenizers().vocabularies, {"checkpoints": []})

    def weights_origin(self) -> dict[str, Any]:
        """Origin of the weights for translation. Raises RunError if they cannot be read."""
        origin = read_metadata(self.weights_path).get("origin")
        if not isinstance(origin, dict):
            raise RunError(f"{self.weights_path}: has no record of the origin of its weights; {WEIGHTS_HINT}")
        return origin

    def weights_digest(self) -> str | None:
        """Digest of the weights for translation; None if they cannot be read, or are not of this package."""
        try:
            return read_metadata(self.weights_path).get("digest")
        except RunError:
            return None

    def weights_cover_checkpoint(self, checkpoint: str, metric: str) -> bool:
        """True if the weights for translation are valid, and come from this checkpoint or newer ones.

        Weights selected by another metric do not count, nor those of `training.checkpoints.average`; those of `seq2attn
        average`, whose origin has no metric, do.
        """
        try:
            if is_corrupt(self.weights_path):
                return False
            origin = self.weights_origin()
            names = origin["checkpoints"]
            is_selected = "metric" not in origin or (origin["metric"] == metric and "average" not in origin)
            return bool(is_selected and max(names) >= checkpoint)
        except (RunError, KeyError, ValueError, TypeError):
            return False

    def load(self, device: torch.device | str = "cpu") -> LoadedRun:
        """The trained model in evaluation mode, with its tokenizers and its config. For errors see `load_model`."""
        return self.load_model(self.load_config(), device)

    def load_model(self, experiment: ExperimentConfig, device: torch.device | str) -> LoadedRun:
        """The trained model of `experiment`, the config of this run.

        Raises RunError if a file is missing or corrupt, or if model and vocabularies do not match.
        """
        tokenizers = self.load_tokenizers()
        restore = f"restore them with `seq2attn average {self.folder} --best 1`"
        if not self.weights_path.exists() and any((self.folder / "checkpoints").glob("[0-9]*")):
            raise RunError(f"{self.weights_path}: there are no weights; {restore}")
        try:
            check_vocabularies(self.weights_path, self.folder, tokenizers.vocabularies)
            model = load_model(self.weights_path, experiment.model, *map(len, tokenizers.vocabularies))
        except RunError as error:
            if not is_corrupt(self.weights_path):
                raise
            has_checkpoints = (self.folder / "checkpoints").is_dir()
            fix = restore if has_checkpoints else "import the model again, into a new run directory"
            raise CorruptFileError(f"{error}; {fix}") from None
        configure_cuda(torch.device(device), tf32=False)
        return LoadedRun(model.to(device).eval(), tokenizers, experiment)

"""A run directory: everything that a training made, and all that translating needs.

run.json                the version of the format of all these files
config.yaml             the resolved config; config.00001200.yaml: that up to this update, where --resume changed it
source/ target/         the tokenisers
data/                   the encoded text
model.safetensors       the weights that translate, and the vocabularies they know
model.json              where they come from
checkpoints/            where training can go on from
alignment.json          the attention that links are taken from, once it was chosen
metrics.jsonl train.log samples.txt

It may be a stranger's: its files are data, and code that its config names is not run unless allowed.
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
from seq2attn.config.base import Mistake
from seq2attn.config.load import load, mistaken
from seq2attn.config.show import dump
from seq2attn.config.trust import allow_code
from seq2attn.errors import ConfigError, DamagedError, RunError, UserError
from seq2attn.experiment import Experiment
from seq2attn.io.files import atomic_path, read_object, write_bytes, write_json
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.io.weights import is_damaged, origin_of
from seq2attn.models import Seq2Seq
from seq2attn.models.weights import Vocabularies, build_with, check_vocabularies, save_weights
from seq2attn.nn.device import configure_cuda
from seq2attn.tokenizers.base import Tokenizer, load_tokenizer

logger = logging.getLogger("seq2attn")
FIX = "train it, or give another run directory"
SETTABLE = ("search", "data", "evaluation")
"""What may be set otherwise for a model that is trained."""


@dataclass(frozen=True)
class Run:
    """The files of one run directory."""

    folder: Path
    allow_code: Sequence[str] = ()
    """Modules outside of the package that may be imported for the config's parts."""

    def __post_init__(self) -> None:
        allow_code(self.allow_code)

    @property
    def about(self) -> Path:
        """The version of the format of the folder."""
        return self.folder / "run.json"

    @property
    def config(self) -> Path:
        """The resolved config."""
        return self.folder / "config.yaml"

    @property
    def weights(self) -> Path:
        """The weights that translate."""
        return self.folder / "model.safetensors"

    @property
    def header(self) -> Path:
        """Where the weights come from."""
        return self.folder / "model.json"

    @property
    def metrics(self) -> Path:
        """A JSON object a line: training and validation as they went."""
        return self.folder / "metrics.jsonl"

    def experiment(self, overrides: Sequence[str] = ()) -> Experiment:
        """The config that the run was trained with, and what is set besides.

        Raises RunError when this is no run, UserError for what cannot be set any more.
        """
        self.check()
        experiment = load(self.config, Experiment, overrides)
        for override in overrides:
            if (part := re.split("[.=]", override)[0]) not in SETTABLE:
                known = ", ".join(f"`{name}`" for name in SETTABLE)
                raise UserError(f"--set {override}: a trained run keeps its `{part}`; it may set {known}")
        return experiment

    def check(self) -> None:
        """Raises RunError when this is no run, or one of another format."""
        if not self.config.is_file():
            raise RunError(f"{self.folder}: is no run directory (it has no config.yaml); {FIX}")
        check_format(read_object(self.about, FIX), self.about, FIX)

    def mistaken(self, mistakes: Sequence[Mistake], overrides: Sequence[str] = ()) -> ConfigError:
        """What the config asks for that cannot be had, each at its place."""
        return mistaken(self.config, Experiment, mistakes, overrides)

    def save_experiment(self, experiment: Experiment) -> None:
        """Write the resolved config, and then the version of its format."""
        write_bytes(self.config, dump(experiment).encode())
        write_json(self.about, {"format": FORMAT_VERSION, "seq2attn": seq2attn.__version__})

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of source and target. Raises RunError when their files are missing or do not fit together."""
        return load_tokenizer(self.folder / "source"), load_tokenizer(self.folder / "target")

    def save_model(
        self, weights: Mapping[str, Tensor], vocabularies: Vocabularies, origin: Mapping[str, Any]
    ) -> None:
        """Make `weights` those that translate; `origin` says which checkpoints they come from.

        The file of weights says so itself, so that a kill leaves the old pair or the new one. The header is for people,
        and tells where lost weights can be had from.
        """
        with atomic_path(self.weights) as partial:
            save_weights(weights, vocabularies, partial, origin)
        write_json(self.header, {"origin": dict(origin)})

    def origin(self) -> dict[str, Any]:
        """Where the weights that translate come from. Raises RunError when they cannot be read."""
        return origin_of(self.weights)

    def has_weights_since(self, checkpoint: str, metric: str) -> bool:
        """Whether those that translate are what was written, and come from that checkpoint or from newer ones.

        Not if another metric chose them; an average by hand, which none chose, stays.
        """
        try:
            if is_damaged(self.weights):
                return False
            origin = self.origin()
            is_chosen = origin.get("metric", metric) == metric and max(origin["checkpoints"]) >= checkpoint
            return is_chosen and read_object(self.header, FIX).get("origin") == origin
        except (RunError, KeyError, ValueError, TypeError):
            return False

    def _made_from(self) -> Path | None:
        """The weights of the checkpoint that those that translate are, where it is one, and kept."""
        header = read_object(self.header, FIX).get("origin")
        names = header.get("checkpoints") if isinstance(header, dict) else None
        if not isinstance(names, list) or len(names) != 1 or not re.fullmatch("[0-9]+", str(names[0])):
            return None
        path = self.folder / "checkpoints" / str(names[0]) / self.weights.name
        return path if path.is_file() else None

    def model(self, device: torch.device | str = "cpu") -> tuple[Seq2Seq, Tokenizer, Tokenizer]:
        """The trained model, ready to translate, and its tokenisers.

        Raises RunError when something is missing, or when model and vocabularies do not fit together.
        """
        experiment = self.experiment()
        source, target = self.tokenizers()

        def model_of(weights: Path) -> Seq2Seq:
            check_vocabularies(weights, self.folder, (source.vocabulary, target.vocabulary))
            sizes = len(source.vocabulary), len(target.vocabulary)
            return build_with(weights, experiment.model, *sizes)

        try:
            model = model_of(self.weights)
        except RunError as error:
            if not is_damaged(self.weights):
                raise
            if (spare := self._made_from()) is None:
                fix = f"take other weights: `seq2attn average {self.folder} --best 1`"
                raise DamagedError(f"{error}; {fix}") from None
            logger.warning("warning: %s; %s is taken, which it was made from", error, spare)
            model = model_of(spare)
        configure_cuda(torch.device(device), tf32=False)
        return model.to(device).eval(), source, target

"""A run directory: everything that a training made, and all that translating needs.

config.yaml             the resolved config
source/ target/         the tokenisers
data/                   the encoded text
model.safetensors       the weights that translate, and the vocabularies they know
model.json              where they come from
checkpoints/            where training can go on from
alignment.json          the attention that links are taken from, once it was chosen
metrics.jsonl train.log samples.txt
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2attn.config.base import Mistake
from seq2attn.config.load import load, mistaken
from seq2attn.config.show import dump
from seq2attn.errors import ConfigError, RunError, UserError
from seq2attn.experiment import Experiment
from seq2attn.model import Seq2Seq, build_model
from seq2attn.text.files import read_object, write_bytes, write_json
from seq2attn.text.tokenizer import Tokenizer, load_tokenizer
from seq2attn.weights import Vocabularies, check_vocabularies, load_tensors, put_weights, save_weights

FORMAT = 1
FIX = "train it, or give another run directory"
SETTABLE = ("search", "data")
"""What may be set otherwise for a model that is trained."""


@dataclass(frozen=True)
class Run:
    """The files of one run directory."""

    folder: Path

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
        if not self.config.is_file():
            raise RunError(f"{self.folder}: is no run directory (it has no config.yaml); {FIX}")
        experiment = load(self.config, Experiment, overrides)
        for override in overrides:
            if (part := re.split("[.=]", override)[0]) not in SETTABLE:
                known = " and ".join(f"`{name}`" for name in SETTABLE)
                raise UserError(f"--set {override}: a trained run keeps its `{part}`; {known} may be set")
        return experiment

    def mistaken(self, mistakes: Sequence[Mistake], overrides: Sequence[str] = ()) -> ConfigError:
        """What the config asks for that cannot be had, each at its place."""
        return mistaken(self.config, Experiment, mistakes, overrides)

    def save_experiment(self, experiment: Experiment) -> None:
        """Write the resolved config."""
        write_bytes(self.config, dump(experiment).encode())

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of source and target. Raises RunError when their files are missing or do not fit together."""
        return load_tokenizer(self.folder / "source"), load_tokenizer(self.folder / "target")

    def save_model(
        self, weights: Mapping[str, Tensor], vocabularies: Vocabularies, origin: Mapping[str, Any]
    ) -> None:
        """Make `weights` those that translate; `origin` says which checkpoints they come from."""
        partial = self.weights.with_name(self.weights.name + ".partial")
        save_weights(weights, vocabularies, partial)
        partial.replace(self.weights)
        write_json(self.header, {"format": FORMAT, "origin": dict(origin)})

    def origin(self) -> dict[str, Any]:
        """Where the weights that translate come from."""
        header = read_object(self.header, FIX)
        if header.get("format") != FORMAT or not isinstance(header.get("origin"), dict):
            raise RunError(f"{self.header}: is not of format {FORMAT}; {FIX}")
        return dict(header["origin"])

    def model(self, device: torch.device | str = "cpu") -> tuple[Seq2Seq, Tokenizer, Tokenizer]:
        """The trained model, ready to translate, and its tokenisers.

        Raises RunError when something is missing, or when model and vocabularies do not fit together.
        """
        experiment = self.experiment()
        source, target = self.tokenizers()
        check_vocabularies(self.weights, self.folder, (source.vocabulary, target.vocabulary))
        model = build_model(experiment.model, len(source.vocabulary), len(target.vocabulary))
        put_weights(model, load_tensors(self.weights), self.weights)
        return model.to(device).eval(), source, target

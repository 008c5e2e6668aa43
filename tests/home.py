"""Trainings of a small text in separate processes, and checks of their files while they run."""

import pytest
import yaml

from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints, load_checkpoint
from seq2attn.training.checkpoints.retention import latest_valid_checkpoint
from tests.forked import Command
from tests.laws.small import MODELS, content
from tests.laws.test_interrupted import PLAIN

OFTEN = {
    **PLAIN,
    "max_duration": ["14 updates"],
    "validation": {"every": "2 updates", "metric": "loss"},
    "report_every": 3,
}


class Home:
    """A folder with a text, and its trainings."""

    def __init__(self, folder, **options):
        self.folder, self.options = folder, options

    def config(self, run, *, at=None, **options):
        path = self.folder / f"{run}.yaml"
        path.write_text(yaml.safe_dump(content(self.folder, at or run, **{**self.options, **options})))
        return path

    def start(self, run, *more, fault=None, **options):
        return Command("train", self.config(run, **options), *more, log=self.folder / f"{run}.txt", fault=fault)

    def train(self, run, *more, fault=None, **options):
        return self.start(run, *more, fault=fault, **options).finish()

    def run(self, name):
        return RunDirectory(self.folder / name)


def is_saving(run):
    return lambda: any((run.folder / "checkpoints").glob("*.partial"))


def has_reported(run, update):
    return lambda: run.metrics_path.is_file() and f'"update": {update},' in run.metrics_path.read_text()


def assert_valid(run):
    """All files are valid, and the newest checkpoint can be resumed from without a warning."""
    newest = latest_valid_checkpoint(run.folder, pytest.fail)
    for checkpoint in list_checkpoints(run.folder)[-1:]:
        load_checkpoint(checkpoint)
        assert checkpoint.train_state == newest.train_state
    if run.weights_path.is_file():
        run.load_model()


SLOW = {"every": "2 updates", "metric": "bleu"}


def slow_to_validate(folder, sentences=3000):
    """A training whose validations take seconds: the model does not predict EOS."""
    for name in ("src", "tgt"):
        (folder / f"dev.{name}").write_text("ba be bi bo bul da de\n" * sentences)
    return Home(folder, **{**OFTEN, "max_duration": ["4 updates"], "model": MODELS["recurrent"], "validation": SLOW})

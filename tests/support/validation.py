"""Validations of a run by other settings."""

import pytest
import torch

from seq2attn.data.prepared_data import load_prepared
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.training.distributed import init_distributed
from seq2attn.training.validation import Validator
from tests.support.trainings import content, train_run, write_corpus


def every(unit="2 updates", **options):
    return {"every": unit, **options}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained run whose references are not reproduced by its tokenizer; tests only read it and its text."""
    folder = write_corpus(tmp_path_factory.mktemp("validation"))
    (folder / "dev.tgt").write_text("".join(f"ba ba ba ba ba, zzzz  xyz{row}\n" for row in range(6)))
    return train_run(folder, "run", max_duration=["6 updates"], optimizer={"kind": "adam", "lr": 0.1})


def validate(run, model=None, prepared=None, search=None, evaluation=None, **training):
    """The validator of a config, and its result for a model of the run."""
    values = content(run.folder.parent, run.folder.name, **training) | {"evaluation": evaluation or {}}
    values["search"] = search or {"kind": "beam"}
    config = ExperimentConfig.model_validate(values)
    with init_distributed(torch.device("cpu")) as world:
        objective = TrainingLoss(model or run.load().model, config.training.label_smoothing)
        validator = Validator(config, prepared or load_prepared(run.folder), world)
        return validator, validator.validate(objective)

"""The worker of a sweep translates test sets with the search of the run, whose automatic values are numbers."""

import json

from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.sweep.record import write_trial
from seq2attn.sweep.worker import run_trial
from tests.support.trainings import content


class Trial:
    def __init__(self, folder, experiment):
        self.folder, self.experiment = folder, experiment


def test_the_search_of_a_trial_is_that_of_its_run(corpus):
    for name in ("train", "dev"):
        text = (corpus / f"{name}.tgt").read_text().split("\n")
        (corpus / f"{name}.tgt").write_text("\n".join(" ".join(3 * word for word in line.split()) for line in text))
    tokenizer = {"source": {"kind": "words"}, "target": {"kind": "characters"}}
    values = content(corpus, "run", tokenizer=tokenizer, max_duration=["2 epochs"], batch={"tokens": 1000})
    values["data"]["test"] = {"dev": values["data"]["dev"]}
    write_trial(Trial(corpus / "run", ExperimentConfig.model_validate(values)), {})
    training = run_trial(corpus / "run", 1).training
    assert training.epochs == 2 < training.updates
    report = json.loads((corpus / "run/evaluation/dev.json").read_text())
    assert report["search"]["lengths"]["max_length_ratio"] > 3

"""What a sweep keeps of each training: what it was to be, and what came of it.

trial.json      the config and its fingerprint: options and the content of files, wherever they lie
result.json     written last, so that a training with a result is finished
trained.json    a former result, of other test sets or another search, that a training is measured anew after
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from seq2attn.data.fingerprint import fingerprint
from seq2attn.data.readers import CorpusConfig
from seq2attn.errors import RunError
from seq2attn.evaluation.evaluate import Digests
from seq2attn.evaluation.metrics import Score
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.files import read_object, write_json
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.sweep.plan import TrialRun

TRIAL_FILE, RESULT_FILE, TRAINED = "trial.json", "result.json", "trained.json"
SWEEP_HINT = "remove the folder it is in, and start the sweep again"


@dataclass(frozen=True)
class TestSetMeasurement:
    """What was found on one test set."""

    digests: Digests
    sentences: int
    scores: tuple[Score, ...]
    seconds: float  # of translating
    num_tokens: int  # target tokens made
    translations: tuple[str, ...]

    def score(self, name: str) -> Score:
        """The score of that name."""
        return next(score for score in self.scores if score.name == name)


@dataclass(frozen=True)
class RunRecord:
    """What came of one training."""

    parameters: int
    seconds: float  # of training and validating, over all sittings
    updates: int
    epochs: float
    threads: int
    jobs: int  # trainings that were side by side
    machine: str
    torch: str
    date: str
    sets: dict[str, TestSetMeasurement]


_RECORD = TypeAdapter(RunRecord)


def write_record(folder: Path, record: RunRecord) -> None:
    """Say that a training is finished, and what came of it."""
    write_json(folder / RESULT_FILE, {"format": FORMAT_VERSION, **_RECORD.dump_python(record, mode="json")})


def read_record(folder: Path) -> RunRecord | None:
    """What came of the training in `folder`; None if it is not finished."""
    if not (folder / RESULT_FILE).is_file():
        return None
    content = read_object(folder / RESULT_FILE, SWEEP_HINT)
    check_format(content, folder / RESULT_FILE, SWEEP_HINT)
    del content["format"]
    try:
        return _RECORD.validate_python(content)
    except ValueError as error:
        raise RunError(f"{folder / RESULT_FILE}: cannot be used ({error}); {SWEEP_HINT}") from None


def write_trial(training: TrialRun, identity: Mapping[str, Any]) -> None:
    """Say what a training is to be."""
    config = training.experiment.model_dump(mode="json")
    write_json(training.folder / TRIAL_FILE, {"fingerprint": identity, "config": config})


def read_trial(folder: Path) -> ExperimentConfig:
    """The experiment that a process is to train in `folder`."""
    return ExperimentConfig.model_validate(read_object(folder / TRIAL_FILE, SWEEP_HINT)["config"])


def changed_parts(training: TrialRun, identity: Mapping[str, Any]) -> list[str]:
    """The parts of the config that are others than those that the folder of a training was begun with."""
    path = training.folder / TRIAL_FILE
    if not path.is_file():
        return []
    before = read_object(path, SWEEP_HINT).get("fingerprint", {})
    return [part for part in identity if identity[part] != before.get(part)]


class ExperimentFingerprints:
    """What experiments are known by: options, and the content of files. Each file is read once."""

    def __init__(self) -> None:
        self._hashes: dict[Any, str] = {}

    def fingerprint(self, experiment: ExperimentConfig) -> dict[str, Any]:
        """All that decides what comes of an experiment; that its text lies elsewhere changes nothing."""
        parts = experiment.model_dump(mode="json", include={"model", "training", "search", "evaluation"})
        tests = {name: self._hash(experiment, corpus) for name, corpus in experiment.data.test.items()}
        return {"text": self.text_fingerprint(experiment), "test sets": tests, **parts}

    def text_fingerprint(self, experiment: ExperimentConfig) -> str:
        """What the text that an experiment learns from is known by, once it is prepared."""
        return self._hash(experiment, *experiment.data.train, experiment.data.dev)

    def _hash(self, experiment: ExperimentConfig, *corpora: CorpusConfig) -> str:
        key = (corpora, experiment.data.filters, experiment.tokenizer)
        if key not in self._hashes:
            self._hashes[key] = fingerprint(*key)
        return self._hashes[key]

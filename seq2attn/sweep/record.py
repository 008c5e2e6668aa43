"""Files of a sweep in each run directory: the trial and its result.

trial.json      the config and its fingerprint: options and the content of files
result.json     written last: a training with a result is finished
"""

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from seq2attn.config.base import Config
from seq2attn.config.load import load_json
from seq2attn.config.plugin import allow_code, plugin_modules
from seq2attn.data.fingerprint import file_digest, fingerprint, text_options
from seq2attn.errors import ConfigError, RunError
from seq2attn.evaluation.evaluate import SetResult
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import FORMAT_VERSION, check_format, read_object, validate, write_json
from seq2attn.io.terminal import plural
from seq2attn.sweep.plan import SweepPlan, TrialRun
from seq2attn.training.validation import search_settings

TRIAL_FILE, RESULT_FILE, SWEEP_LOCK = "trial.json", "result.json", "sweep.lock"
SWEEP_HINT = "remove the folder it is in, and start the sweep again"


def machine_name(device: torch.device) -> str:
    """The GPU, or the CPU and its number of cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    path = Path("/proc/cpuinfo")
    lines = path.read_text("utf-8").split("\n") if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {plural(os.cpu_count() or 1, 'core')}"


@dataclass(frozen=True)
class TrainingSummary:
    """Size, duration and environment of one training."""

    parameters: int
    seconds: float  # of training and validation, over all sessions
    updates: int
    epochs: float
    threads: int  # of the last session, which evaluates, as all below
    jobs: int  # maximum number of simultaneous trainings
    machine: str
    torch: str
    date: str


@dataclass(frozen=True)
class RunRecord:
    """Result of one training."""

    training: TrainingSummary
    sets: dict[str, SetResult]


Records = Mapping[str, Mapping[int, RunRecord]]
"""Results of finished trainings, by trial and seed."""


def write_record(folder: Path, record: RunRecord) -> None:
    """Write `result.json`, which marks the training as finished."""
    write_json(folder / RESULT_FILE, {"format": FORMAT_VERSION, **asdict(record)})


def read_record(folder: Path) -> RunRecord | None:
    """The result of the training in `folder`; None if it is not finished."""
    path = folder / RESULT_FILE
    if not path.is_file():
        return None
    content = read_object(path, SWEEP_HINT, path.stat().st_size)
    check_format(content, path, SWEEP_HINT)
    del content["format"]
    return validate(RunRecord, content, path, "is not valid", SWEEP_HINT)


def read_records(plan: SweepPlan) -> Records:
    """The results of all finished trainings of a sweep."""
    return {
        trial.name: {seed: record for seed in plan.sweep.seeds if (record := read_record(TrialRun(trial, seed).folder))}
        for trial in plan.trials
    }


def trainings(records: Records) -> list[tuple[str, int, TrainingSummary]]:
    """Trial and seed of each finished training, with its summary."""
    return [(trial, seed, record.training) for trial, by_seed in records.items() for seed, record in by_seed.items()]


def conditions(records: Records) -> list[str]:
    """Machines, versions and dates of the trainings, each combination once."""
    return sorted(
        {
            f"{training.machine}; torch {training.torch}; {plural(training.threads, 'thread')} per"
            f" training, up to {training.jobs} simultaneous; {training.date}"
            for *_, training in trainings(records)
        }
    )


def unfinished(plan: SweepPlan, records: Records) -> list[str]:
    """The names of the trainings without a result."""
    return [str(run) for run in plan.runs if run.seed not in records[run.trial.name]]


def write_trial(run: TrialRun, fingerprint: Mapping[str, Any]) -> None:
    """Write `trial.json`, from which the process of the training reads its config."""
    config = run.experiment.model_dump(mode="json")
    write_json(run.folder / TRIAL_FILE, {"fingerprint": fingerprint, "config": config})


def read_trial(folder: Path) -> ExperimentConfig:
    """The experiment to train in `folder`. Raises ConfigError, also for code of modules that are not allowed."""
    path = folder / TRIAL_FILE
    return load_json(read_object(path, SWEEP_HINT).get("config"), path, ExperimentConfig)


def changed_parts(run: TrialRun, fingerprint: Mapping[str, Any]) -> list[str]:
    """The parts of the config whose fingerprint differs from that in `trial.json`."""
    path = run.folder / TRIAL_FILE
    if not path.is_file():
        return []
    before = read_object(path, SWEEP_HINT).get("fingerprint")
    return [part for part in fingerprint if not isinstance(before, dict) or fingerprint[part] != before.get(part)]


def changed_options(run: TrialRun) -> list[str]:
    """The parts whose options differ from those in `trial.json`; no file of the text is read."""
    if not (run.folder / TRIAL_FILE).is_file():
        return []
    allow_code(plugin_modules(run.experiment))  # of the user's own config
    try:
        trained = read_trial(run.folder)
    except ConfigError:  # of another version of seq2attn, or with other code
        return ["config"]
    before, after = (
        text_options((*experiment.data.train, experiment.data.dev), experiment.data.filters, experiment.tokenizer)
        for experiment in (trained, run.experiment)
    )
    return ["text"] * (before != after) + changed_parts(run, options(run.experiment))


def changes_validation(run: TrialRun) -> bool:
    """True if validations have another search than by `trial.json`: a training would rank its checkpoints again."""
    allow_code(plugin_modules(run.experiment))  # of the user's own config
    try:
        before = read_trial(run.folder).search
    except ConfigError:  # of another version of seq2attn, or with other code
        return True
    return search_settings(before) != search_settings(run.experiment.search)


def options(experiment: ExperimentConfig) -> dict[str, Any]:
    """The part of the fingerprint of an experiment that needs none of its files."""
    content = experiment.model_dump(mode="json", exclude={"run_dir", "data", "tokenizer"})
    places = [(content["model"]["embeddings"], side) for side in ("source_vectors", "target_vectors")]
    if experiment.model.encoder_checkpoint is not None:
        places.append((content["model"]["encoder"], "path"))
    if experiment.training.init_from:
        places.append((content["training"]["init_from"], "run_dir"))
    for section, key in places:
        section[key] = section[key] is not None  # the content is in `input files`
    return content


class ExperimentFingerprints:
    """Fingerprints of experiments: options, and the content of files. Each file is read once."""

    def __init__(self) -> None:
        self._text = cache(fingerprint)
        self._file = cache(file_digest)

    def fingerprint(self, experiment: ExperimentConfig) -> dict[str, Any]:
        """All that the result of an experiment depends on; paths do not count."""
        data = experiment.data
        tests = {name: self._text((test,), data.filters, experiment.tokenizer) for name, test in data.test.items()}
        files = [self._file(file) for file in _input_files(experiment)]
        parts = {"text": self.text_fingerprint(experiment), "test sets": tests, **options(experiment)}
        return {**parts, "input files": files} if files else parts

    def text_fingerprint(self, experiment: ExperimentConfig) -> str:
        """Fingerprint of the prepared text of an experiment."""
        data = experiment.data
        return self._text((*data.train, data.dev), data.filters, experiment.tokenizer)


def _input_files(experiment: ExperimentConfig) -> list[Path]:
    """The other files that a training reads: tokenizers and weights of another run or of BERT, vectors, plug-ins.

    Raises RunError if `training.init_from` is no run, or a trial that is not finished.
    """
    runs = [run for run in [experiment.tokenizer.run_dir] if run]
    files = list[Path]()
    if init_from := experiment.training.init_from:
        initial = RunDirectory(init_from.run_dir)
        initial.check_exists()
        if (initial.folder / TRIAL_FILE).is_file() and read_record(initial.folder) is None:
            advice = 'finish it first (``overrides="trials=[...]"`` trains some trials alone)'
            raise RunError(f"{initial.folder}: `training.init_from` is a trial that is not finished; {advice}")
        runs.append(initial.folder)
        files.append(initial.weights_path)
    files += [file for folder in runs for side in ("source", "target") for file in sorted(folder.glob(f"{side}/*"))]
    if (checkpoint := experiment.model.encoder_checkpoint) is not None:
        files += sorted(checkpoint.glob("*.safetensors"))
    files += [file for name in plugin_modules(experiment) for file in _code_files(sys.modules[name])]
    return [*files, *(path for path in _paths(experiment.model) if path.is_file())]


def _code_files(module: ModuleType) -> list[Path]:
    """The file of a module of a plug-in, with all of its package if it is in one."""
    file = Path(module.__file__ or "")
    return sorted(file.parent.rglob("*.py")) if module.__package__ else [file]


def _paths(value: Any) -> Iterator[Path]:
    """All paths in a config, such as those of word vectors and of the options of a plug-in."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, Config):
        yield from _paths([getattr(value, name) for name in type(value).model_fields])
    elif isinstance(value, dict):
        yield from _paths([*value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _paths(item)

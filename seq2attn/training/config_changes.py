"""Changes of config and text between a run and its resumption: logged, or refused; and between processes: refused."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from seq2attn.config.base import Config
from seq2attn.config.load import load
from seq2attn.data.data_config import DataConfig
from seq2attn.data.fingerprint import file_digest
from seq2attn.errors import RunError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import read_bytes, write_bytes
from seq2attn.optim.lr_schedules import total_updates
from seq2attn.training.checkpoints.checkpoint import Checkpoint
from seq2attn.training.distributed import DistributedContext
from seq2attn.version import __version__

FIXED_PARTS = ("model", "tokenizer", "training.lora")
"""Parts of the config that cannot change, because the weights depend on them. Files in them may have moved."""
NONE = "none"
KEPT_CONFIGS = "config.[0-9]*.yaml"

Digests = dict[str, dict[str, str]]
"""SHA-256 of each file of the training text and of the dev set."""


def text_digests(data: DataConfig) -> Digests:
    """Digests of the files for training and validation. Raises DataError if one cannot be read."""
    corpora = {"train": data.train, "dev": (data.dev,)}
    return {
        name: {str(file): file_digest(file) for corpus in part for file in corpus.files}
        for name, part in corpora.items()
    }


def check_processes(experiment: ExperimentConfig, distributed: DistributedContext) -> None:
    """Raises UserError if a process has another config, text or version than the others; folders may differ."""
    if distributed.size > 1:
        options = {f"`{key}`": value for key, value in _values(experiment).items() if key != "run_dir"}
        options |= {key: Path(path).name for key, path in options.items() if isinstance(path, str) and "/" in path}
        texts = {
            f"SHA-256 of file {number} of `data.{name}`": digest
            for name, digests in text_digests(experiment.data).items()
            for number, digest in enumerate(digests.values(), start=1)
        }
        versions = {"version of seq2attn": __version__, "version of torch": torch.__version__}
        distributed.check_same({**options, **texts, **versions})


@dataclass(frozen=True)
class Resumption:
    """The checkpoint that training resumes from, the config of the updates before it, and changes of text since."""

    checkpoint: Checkpoint
    experiment: ExperimentConfig
    texts: Digests
    text_changes: dict[str, str]  # a line for each file, by keys below `data.train` and `data.dev`

    def changes(self, experiment: ExperimentConfig) -> dict[str, str]:
        """One line for each key of the config and each text file that has changed since the checkpoint."""
        changes = config_changes(self.experiment, experiment)
        is_auto = total_updates(experiment.training.lr_schedule) == "auto"
        if self.checkpoint.train_state.total_is_auto and is_auto:  # its number is not known yet
            changes.pop("training.lr_schedule.total_updates", None)
        return changes | self.text_changes


def read_resumption(
    checkpoint: Checkpoint, run: RunDirectory, experiment: ExperimentConfig, *, new_dev_set: bool
) -> Resumption:
    """A resumption with another config, and the text that it names.

    `config.yaml` may be that of a session that saved no checkpoint.

    Raises RunError if the weights do not match the config, or for another dev set without `new_dev_set`.
    """
    run.check_exists()
    before = load(_config_path(run, checkpoint), ExperimentConfig)
    changes, moved = config_changes(before, experiment), _moved_files(before, experiment)
    for name in FIXED_PARTS:
        if lines := [line for key, line in changes.items() if f"{key}.".startswith(f"{name}.") and key not in moved]:
            raise RunError(
                f"{run.folder}: was trained with another `{name}`; resume with its config ({run.config_path}),"
                f" or set another `run_dir`\n" + "\n".join(f"  {line}" for line in lines)
            )
    texts = text_digests(experiment.data)
    texts_before = checkpoint.train_state.texts
    lines_of = {name: _text_changes(name, texts_before.get(name, {}), texts[name]) for name in texts}
    if lines_of["dev"] and not new_dev_set:
        raise RunError(
            f"{run.folder}: its checkpoints were ranked on another dev set; restore that dev set, or rank them again"
            " with ``new_dev_set``\n" + "\n".join(f"  {line}" for line in lines_of["dev"])
        )
    numbered = {f"data.{name}.text.{n}": line for name, lines in lines_of.items() for n, line in enumerate(lines)}
    return Resumption(checkpoint, before, texts, numbered)


def config_changes(before: Config, now: Config, name: str = "") -> dict[str, str]:
    """One line for each key whose value differs, except the run directory."""
    old, new = _values(before, name), _values(now, name)
    return {
        key: f"config: `{key}` was {_format_value(old, key)} and is {_format_value(new, key)}"
        for key in dict.fromkeys([*old, *new])
        if key != "run_dir" and old.get(key) != new.get(key)
    }


def save_config(
    run: RunDirectory, experiment: ExperimentConfig, since: Resumption | None, *, has_changes: bool
) -> None:
    """Save the config of a session. A copy of that of the updates before is kept, if anything has changed.

    Kept configs of later updates, whose checkpoints were lost, are removed.
    """
    name = "" if since is None else _kept_name(since.checkpoint)
    if since is not None:
        path = _config_path(run, since.checkpoint)
        if path.name != name and (has_changes or path != run.config_path):
            write_bytes(run.folder / name, read_bytes(path, "start a new training"))
    for path in run.folder.glob(KEPT_CONFIGS):
        if path.name > name:
            path.unlink()
    run.save_config(experiment)


def _config_path(run: RunDirectory, checkpoint: Checkpoint) -> Path:
    """The config of the updates before a checkpoint: the first that was kept from there on, or else the present one."""
    kept = sorted(path for path in run.folder.glob(KEPT_CONFIGS) if path.name >= _kept_name(checkpoint))
    return kept[0] if kept else run.config_path


def _kept_name(checkpoint: Checkpoint) -> str:
    return f"config.{checkpoint.train_state.update:08d}.yaml"


def _text_changes(name: str, before: dict[str, str], now: dict[str, str]) -> list[str]:
    if not before or [*before.values()] == [*now.values()]:  # files may have moved
        return []
    removed = [f"text of `data.{name}`: {path} is no longer read" for path in before if path not in now]
    return removed + [
        f"text of `data.{name}`: {path} has changed (SHA-256 was {before.get(path, NONE)[:12]} and is {digest[:12]})"
        for path, digest in now.items()
        if before.get(path) != digest
    ]


def _moved_files(before: Config, now: Config) -> set[str]:
    """The keys whose value is a path to a file of the same name in another folder."""
    old, new = _values(before), _values(now)
    pairs = {key: (old[key], value) for key, value in new.items() if key in old and old[key] != value}
    return {
        key
        for key, pair in pairs.items()
        if all(isinstance(path, str) and "/" in path for path in pair) and len({Path(path).name for path in pair}) == 1
    }


def _values(config: Config, name: str = "") -> dict[str, Any]:
    """The values of all keys by their names, which begin with `name`."""
    return dict(_leaves(config.model_dump(mode="json"), name))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        value = {str(number): part for number, part in enumerate(value)}
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{name}.{key}" if name else key)
    else:
        yield name, value


def _format_value(values: dict[str, Any], key: str) -> str:
    return json.dumps(values[key], ensure_ascii=False) if key in values else NONE

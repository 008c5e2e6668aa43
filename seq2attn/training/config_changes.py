"""Changes of config and text between a run and its resumption: logged, or refused; and between processes: refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
from seq2attn.training.auto_settings import total_is_auto
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
    """Digests of the files for training and validation. Raises: DataError if one cannot be read."""
    corpora = {"train": data.train, "dev": (data.dev,)}
    return {
        name: {str(file): file_digest(file) for corpus in part for file in corpus.files}
        for name, part in corpora.items()
    }


def check_processes(config: ExperimentConfig, world: DistributedContext) -> None:
    """Raises UserError if a process has another config, text or version than the others; folders may differ."""
    if world.size > 1:
        options = {f"`{key}`": value for key, value in _values(config).items() if key != "run_dir"}
        options |= {key: Path(path).name for key, path in options.items() if isinstance(path, str) and "/" in path}
        texts = {
            f"SHA-256 of file {number} of `data.{name}`": digest
            for name, digests in text_digests(config.data).items()
            for number, digest in enumerate(digests.values(), start=1)
        }
        versions = {"version of seq2attn": __version__, "version of torch": torch.__version__}
        world.check_same({**options, **texts, **versions})


def config_before(checkpoint: Checkpoint, run: RunDirectory) -> ExperimentConfig:
    """The config of the updates before a checkpoint: `config.yaml` may be that of a session that saved none."""
    run.check_exists()
    return load(_config_path(run, checkpoint), ExperimentConfig)


def changes_since(
    checkpoint: Checkpoint, before: ExperimentConfig, run: RunDirectory, config: ExperimentConfig, *, new_dev_set: bool
) -> dict[str, str]:
    """One line for each config key and text file that has changed since the checkpoint, whose config is `before`.

    Those of text have keys below `data.train` and `data.dev`.

    Raises: RunError if the weights do not match the new config, or for another dev set without `new_dev_set`.
    """
    changes, moved = config_changes(before, config), _moved_files(before, config)
    if checkpoint.train_state.total_is_auto and total_is_auto(config.training):  # its number is not known yet
        changes.pop("training.lr_schedule.total_updates", None)
    for name in FIXED_PARTS:
        if lines := [line for key, line in changes.items() if f"{key}.".startswith(f"{name}.") and key not in moved]:
            raise RunError(
                f"{run.folder}: was trained with another `{name}`; resume with its config ({run.config_path}),"
                f" or set another `run_dir`\n" + "\n".join(f"  {line}" for line in lines)
            )
    digests = text_digests(config.data)
    train, dev = (_text_changes(name, checkpoint.train_state.texts.get(name, {}), digests[name]) for name in digests)
    if dev and not new_dev_set:
        raise RunError(
            f"{run.folder}: its checkpoints were ranked on another dev set; restore it, or rank them again with"
            " --new-dev-set\n" + "\n".join(f"  {line}" for line in dev)
        )
    texts = {
        f"data.{name}.text.{n}": line
        for name, lines in (("train", train), ("dev", dev))
        for n, line in enumerate(lines)
    }
    return changes | texts


def config_changes(before: Config, now: Config, name: str = "") -> dict[str, str]:
    """One line for each key whose value differs, except the run directory."""
    old, new = _values(before, name), _values(now, name)
    return {
        key: f"config: `{key}` was {_format_value(old, key)} and is {_format_value(new, key)}"
        for key in dict.fromkeys([*old, *new])
        if key != "run_dir" and old.get(key) != new.get(key)
    }


def remove_kept_configs(run: RunDirectory) -> None:
    """Remove the kept configs of an earlier training, before a new one."""
    for path in run.folder.glob(KEPT_CONFIGS):
        path.unlink()


def keep_config(run: RunDirectory, checkpoint: Checkpoint, *, has_changes: bool) -> None:
    """Keep a copy of the config up to a checkpoint, before another one replaces it.

    Those up to later updates, whose checkpoints were lost, are removed.
    """
    path, kept = _config_path(run, checkpoint), run.config_path.with_name(_kept_name(checkpoint))
    if path != kept and (has_changes or path != run.config_path):
        write_bytes(kept, read_bytes(path, "start a new training"))
    for other in run.folder.glob(KEPT_CONFIGS):
        if other.name > kept.name:
            other.unlink()


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

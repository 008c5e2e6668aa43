"""Differences of config and text between a run and what it is resumed with: refused, or reported one line each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from seq2attn.config.base import Config
from seq2attn.data.config import DataConfig
from seq2attn.data.fingerprint import file_digest
from seq2attn.errors import RunError
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.files import read_bytes, write_bytes
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import Checkpoint

FIXED = ("model", "tokenizer")
"""Parts of the config without which the weights mean nothing."""
NEW_DEV_SET = "--new-dev-set"
NONE = "none"

Texts = dict[str, dict[str, str]]
"""SHA-256 of each file of the training text and of the dev set."""


def text_digests(data: DataConfig) -> Texts:
    """Digests of the files that are trained and validated on. Raises: DataError when one cannot be read."""
    corpora = {"train": data.train, "dev": (data.dev,)}
    return {
        name: {str(file): file_digest(file) for corpus in part for file in corpus.files}
        for name, part in corpora.items()
    }


def changes_since(
    checkpoint: Checkpoint, run: RunDirectory, config: ExperimentConfig, *, new_dev_set: bool
) -> list[str]:
    """A line for each config key and each text that is another than when the checkpoint was saved.

    Raises: RunError where the weights cannot be trained on with it, or where the dev set is another one, unless it may
    be (`new_dev_set`).
    """
    before = run.load_config()
    for name in FIXED:
        if lines := config_changes(getattr(before, name), getattr(config, name), name):
            raise RunError(
                f"{run.folder}: was trained with another `{name}`; resume with its config ({run.config_path}),"
                f" or give another `run_dir`\n" + "\n".join(f"  {line}" for line in lines)
            )
    texts = text_digests(config.data)
    train, dev = (_text_changes(name, checkpoint.train_state.texts.get(name, {}), texts[name]) for name in texts)
    if dev and not new_dev_set:
        raise RunError(
            f"{run.folder}: its checkpoints were chosen by another dev set, with whose scores new ones cannot be"
            f" compared; put it back, or give {NEW_DEV_SET} to rank them anew\n"
            + "\n".join(f"  {line}" for line in dev)
        )
    return [*config_changes(before, config), *train, *dev]


def config_changes(before: Config, now: Config, name: str = "") -> list[str]:
    """A line for each key whose value differs, apart from the run directory."""
    old, new = (dict(_leaves(config.model_dump(mode="json"), name)) for config in (before, now))
    return [
        f"config: `{key}` was {_shown(old, key)} and is {_shown(new, key)}"
        for key in dict.fromkeys([*old, *new])
        if key != "run_dir" and old.get(key) != new.get(key)
    ]


def keep_config(run: RunDirectory, checkpoint: Checkpoint) -> None:
    """Keep the config of the training up to a checkpoint beside the one that follows it."""
    path = run.config_path.with_name(f"config.{checkpoint.train_state.update:08d}.yaml")
    if not path.exists():
        write_bytes(path, read_bytes(run.config_path, "train it anew"))


def _text_changes(name: str, before: dict[str, str], now: dict[str, str]) -> list[str]:
    if not before or [*before.values()] == [*now.values()]:  # files may have moved
        return []
    gone = [f"text of `data.{name}`: {path} is not read any more" for path in before if path not in now]
    return gone + [
        f"text of `data.{name}`: {path} has changed (SHA-256 was {before.get(path, NONE)[:12]} and is {digest[:12]})"
        for path, digest in now.items()
        if before.get(path) != digest
    ]


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        value = {str(number): part for number, part in enumerate(value)}
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{name}.{key}" if name else key)
    else:
        yield name, value


def _shown(values: dict[str, Any], key: str) -> str:
    return json.dumps(values[key], ensure_ascii=False) if key in values else NONE

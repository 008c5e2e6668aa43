"""A config as YAML: complete, in the order of its fields."""

from __future__ import annotations

from typing import Any

import yaml

from seq2attn.config.base import Config


def dump(config: Config) -> str:
    """All of `config`, defaults included, as YAML that `load` reads back to the same config."""
    data = _kinds_first(config.model_dump(mode="json"))
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=float("inf"))


def _kinds_first(data: Any) -> Any:
    """`data` with each `kind` at the head of its mapping, also where the fields before it are inherited."""
    if isinstance(data, dict):
        head = {"kind": data["kind"]} if "kind" in data else {}
        return {key: _kinds_first(value) for key, value in (head | data).items()}
    return [_kinds_first(item) for item in data] if isinstance(data, list) else data

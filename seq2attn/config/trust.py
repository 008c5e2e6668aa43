"""Which code a config may name: one's own config any, one beside the files of a run only what was allowed by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from seq2attn.config.base import FieldError, PathString

RUN_FILES = ("run.json", "model.safetensors", "weights.json", "checkpoints")
"""The files that tell a run directory from other folders."""
_allowed = set[str]()


def allow_code(modules: Iterable[str]) -> None:
    """Allow modules, each with all below it (`my_package` or `my_package.my_module`), for the rest of the process.

    It is the process that imports them, once for all configs.
    """
    _allowed.update(module.partition(":")[0] for module in modules)


def check_code(kind: str) -> None:
    """A check of an import path such as `my_package.my_module:Class`, to be made before any import.

    Raises: FieldError for a module that was not allowed, where a config of a run names it.
    """
    module = kind.partition(":")[0]
    is_allowed = any(module == name or module.startswith(f"{name}.") for name in _allowed if name)
    if not is_allowed and is_of_run(kind):
        raise FieldError(
            "kind",
            f"would run code of the module `{module}`, which may do anything that you may; if you trust it, say so by"
            f" --allow-code {module} (in Python: allow_code=['{module}'])",
        )


def is_of_run(value: str) -> bool:
    """Whether a value was written beside the files of a run, so that it may be untrusted."""
    return isinstance(value, PathString) and is_run(value.folder)


def is_run(folder: Path) -> bool:
    """Whether a folder has files of a run."""
    return any((folder / name).exists() for name in RUN_FILES)

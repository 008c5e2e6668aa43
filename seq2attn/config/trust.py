"""Permission to import plug-ins: all of a user's config, only allowed modules of a config beside the files of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from seq2attn.config.base import FieldError, PathString

RUN_FILES = ("run.json", "model.safetensors", "weights.json", "checkpoints")
"""Files by which a run directory is recognized."""
_allowed = set[str]()


def allow_code(modules: Iterable[str]) -> None:
    """Allow modules and their submodules (`my_package` or `my_package.my_module`) for the rest of the process."""
    _allowed.update(module.partition(":")[0] for module in modules)


def check_code(kind: str) -> None:
    """Check of an import path such as `my_package.my_module:Class`, to be made before the import.

    Raises: FieldError if a config of a run names a module that is not allowed.
    """
    module = kind.partition(":")[0]
    is_allowed = any(module == name or module.startswith(f"{name}.") for name in _allowed if name)
    if not is_allowed and is_of_run(kind):
        raise FieldError(
            "kind",
            f"would run code of the module `{module}`, with all your permissions; if you trust it, allow it by"
            f" --allow-code {module} (in Python: allow_code=['{module}'])",
        )


def is_of_run(value: str) -> bool:
    """True for a value from a YAML file beside the files of a run, which may be untrusted."""
    return isinstance(value, PathString) and is_run(value.folder)


def is_run(folder: Path) -> bool:
    """True for a folder with files of a run."""
    return any((folder / name).exists() for name in RUN_FILES)

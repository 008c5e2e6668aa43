"""How far a config is trusted: one's own names any code and any folder, a run's only what was allowed by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationInfo

from seq2attn.config.base import Mistake, Placed

RUN_FILES = ("run.json", "model.safetensors", "model.json", "checkpoints")
"""The files that tell a run directory from other folders."""


@dataclass(frozen=True)
class Trust:
    """The context of pydantic's validation, for all parts of a config."""

    modules: Sequence[str] = ()
    """Allowed modules, each with all below it: `my_package` or `my_package.my_module`."""
    is_full: bool = False
    """Whether the config is the user's own: it may name any module and any folder, except where a run's files lie
    beside it."""

    def check_code(self, kind: str) -> None:
        """A check of an import path such as `my_package.my_module:Class`, to be made before any import.

        Raises: Mistake for a module that was not allowed.
        """
        module = kind.partition(":")[0]
        if any(
            module == name or module.startswith(f"{name}.")
            for name in (given.partition(":")[0] for given in self.modules)
        ):
            return
        if self.is_full and not (isinstance(kind, Placed) and is_run(kind.folder)):
            return
        raise Mistake(
            "kind",
            f"would run code of the module `{module}`, which may do anything that you may; if you trust it, say so by"
            f" --allow-code {module} (in Python: allow_code=['{module}'])",
        )


OWN = Trust(is_full=True)
"""The trust in a config that the user wrote."""


def is_run(folder: Path) -> bool:
    """Whether a folder has files of a run, so that a config in it may be a stranger's."""
    return any((folder / name).exists() for name in RUN_FILES)


def trust_of(info: ValidationInfo) -> Trust:
    """The trust in what is being validated."""
    return info.context if isinstance(info.context, Trust) else OWN

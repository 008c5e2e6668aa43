"""How far a config is trusted: one's own names any code and any folder, a run's only what was allowed by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationInfo

from seq2attn.config.base import Mistake


@dataclass(frozen=True)
class Trust:
    """Goes to all parts of a config as pydantic's context while they are validated."""

    modules: Sequence[str] | None = None
    """Whose code may be run, with all below them: `my_package` or `my_package.my_module`. None: any, as in OWN."""

    @property
    def is_full(self) -> bool:
        """Whether the config is the user's own, so that folders that it names may be looked into."""
        return self.modules is None

    def check_code(self, module: str) -> None:
        """Raises Mistake for a module that was not allowed. To be asked before anything is imported."""
        if self.modules is None or any(
            module == name or module.startswith(f"{name}.")
            for name in (given.partition(":")[0] for given in self.modules)
        ):
            return
        raise Mistake(
            "kind",
            f"would run code of the module `{module}`, which may do anything that you may; if you trust it, say so by"
            f" --allow-code {module} (in Python: allow_code=['{module}'])",
        )


OWN = Trust()
"""The trust in a config that the user wrote."""


def trust_of(info: ValidationInfo) -> Trust:
    """The trust in what is being validated."""
    return info.context if isinstance(info.context, Trust) else OWN

"""Everything that a run can be exported to, and the engine that is made of it."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.engines.base import Engine, Target
from seq2attn.engines.ctranslate2 import CTranslate2
from seq2attn.engines.export_directory import check_header
from seq2attn.errors import UserError
from seq2attn.run_directory import Run

TARGETS: dict[str, Target] = {target.name: target for target in (CTranslate2(),)}
"""By name. `cli/options.py` lists the names again, so that `--help` comes without torch."""


def chosen_target(name: str) -> Target:
    """The target of that name. Raises UserError when there is none."""
    if name not in TARGETS:
        raise UserError(f"there is no engine `{name}`; known: {', '.join(['native', *TARGETS])}")
    return TARGETS[name]


def exported_engine(run: Run, name: str, folder: Path | None, device: torch.device) -> Engine:
    """The engine that a run was exported to, from `folder` or from where `export` puts it.

    Raises RunError when it was not exported, or has been trained since.
    """
    target = chosen_target(name)
    folder = folder or run.folder / target.name
    check_header(run, target, folder)
    return target.open(run, folder, device)

"""The list of export targets, and loading of exported engines."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.engines.base import Engine, ExportTarget
from seq2attn.engines.ctranslate2.target import CTranslate2Target
from seq2attn.engines.export_directory import check_manifest
from seq2attn.errors import UserError
from seq2attn.run_directory import RunDirectory

TARGETS: dict[str, ExportTarget] = {target.name: target for target in (CTranslate2Target(),)}
"""Targets by name. `cli/options.py` lists the names again, so that `--help` does not import torch."""


def get_target(name: str) -> ExportTarget:
    """The target of this name. Raises UserError when there is none."""
    if name not in TARGETS:
        raise UserError(f"there is no engine `{name}`; known: {', '.join(['native', *TARGETS])}")
    return TARGETS[name]


def load_exported_engine(run: RunDirectory, name: str, folder: Path | None, device: torch.device) -> Engine:
    """The engine that a run was exported to, from `folder` or from the default folder of `export`.

    Raises RunError when the run was not exported, or has been trained since.
    """
    target = get_target(name)
    folder = folder or run.folder / target.name
    check_manifest(run, target, folder)
    return target.load(run, folder, device)

"""The list of export targets, and the folders with exported models.

manifest.json    the engine, the digests of the weights and of each file, and the agreement of both engines
README.md        the model card, which the user may edit
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from seq2attn.engines.base import Engine, ExportTarget
from seq2attn.engines.ctranslate2.target import CTranslate2Target
from seq2attn.engines.model_card import MODEL_CARD_FILE
from seq2attn.engines.onnx.target import OnnxTarget
from seq2attn.errors import RunError, UserError
from seq2attn.io.files import FORMAT_VERSION, check_format, check_not_working_dir, read_object, sha256_of, write_json
from seq2attn.run_directory import RunDirectory

MANIFEST_FILE = "manifest.json"


def check_replaceable(folder: Path) -> None:
    """Raises UserError when `folder` has something other than an export, or the working directory."""
    check_not_working_dir(folder)
    if not folder.exists():
        return
    try:
        exported = _exported_files(read_object(folder / MANIFEST_FILE, ""))
    except RunError:
        exported = set()
    others = [folder] if not folder.is_dir() else [x for x in sorted(folder.rglob("*")) if not x.is_dir()]
    if unknown := [path for path in others if path.relative_to(folder).as_posix() not in exported]:
        reason = f"has {unknown[0].relative_to(folder)}, which was not exported" if exported else "is no exported model"
        raise UserError(f"{folder}: exists, and {reason}; give another folder, or move it away")


def _exported_files(header: dict[str, Any]) -> set[str]:
    """The files of an export by its manifest, with paths relative to the folder; none if it is no manifest of ours."""
    digests = header.get("digests") if "engine" in header else None
    return {MANIFEST_FILE, MODEL_CARD_FILE, *digests} if isinstance(digests, dict) else set()


def write_manifest(run: RunDirectory, target: ExportTarget, dtype: str, agreement: Any, folder: Path) -> None:
    """Write the manifest of an export of the run's weights."""
    header = {"format": FORMAT_VERSION, "engine": target.name, "dtype": dtype, "weights": sha256_of(run.weights_path)}
    write_json(folder / MANIFEST_FILE, {**header, "agreement": agreement, "digests": _digests(folder)})


def check_manifest(run: RunDirectory, target: ExportTarget, folder: Path) -> None:
    """Refuse an export that is missing, corrupt, for another engine, or of other weights than the run's.

    Raises RunError with the command that exports again.
    """
    argument = "" if folder == run.folder / target.name else f" {folder}"
    fix = f"seq2attn export {run.folder}{argument} --to {target.name}"
    if not (folder / MANIFEST_FILE).is_file():
        raise RunError(f"{folder}: has no exported model; make it: {fix}")
    header = read_object(folder / MANIFEST_FILE, fix)
    check_format(header, folder / MANIFEST_FILE, fix)
    if header.get("engine") != target.name:
        raise RunError(f"{folder}: was exported for the engine {header.get('engine')}, not {target.name}; {fix}")
    if header.get("weights") != sha256_of(run.weights_path):
        raise RunError(f"{folder}: was made from other weights than {run.weights_path}; make it again: {fix}")
    digests = _digests(folder)
    if others := sorted({*digests} - _exported_files(header)):
        raise RunError(f"{folder}: has {others[0]}, which was not exported; move it away")
    if header.get("digests") != digests:
        raise RunError(f"{folder}: is corrupt: it does not hold what was exported to it; make it again: {fix}")


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder but its manifest and its model card, as hex."""
    others = folder / MANIFEST_FILE, folder / MODEL_CARD_FILE
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path not in others)
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


TARGETS: dict[str, ExportTarget] = {target.name: target for target in (CTranslate2Target(), OnnxTarget())}
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

"""A folder with an exported model, and its manifest.

manifest.json    the engine, the digests of the weights and of each file, and the agreement of both engines
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seq2attn.engines.base import ExportTarget
from seq2attn.errors import RunError, UserError
from seq2attn.io.files import read_object, sha256_of, write_json
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.run_directory import RunDirectory

MANIFEST_FILE = "manifest.json"


def check_replaceable(folder: Path) -> None:
    """Raises UserError when `folder` has something other than an export."""
    if folder.exists() and not (folder / MANIFEST_FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: exists, and is not an exported model; give another folder, or move it away")


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
    if header.get("digests") != _digests(folder):
        raise RunError(f"{folder}: is corrupt: it does not hold what was exported to it; make it again: {fix}")


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder but its manifest, as hex."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST_FILE)
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}

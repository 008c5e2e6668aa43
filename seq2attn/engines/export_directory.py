"""A folder with an exported model: whole or not there, and made from weights that it knows.

manifest.json    the engine, the digests of the weights and of each file, and the agreement of both sides
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seq2attn.engines.base import ExportTarget
from seq2attn.errors import RunError, UserError
from seq2attn.io.files import atomic_dir, read_object, sha256_of, write_json
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.run_directory import RunDirectory

MANIFEST_FILE = "manifest.json"


def weights_digest(run: RunDirectory) -> str:
    """SHA-256 of the weights that translate, as hex.

    Raises RunError when there are none.
    """
    try:
        return sha256_of(run.weights_path)
    except OSError as error:
        raise RunError(
            f"{run.weights_path}: cannot be read ({error.strerror}); train the run, or give another"
        ) from None


@contextmanager
def export_directory(folder: Path) -> Iterator[Path]:
    """An empty folder to write an export into, which takes the place of `folder` when all went well.

    Raises UserError when there is something else in `folder` than an export.
    """
    if folder.exists() and not (folder / MANIFEST_FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: is there, and is no exported model; give another folder, or move it away")
    with atomic_dir(folder) as partial:
        yield partial


def write_manifest(run: RunDirectory, target: ExportTarget, dtype: str, agreement: Any, folder: Path) -> None:
    """Write what an export was made of, and how well both sides agreed."""
    about = {"format": FORMAT_VERSION, "engine": target.name, "dtype": dtype, "weights": weights_digest(run)}
    write_json(folder / MANIFEST_FILE, {**about, "agreement": agreement, "digests": _digests(folder)})


def check_manifest(run: RunDirectory, target: ExportTarget, folder: Path) -> None:
    """Refuse an export that is missing, corrupt, for another engine, or of other weights than the run's.

    Raises RunError with the command that mends it.
    """
    given = "" if folder == run.folder / target.name else f" {folder}"
    fix = f"seq2attn export {run.folder}{given} --to {target.name}"
    if not (folder / MANIFEST_FILE).is_file():
        raise RunError(f"{folder}: holds no exported model; make it: {fix}")
    header = read_object(folder / MANIFEST_FILE, fix)
    check_format(header, folder / MANIFEST_FILE, fix)
    if header.get("engine") != target.name:
        raise RunError(f"{folder}: was exported for the engine {header.get('engine')}, not {target.name}; {fix}")
    if header.get("weights") != weights_digest(run):
        raise RunError(f"{folder}: was made of other weights than {run.weights_path} has now; make it again: {fix}")
    if header.get("digests") != _digests(folder):
        raise RunError(f"{folder}: does not hold what was exported to it; make it again: {fix}")


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder but its manifest, as hex."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST_FILE)
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}

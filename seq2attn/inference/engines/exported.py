"""Folders with exported models, and the engines that load them.

manifest.json    the engine, the digests of the weights and of each file, and the agreement of both engines
README.md        the model card, which the user may edit
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.ctranslate2_engine import load_ctranslate2
from seq2attn.inference.engines.onnx_engine import load_onnx
from seq2attn.io.files import FORMAT_VERSION, check_format, check_not_working_dir, read_object, sha256_of, write_json

MANIFEST_FILE, MODEL_CARD_FILE = "manifest.json", "README.md"


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


def write_manifest(run: RunDirectory, engine: str, dtype: str, agreement: Any, folder: Path) -> None:
    """Write the manifest of an export of the run's weights."""
    header = {"format": FORMAT_VERSION, "engine": engine, "dtype": dtype, "weights": sha256_of(run.weights_path)}
    write_json(folder / MANIFEST_FILE, {**header, "agreement": agreement, "digests": _digests(folder)})


def check_manifest(run: RunDirectory, engine: str, folder: Path) -> None:
    """Refuse an export that is missing, corrupt, for another engine, or of other weights than the run's.

    Raises RunError with the command that exports again.
    """
    places = [str(run.folder)] if folder == run.folder / engine else [str(run.folder), str(folder)]
    fix = shlex.join(["seq2attn", "export", *places, "--to", engine])
    if not (folder / MANIFEST_FILE).is_file():
        raise RunError(f"{folder}: has no exported model; make it: {fix}")
    header = read_object(folder / MANIFEST_FILE, fix)
    check_format(header, folder / MANIFEST_FILE, fix)
    if header.get("engine") != engine:
        raise RunError(f"{folder}: was exported for the engine {header.get('engine')}, not {engine}; {fix}")
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


ENGINES: dict[str, Callable[[RunDirectory, Path, torch.device], Engine]] = {
    "ctranslate2": load_ctranslate2,
    "onnx": load_onnx,
}
"""Loaders of exported models by the name of their engine. `seq2attn/options` lists the names again, so that
`--help` does not import torch."""


def load_exported_engine(run: RunDirectory, name: str, folder: Path | None, device: torch.device) -> Engine:
    """The engine that a run was exported to, from `folder` or from the default folder of `export`.

    Raises UserError for an unknown engine, RunError when the run was not exported, or has been trained since.
    """
    if name not in ENGINES:
        raise UserError(f"there is no engine `{name}`; known: {', '.join(['native', *ENGINES])}")
    folder = folder or run.folder / name
    check_manifest(run, name, folder)
    return ENGINES[name](run, folder, device)

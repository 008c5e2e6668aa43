"""Folders with exported models, and the engine that a run is loaded with.

manifest.json    the engine, the digests of the weights and of each file, and the agreement of both engines
README.md        the model card, which the user may edit
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from seq2attn.config import plugin
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.ctranslate2_engine import load_ctranslate2
from seq2attn.inference.engines.native import NativeEngine, SearchPrecision
from seq2attn.inference.engines.onnx_engine import load_onnx
from seq2attn.io.files import FORMAT_VERSION, check_format, check_not_working_dir, read_object, sha256_of, write_json
from seq2attn.nn.device import resolve_device
from seq2attn.nn.kernels.linear import prepack_linears

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
    argument = "" if folder == run.folder / engine else f" {folder}"
    fix = f"seq2attn export {run.folder}{argument} --to {engine}"
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
"""Loaders of exported models by the name of their engine. `cli/options.py` lists the names again, so that `--help` does
not import torch."""


def load_exported_engine(run: RunDirectory, name: str, folder: Path | None, device: torch.device) -> Engine:
    """The engine that a run was exported to, from `folder` or from the default folder of `export`.

    Raises UserError for an unknown engine, RunError when the run was not exported, or has been trained since.
    """
    if name not in ENGINES:
        raise UserError(f"there is no engine `{name}`; known: {', '.join(['native', *ENGINES])}")
    folder = folder or run.folder / name
    check_manifest(run, name, folder)
    return ENGINES[name](run, folder, device)


@dataclass(frozen=True)
class RunEngine:
    """A run and the arguments that it is loaded with for translation, as `Translator.load` describes them."""

    run: RunDirectory
    digest: str | None  # of the weights
    device: str
    engine: str
    export_dir: Path | None
    precision: SearchPrecision
    allow_code: tuple[str, ...]

    def load(self) -> tuple[LoadedRun, Engine]:
        """The run and the engine. Raises RunError if the weights are others meanwhile."""
        if self.engine == "native" and self.export_dir is not None:
            raise UserError("--export-dir needs --engine ctranslate2 or --engine onnx")
        device = resolve_device(self.device)
        plugin.allow_code(self.allow_code)
        if self.run.weights_digest() != self.digest:
            raise RunError(f"{self.run.weights_path}: is not what the translator was loaded from; load it again")
        # In a thread that ends, and with it its team of OpenMP threads. CTranslate2 uses the same OpenMP, whose threads
        # sleep between two products once they are more than the processors: a single sentence took three times as long.
        with ThreadPoolExecutor(1) as thread:
            loaded = thread.submit(self.run.load, device).result()
        if self.engine == "native":
            prepack_linears(loaded.model)
            return loaded, NativeEngine(loaded.model, self.precision)
        if self.precision != "float32":
            raise UserError(f"`{self.engine}` has the precision that the run was exported with, not `{self.precision}`")
        return loaded, load_exported_engine(self.run, self.engine, self.export_dir, device)

    def absolute(self) -> RunEngine:
        """The same with absolute paths, for another working directory."""
        export_dir = self.export_dir and self.export_dir.absolute()
        return replace(self, run=RunDirectory(self.run.folder.absolute()), export_dir=export_dir)

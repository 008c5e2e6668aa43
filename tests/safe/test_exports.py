"""Exported models that were damaged: CTranslate2 would believe what they say of themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from seq2attn.engines.ctranslate2 import CTranslate2Target
from seq2attn.engines.export_directory import check_manifest, write_manifest
from seq2attn.errors import RunError
from seq2attn.run_directory import RunDirectory
from tests.safe.untrained import CONFIG, untrained

pytest.importorskip("ctranslate2")
OURS = "  encoder: {kind: gru, dim: 8}\n  decoder: {kind: luong, dim: 8}\n"
TRANSFORMER = """\
  encoder: {kind: transformer, layers: 1, heads: 2, ffn_dim: 8}
  decoder:
    {kind: transformer, layers: 1, heads: 2, ffn_dim: 8, attention: {score: {kind: multi-head, heads: 2}}}
"""
TARGET = CTranslate2Target()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and in it an export."""
    folder = tmp_path_factory.mktemp("exported")
    assert OURS in CONFIG
    run = untrained(folder, CONFIG.replace(OURS, TRANSFORMER))
    where = run.folder / TARGET.name
    where.mkdir()
    TARGET.export(run, where, "float32")
    write_manifest(run, TARGET, "float32", {}, where)
    return folder


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(exported, tmp_path / "copy") / "run" / TARGET.name


def test_it_is_sound(exported: Path) -> None:
    run = RunDirectory(exported / "run")
    check_manifest(run, TARGET, run.folder / TARGET.name)
    TARGET.load(run, run.folder / TARGET.name, torch.device("cpu"))


@pytest.mark.parametrize("name", ["model.bin", "config.json", "*_vocabulary.json"])
def test_damage_is_seen(copy: Path, name: str) -> None:
    run, file = RunDirectory(copy.parent), next(copy.glob(name))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="does not hold what was exported to it"):
        check_manifest(run, TARGET, copy)
    file.unlink()
    with pytest.raises(RunError, match="does not hold what was exported to it"):
        check_manifest(run, TARGET, copy)

"""Files of another version are refused, each with its place and with what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.data.prepare import load_prepared
from seq2attn.engines.export_directory import check_manifest
from seq2attn.engines.targets import TARGETS
from seq2attn.errors import RunError
from seq2attn.inference.translator import Translator
from seq2attn.io.format_version import FORMAT_VERSION, check_format
from seq2attn.run_directory import RunDirectory
from seq2attn.sweep.record import read_record
from seq2attn.training.checkpoints.averaging import average_run
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders
from tests.laws.small import corpus, trained
from tests.safe.untrained import untrained

__all__ = ["corpus"]  # a fixture

OTHERS = (None, 0, str(FORMAT_VERSION), True, FORMAT_VERSION + 1, 2**70)
READERS: dict[str, Callable[[RunDirectory], object]] = {
    "run.json": lambda run: Translator.load(run.folder),
    "data/prepared.json": lambda run: load_prepared(run.folder),
    "ctranslate2/manifest.json": lambda run: check_manifest(run, TARGETS["ctranslate2"], run.folder / "ctranslate2"),
    "result.json": lambda run: read_record(run.folder),
}


@pytest.mark.parametrize("found", OTHERS)
@pytest.mark.parametrize("name", READERS)
def test_another_version_is_refused(tmp_path: Path, name: str, found: object) -> None:
    run = untrained(tmp_path)
    path = run.folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({} if found is None else {"format": found}), encoding="utf-8")
    with pytest.raises(RunError) as error:
        READERS[name](run)
    said = f"{path}: is of format {found}, and this seq2attn reads format {FORMAT_VERSION} only; use the seq2attn"
    assert str(error.value).startswith(said)


def test_this_version_is_read() -> None:
    check_format({"format": FORMAT_VERSION}, Path("it"), "")


def test_a_run_of_another_version_is_left_as_it_is(tmp_path: Path, corpus: Path) -> None:
    """Also where its checkpoints cannot be read: they may be sound for the version that wrote them."""
    run = trained(corpus, "run", max_duration=["2 updates"])
    (run.folder / "run.json").write_text('{"format": 99}', encoding="utf-8")
    for folder in checkpoint_folders(run.folder):
        (folder / "train_state.json").write_text("{}", encoding="utf-8")
    before = shutil.copytree(run.folder, tmp_path / "copy")
    for work in (
        lambda: trained(corpus, "run", resume=True, max_duration=["4 updates"]),
        lambda: average_run(run.folder, last=1, best=None),
    ):
        with pytest.raises(RunError, match="is of format 99"):
            work()
    names = [sorted(p.relative_to(r) for p in r.rglob("*")) for r in (before, run.folder)]
    assert {*names[1]} - {*names[0]} <= {Path("run.lock")}
    assert all((run.folder / name).exists() for name in names[0])

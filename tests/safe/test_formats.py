"""Files of another format version are refused, with their place and a fix."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import seq2attn
from seq2attn.data.prepared_data import load_prepared
from seq2attn.errors import RunError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.exported import check_manifest
from seq2attn.io.files import FORMAT_VERSION, check_format
from seq2attn.sweep.record import read_record
from seq2attn.training.checkpoints.averaging import average_run
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders
from tests.support.trainings import train_run
from tests.support.untrained_runs import untrained_run

READERS: dict[str, Callable[[RunDirectory], object]] = {
    "run.json": lambda run: seq2attn.load(run.folder),
    "data/prepared.json": lambda run: load_prepared(run.folder),
    "ctranslate2/manifest.json": lambda run: check_manifest(run, "ctranslate2", run.folder / "ctranslate2"),
    "result.json": lambda run: read_record(run.folder),
}


@pytest.mark.parametrize("name", READERS)
def test_another_version_is_refused(tmp_path: Path, name: str) -> None:
    run = untrained_run(tmp_path)
    path = run.folder / name
    path.parent.mkdir(exist_ok=True)
    for version in (None, 0, str(FORMAT_VERSION), True, FORMAT_VERSION + 1, 2**70):
        path.write_text(json.dumps({} if version is None else {"format": version}), encoding="utf-8")
        with pytest.raises(RunError) as error:
            READERS[name](run)
        assert str(error.value).startswith(f"{path}: ") and f"format {version}" in str(error.value)
    check_format({"format": FORMAT_VERSION}, path, "")


def test_a_run_of_another_version_is_not_changed(tmp_path: Path, corpus: Path) -> None:
    """Even if its checkpoints cannot be read: they may be valid in that version."""
    run = train_run(corpus, "run", max_duration=["2 updates"])
    (run.folder / "run.json").write_text('{"format": 99}', encoding="utf-8")
    for folder in checkpoint_folders(run.folder):
        (folder / "train_state.json").write_text("{}", encoding="utf-8")
    before = shutil.copytree(run.folder, tmp_path / "copy")
    with pytest.raises(RunError, match="format 99"):
        train_run(corpus, "run", resume=True, max_duration=["4 updates"])
    with pytest.raises(RunError, match="format 99"):
        average_run(run.folder, last=1, best=None)
    names, names_now = ({p.relative_to(root) for p in root.rglob("*")} for root in (before, run.folder))
    assert names <= names_now <= names | {Path("run.lock")}

"""Files of a run of another format version, and weights that are not those of its model, are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch

import seq2attn
from seq2attn.data.prepared_data import load_prepared
from seq2attn.errors import RunError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.exported import check_manifest
from seq2attn.io.files import FORMAT_VERSION, check_format
from seq2attn.io.weights import METADATA_KEY, is_corrupt, load_tensors, save_tensors
from seq2attn.sweep.record import read_record
from seq2attn.training.checkpoints.averaging import average
from seq2attn.training.checkpoints.checkpoint import checkpoint_folders
from tests.support.trainings import train_run
from tests.support.untrained_runs import untrained_run

BIAS = "output_projection.bias"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained_run(tmp_path)


def loading_error(run: RunDirectory) -> str:
    """The message about a run that cannot be loaded, which names the file of weights."""
    with pytest.raises(RunError) as error:
        seq2attn.load(run.folder)
    assert str(error.value).startswith(f"{run.weights_path}: ")
    return str(error.value)


def test_weights_of_other_models_are_refused(run: RunDirectory) -> None:
    """Valid files, with the digest of their content."""
    tensors = load_tensors(run.weights_path)
    cases: list[tuple[dict[str, torch.Tensor | None], str]] = [
        ({BIAS: None}, f"lacks `{BIAS}`"),
        ({"more": torch.zeros(3)}, "has `more`, which the model of the config lacks"),
        ({BIAS: torch.zeros(3, 5)}, f"`{BIAS}` is 3 x 5, and 13 in the model"),
        ({BIAS: torch.zeros(13, dtype=torch.bfloat16)}, f"`{BIAS}` is of BF16, and of F32 in the model"),
        ({BIAS: torch.zeros(13, dtype=torch.int64)}, f"`{BIAS}` is of I64"),
    ]
    for number in ("nan", "inf", "-inf"):
        nonfinite = tensors[BIAS].index_fill(0, torch.tensor([3]), float(number))
        cases.append(({BIAS: nonfinite}, f"`{BIAS}` has values that are NaN or infinite"))
    for changes, message in cases:
        changed = {name: tensor for name, tensor in {**tensors, **changes}.items() if tensor is not None}
        save_tensors(changed, run.weights_path)
        assert message in loading_error(run)
    save_tensors(tensors, run.weights_path)
    seq2attn.load(run.folder)


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(3, dtype=torch.int64)}
    metadata = {name: f'{name} "ä\u2028\x01\x7f\\/' for name in ("source", "target", "origin", "one", "two", "three")}
    for number in range(3):
        save_tensors(tensors, tmp_path / str(number), metadata)
    assert len({(tmp_path / str(number)).read_bytes() for number in range(3)}) == 1
    assert load_tensors(tmp_path / "2")["b"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_invalid_metadata_is_refused(run: RunDirectory) -> None:
    tensors = load_tensors(run.weights_path)
    for tokens in ([1], {}, "<pad>", ["<pad>"], ["\ud800"], None):
        save_tensors(tensors, run.weights_path, {"source": tokens})
        loading_error(run)
    for text in ("[", "{", "[" * 9999, "[]", '{"origin": []}'):
        safetensors.torch.save_file(tensors, run.weights_path, {METADATA_KEY: text})
        loading_error(run)
        assert is_corrupt(run.weights_path)  # so that a training resumes from the checkpoint before
        with pytest.raises(RunError, match=str(run.weights_path)):
            run.weights_origin()


@pytest.mark.parametrize("forged", ["dim: 9223372036854775806", "dim: 1000000", "dim: 16"])
def test_a_config_of_a_larger_model_is_refused(run: RunDirectory, forged: str) -> None:
    """Before memory is allocated, which would fail, or take minutes."""
    config = run.config_path.read_text(encoding="utf-8")
    assert "dim: 8" in config
    run.config_path.write_text(config.replace("dim: 8", forged), encoding="utf-8")
    loading_error(run)


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
        average(run.folder, last=1, best=None)
    names, names_now = ({p.relative_to(root) for p in root.rglob("*")} for root in (before, run.folder))
    assert names <= names_now <= names | {Path("run.lock")}

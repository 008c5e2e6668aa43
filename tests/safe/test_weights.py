"""Forged files of weights: wrong headers, lengths, shapes, types and models."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2attn.errors import RunError
from seq2attn.inference.translator import Translator
from seq2attn.io.weights import METADATA_KEY, load_tensors, save_tensors
from seq2attn.run_directory import RunDirectory
from tests.safe.untrained import forge, read_header, untrained

FIRST, SECOND = "output_projection.bias", "output_projection.weight"
Header = dict[str, Any]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained(tmp_path)


def refused(run: RunDirectory) -> str:
    """The message about a run that cannot be loaded, which names the file of weights."""
    with pytest.raises(RunError) as error:
        Translator.load(run.folder)
    assert str(error.value).startswith(f"{run.weights_path}: ")
    return str(error.value)


def overlap(header: Header) -> None:
    header[FIRST]["data_offsets"] = header[SECOND]["data_offsets"][:1] * 2
    header[FIRST]["data_offsets"][1] += 4 * header[FIRST]["shape"][0]


def exceed_the_file(header: Header) -> None:
    last = max(header, key=lambda name: header[name].get("data_offsets", [0, 0])[1])
    header[last]["data_offsets"][1] += 4
    header[last]["shape"] = [(header[last]["data_offsets"][1] - header[last]["data_offsets"][0]) // 4]


CHANGES: dict[str, Callable[[Header], object]] = {
    "overlap": overlap,
    "beyond the end": exceed_the_file,
    "reversed offsets": lambda header: header[FIRST]["data_offsets"].reverse(),
    "huge": lambda header: header[FIRST].update(shape=[2**60], data_offsets=[0, 2**62]),
    "overflow": lambda header: header[FIRST].update(shape=[2**32, 2**32, 13]),
    "too small": lambda header: header[FIRST].update(shape=[1]),
    "unknown type": lambda header: header[FIRST].update(dtype="OBJECT"),
    "no text": lambda header: header.update(__metadata__={"source": [1, 2]}),
}


def test_forged_and_truncated_files_are_refused(run: RunDirectory) -> None:
    header, data = read_header(run.weights_path)
    for change in CHANGES.values():
        forged = json.loads(json.dumps(header))
        change(forged)
        forge(run.weights_path, forged, data)
        assert "the weights cannot be read" in refused(run)
    for length in (0, 1, 2**31, 2**64 - 1):
        forge(run.weights_path, header, data, length)
        assert "the weights cannot be read" in refused(run)
    for text in (b"", b"[]", b"\xff\xfe", b'{"a":' * 10_000, b"[" * 10_000):
        forge(run.weights_path, text, b"")
        assert "the weights cannot be read" in refused(run)
    forge(run.weights_path, header, data)
    content = run.weights_path.read_bytes()
    for size in (4, 100, -1):
        run.weights_path.write_bytes(content[:size])
        assert "the weights cannot be read" in refused(run)


def test_pickles_are_not_loaded(run: RunDirectory, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "it ran",)

    for is_old in (True, False):
        content = io.BytesIO()
        torch.save(Evil(), content, _use_new_zipfile_serialization=not is_old)
        run.weights_path.write_bytes(content.getvalue())
        assert "the weights cannot be read" in refused(run)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(S'true'\ntR.")
    run.weights_path.write_bytes(content.getvalue())
    refused(run)
    assert not (tmp_path / "it ran").exists()


def test_weights_of_other_models_are_refused(run: RunDirectory) -> None:
    """Valid files, with the digest of their content."""
    tensors = load_tensors(run.weights_path)
    bias = tensors[FIRST]
    cases: list[tuple[dict[str, torch.Tensor | None], str]] = [
        ({FIRST: None}, f"lacks `{FIRST}`"),
        ({"more": torch.zeros(3)}, "holds `more`, which the model has not"),
        ({FIRST: torch.zeros(3, 5)}, f"`{FIRST}` is 3 x 5, and 13 in the model"),
    ]
    for dtype in (torch.float64, torch.bfloat16, torch.int64):
        cases.append(({FIRST: torch.zeros(13, dtype=dtype)}, f"`{FIRST}` is of "))
    for number in ("nan", "inf", "-inf"):
        nonfinite = bias.index_fill(0, torch.tensor([3]), float(number))
        cases.append(({FIRST: nonfinite}, f"`{FIRST}` has values that are NaN or infinite"))
    for changes, message in cases:
        changed = {name: tensor for name, tensor in {**tensors, **changes}.items() if tensor is not None}
        save_tensors(changed, run.weights_path)
        assert message in refused(run)
    save_tensors(tensors, run.weights_path)
    Translator.load(run.folder)


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(3, dtype=torch.int64)}
    metadata = {name: f'{name} "ä\u2028\x01\x7f\\/' for name in ("source", "target", "origin", "one", "two", "three")}
    for number in range(3):
        save_tensors(tensors, tmp_path / str(number), metadata)
    assert len({(tmp_path / str(number)).read_bytes() for number in range(3)}) == 1
    assert load_tensors(tmp_path / "2")["b"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_invalid_metadata_is_refused(run: RunDirectory) -> None:
    tensors = load_tensors(run.weights_path)
    header, data = read_header(run.weights_path)
    for tokens in ([1], {}, "<pad>", ["<pad>"], ["\ud800"], None):
        save_tensors(tensors, run.weights_path, {"source": tokens})
        refused(run)
    for text in ("[", "{", "[" * 9999, "[]", '{"origin": []}'):
        forge(run.weights_path, {**header, "__metadata__": {METADATA_KEY: text}}, data)
        refused(run)
        with pytest.raises(RunError, match=str(run.weights_path)):
            run.weights_origin()
    assert json.loads(run.weights_info_path.read_text(encoding="utf-8"))["origin"] == {"checkpoints": []}


@pytest.mark.parametrize("forged", ["dim: 1000000000", "dim: 3037000500", "dim: 9223372036854775806", "dim: 16"])
def test_a_config_of_a_larger_model_is_refused(run: RunDirectory, forged: str) -> None:
    """Before memory is allocated: a model of that size would take minutes to build, or fail."""
    config = run.config_path.read_text(encoding="utf-8")
    assert "dim: 8" in config
    run.config_path.write_text(config.replace("dim: 8", forged), encoding="utf-8")
    refused(run)


LIMITED = """
import resource, sys
from pathlib import Path
from seq2attn.errors import UserError
from seq2attn.inference.translator import Translator
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
resource.setrlimit(resource.RLIMIT_AS, (int(status["VmSize"].split()[0]) * 1024 + 2**29,) * 2)
for run in sys.argv[1:]:
    try:
        Translator.load(run)
    except UserError as error:
        print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc of Linux")
def test_memory_is_not_exhausted(tmp_path: Path) -> None:
    """In a process with half a gigabyte above its memory after all imports."""
    wide, huge, long = runs = [untrained(tmp_path / name) for name in ("wide", "huge", "long")]
    config = wide.config_path.read_text(encoding="utf-8")
    wide.config_path.write_text(config.replace("dim: 8", "dim: 1000000"), encoding="utf-8")
    header, data = read_header(huge.weights_path)
    bias = {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}
    forge(huge.weights_path, {**header, FIRST: bias}, data)
    forge(long.weights_path, header, data, 2**40)
    command = [sys.executable, "-c", LIMITED, *(str(run.folder) for run in runs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    for line, run in zip(done.stdout.splitlines(), runs, strict=True):
        assert line.startswith(f"{run.weights_path}: ")

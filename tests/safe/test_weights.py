"""Weights that lie: about their length, their shapes, their types, the model that they are of."""

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
from seq2attn.io.weights import METADATA_KEY, load_tensors, save_tensors, unique_state_dict
from seq2attn.run_directory import RunDirectory
from tests.safe.untrained import forge, read_header, untrained

FIRST, SECOND = "output_projection.bias", "output_projection.weight"
Head = dict[str, Any]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return untrained(tmp_path)


def refused(run: RunDirectory) -> str:
    """What is said of a run that cannot be loaded; it names the file of weights."""
    with pytest.raises(RunError) as error:
        Translator.load(run.folder)
    assert str(error.value).startswith(f"{run.weights_path}: ")
    return str(error.value)


def overlapping(head: Head) -> None:
    head[FIRST]["data_offsets"] = head[SECOND]["data_offsets"][:1] * 2
    head[FIRST]["data_offsets"][1] += 4 * head[FIRST]["shape"][0]


def beyond(head: Head) -> None:
    last = max(head, key=lambda name: head[name].get("data_offsets", [0, 0])[1])
    head[last]["data_offsets"][1] += 4
    head[last]["shape"] = [(head[last]["data_offsets"][1] - head[last]["data_offsets"][0]) // 4]


def far_beyond(head: Head) -> None:
    head[FIRST] = {"dtype": "F32", "shape": [2**60], "data_offsets": [0, 2**62]}


def backwards(head: Head) -> None:
    head[FIRST]["data_offsets"].reverse()


def negative(head: Head) -> None:
    head[FIRST]["data_offsets"][0] = -4


def fraction(head: Head) -> None:
    head[FIRST]["shape"] = [1.5]


def overflow(head: Head) -> None:
    head[FIRST]["shape"] = [2**32, 2**32, 13]


def too_few_numbers(head: Head) -> None:
    head[FIRST]["shape"] = [1]


def unknown_type(head: Head) -> None:
    head[FIRST]["dtype"] = "OBJECT"


def no_offsets(head: Head) -> None:
    del head[FIRST]["data_offsets"]


def no_text(head: Head) -> None:
    head["__metadata__"] = {"source": [1, 2]}


@pytest.mark.parametrize(
    "change",
    [
        *(overlapping, beyond, far_beyond, backwards, negative, fraction, overflow, too_few_numbers),
        *(unknown_type, no_offsets, no_text),
    ],
)
def test_forged_heads(run: RunDirectory, change: Callable[[Head], None]) -> None:
    head, rest = read_header(run.weights_path)
    change(head)
    forge(run.weights_path, head, rest)
    assert "the weights cannot be read" in refused(run)


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**60, 2**63, 2**64 - 1])
def test_forged_lengths(run: RunDirectory, length: int) -> None:
    head, rest = read_header(run.weights_path)
    forge(run.weights_path, head, rest, length)
    assert "the weights cannot be read" in refused(run)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 10_000, b"[" * 10_000, b'{"' + b"a" * 10_000]
)
def test_heads_that_are_none(run: RunDirectory, text: bytes) -> None:
    forge(run.weights_path, text, b"")
    assert "the weights cannot be read" in refused(run)


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1])
def test_torn(run: RunDirectory, kept: int) -> None:
    run.weights_path.write_bytes(run.weights_path.read_bytes()[:kept])
    assert "the weights cannot be read" in refused(run)


def test_pickles_under_another_name(run: RunDirectory, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "it ran",)

    for old in (True, False):
        content = io.BytesIO()
        torch.save(Evil(), content, _use_new_zipfile_serialization=not old)
        run.weights_path.write_bytes(content.getvalue())
        assert "the weights cannot be read" in refused(run)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(S'true'\ntR.")
    run.weights_path.write_bytes(content.getvalue())
    refused(run)
    assert not (tmp_path / "it ran").exists()


class TestOtherModels:
    """Sound files, but of another model."""

    def changed(self, run: RunDirectory, **changes: torch.Tensor | None) -> None:
        """Other tensors, with the digest that they have."""
        tensors = {**load_tensors(run.weights_path), **changes}
        save_tensors({name: tensor for name, tensor in tensors.items() if tensor is not None}, run.weights_path)

    def test_a_tensor_is_missing(self, run: RunDirectory) -> None:
        self.changed(run, **{FIRST: None})
        assert f"lacks `{FIRST}`" in refused(run)

    def test_a_tensor_too_many(self, run: RunDirectory) -> None:
        self.changed(run, more=torch.zeros(3))
        assert "holds `more`, which the model has not" in refused(run)

    def test_another_shape(self, run: RunDirectory) -> None:
        self.changed(run, **{FIRST: torch.zeros(3, 5)})
        assert f"`{FIRST}` is 3 x 5, and 13 in the model" in refused(run)

    @pytest.mark.parametrize("type_", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool])
    def test_another_type(self, run: RunDirectory, type_: torch.dtype) -> None:
        self.changed(run, **{FIRST: torch.zeros(13, dtype=type_)})
        assert f"`{FIRST}` is of " in refused(run)

    @pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
    def test_no_number(self, run: RunDirectory, number: str) -> None:
        bias = load_tensors(run.weights_path)[FIRST]
        bias[3] = float(number)
        self.changed(run, **{FIRST: bias})
        assert f"`{FIRST}` has values that are NaN or infinite" in refused(run)

    def test_the_same(self, run: RunDirectory) -> None:
        expected = unique_state_dict(Translator.load(run.folder).model)
        self.changed(run)
        assert [*expected] == [*unique_state_dict(Translator.load(run.folder).model)]

    @pytest.mark.parametrize("tokens", [[1], {}, "<pad>", ["<pad>"], ["\ud800"], None])
    def test_no_vocabulary(self, run: RunDirectory, tokens: object) -> None:
        save_tensors(load_tensors(run.weights_path), run.weights_path, {"source": tokens})
        refused(run)


FORGED = {
    "dim: 8": ["dim: 1000000000", "dim: 3037000500", "dim: 9223372036854775806", "dim: 16"],
    "layers: 1": ["layers: 2"],
}


@pytest.mark.parametrize(("said", "forged"), [(said, forged) for said, others in FORGED.items() for forged in others])
def test_a_config_of_a_model_that_would_not_fit(run: RunDirectory, said: str, forged: str) -> None:
    """Before memory is taken: a model of that size would be built for minutes, or not at all."""
    config = run.config_path.read_text(encoding="utf-8")
    assert said in config
    run.config_path.write_text(config.replace(said, forged), encoding="utf-8")
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


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="tells by Linux's /proc what memory is taken")
def test_memory_is_not_exhausted(tmp_path: Path) -> None:
    """In a process that may have half a gigabyte more than it has when all is imported."""
    wide, huge, long = (untrained(tmp_path / name) for name in ("wide", "huge", "long"))
    wide.config_path.write_text(
        wide.config_path.read_text(encoding="utf-8").replace("dim: 8", "dim: 1000000"), encoding="utf-8"
    )
    head, rest = read_header(huge.weights_path)
    forge(
        huge.weights_path,
        {**head, FIRST: {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        rest,
    )
    forge(long.weights_path, head, rest, 2**40)
    command = [sys.executable, "-c", LIMITED, *(str(run.folder) for run in (wide, huge, long))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    for line, run in zip(done.stdout.splitlines(), (wide, huge, long), strict=True):
        assert line.startswith(f"{run.weights_path}: ")


def test_what_a_file_says_of_its_origin(run: RunDirectory) -> None:
    head, rest = read_header(run.weights_path)
    for text in ("[", "{", "[" * 9999, "[]", '{"origin": []}'):
        forge(run.weights_path, {**head, "__metadata__": {METADATA_KEY: text}}, rest)
        refused(run)
        with pytest.raises(RunError, match=str(run.weights_path)):
            run.weights_origin()
    assert json.loads(run.weights_info_path.read_text(encoding="utf-8"))["origin"] == {"checkpoints": []}

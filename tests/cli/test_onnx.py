"""Export to ONNX, and its engine, from the command line; corrupt and forged exports are refused."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import onnx
import pytest

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.exported import write_manifest
from tests.support.commands import Done, Invoke, invoke_in
from tests.support.untrained_runs import CONFIG, untrained_run

ENGINE = ("--engine", "onnx")
BRANCHING = """
import seq2attn
from seq2attn.encoders.base import Encoder, EncoderOutput


class BranchingEncoder(Encoder):
    class Config(seq2attn.Config):
        kind: str

        def build(self, input_dim):
            encoder = BranchingEncoder()
            encoder.key_dim = encoder.value_dim = encoder.final_dim = input_dim
            return encoder

    def forward(self, embedded, sequences, *, need_weights=False):
        if embedded.sum() > 0:
            embedded = -embedded
        return EncoderOutput(embedded, embedded, sequences.mask, (embedded[:, :1],))
"""


@pytest.fixture(scope="module")
def exported_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A run that was exported with int8 weights, and the output of `export`."""
    folder = tmp_path_factory.mktemp("exported")
    untrained_run(folder, CONFIG.replace("kind: gru", "kind: lstm"))  # the only RNN with an int8 operator
    return folder / "run", invoke_in(folder, "export", "run", "--to", "onnx", "--quantization", "int8")


@pytest.mark.slow
def test_int8_export(exported_run: tuple[Path, Done], invoke: Invoke) -> None:
    run, done = exported_run
    assert [line.split()[0] for line in done.out.splitlines()] == ["search", "greedy", "beam", "forced"]
    assert done.err == "exported to run/onnx\n"  # and no warnings of the exporter
    folder = run / "onnx"
    tokenizers = {"source", "target"}  # of words, which have no program
    assert {path.name for path in folder.iterdir()} == {
        "encode.onnx", "step.onnx", "manifest.json", "README.md", *tokenizers
    }  # fmt: skip
    agreement = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["agreement"]
    assert 0 < agreement["mean_forced_difference"] < 0.5
    for name in ("encode.onnx", "step.onnx"):
        weights = onnx.load(folder / name).graph.initializer
        assert any(weight.data_type == onnx.TensorProto.INT8 for weight in weights)
    translated = invoke("translate", run, *ENGINE, "--json", "--n-best", "2", given=b"a few words\n\nmany\n")
    assert len(translated.out.splitlines()) == 3
    report = json.loads(invoke("evaluate", run, *ENGINE, "--json").out)
    assert (report["engine"], report["sets"]["ours"]["sentences"]) == ("onnx int8", 3)


def truncate(folder: Path) -> None:
    content = (folder / "step.onnx").read_bytes()
    (folder / "step.onnx").write_bytes(content[: len(content) // 2])


def exchange(folder: Path) -> None:
    (folder / "encode.onnx").write_bytes((folder / "step.onnx").read_bytes())


def read_outside(folder: Path) -> None:
    model = onnx.load(folder / "encode.onnx")
    weight = max(model.graph.initializer, key=lambda weight: len(weight.raw_data))
    (folder.parent / "secret").write_bytes(weight.raw_data)
    onnx.external_data_helper.set_external_data(weight, "../secret")
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    (folder / "encode.onnx").write_bytes(model.SerializeToString())


CORRUPTIONS = {
    truncate: r"step\.onnx: .*ONNXRuntimeError.*",
    exchange: "encode.onnx and step.onnx do not fit together; export the run again",
    read_outside: r"encode\.onnx: .*ONNXRuntimeError.*escapes.*",
}


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
@pytest.mark.slow
def test_a_corrupt_or_forged_export_is_refused(
    exported_run: tuple[Path, Done], invoke: Invoke, tmp_path: Path, corrupt: Callable[[Path], None]
) -> None:
    run = RunDirectory(Path(copytree(exported_run[0], tmp_path / "run")))
    folder = run.folder / "onnx"
    corrupt(folder)
    error = invoke("translate", run.folder, *ENGINE, "many", code=2).err
    assert "does not hold what was exported to it; make it again: seq2attn export" in error
    (folder / "manifest.json").unlink()
    write_manifest(run, "onnx", "int8", {}, folder)  # as who forges an export does
    error = invoke("translate", run.folder, *ENGINE, "many", code=2).err
    assert re.fullmatch(rf".*{CORRUPTIONS[corrupt]}\n", error)  # one line


def test_a_component_that_cannot_be_exported_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "branching.py").write_text(BRANCHING, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        untrained_run(tmp_path, CONFIG.replace("{kind: gru, dim: 8}", "{kind: branching:BranchingEncoder}"))
    finally:
        sys.path.remove(str(tmp_path))
    error = invoke_in(tmp_path, "export", "run", "--to", "onnx", "--allow-code", "branching", code=2).err
    assert re.match(
        r"run/config\.yaml:\d+:\d+: `model\.encoder\.kind`: this encoder cannot be exported to onnx: \w", error
    )
    assert not [path for path in (tmp_path / "run").iterdir() if "onnx" in path.name]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    untrained_run(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)  # as if it were not installed
    error = invoke_in(tmp_path, "export", "run", "--to", "onnx", code=2).err
    assert error.splitlines()[-1].endswith("needs the package `onnxscript`: pip install 'seq2attn[onnx]'")

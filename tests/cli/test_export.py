"""A trained run is exported, and translates as before."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, Done, Invoke, invoke_in, write_toy
from tests.safe.untrained import untrained

MODEL = """\
  encoder: {kind: transformer, layers: 1, heads: 4, ffn_dim: 64}
  decoder:
    kind: transformer
    layers: 1
    heads: 4
    ffn_dim: 64
    attention: {score: {kind: multi-head, heads: 4}}
"""
ENGINE = ("--engine", "ctranslate2")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A trained Transformer, exported: its run, and the output of `export`."""
    folder = tmp_path_factory.mktemp("exported")
    config = re.sub(r"  encoder: .*\n  decoder: .*\n", MODEL, CONFIG)
    for old, new in (("200 updates", "240 updates"), ("lr: 0.01", "lr: 0.008"), ("every: 50", "every: 120")):
        assert old in config
        config = config.replace(old, new)
    write_toy(folder, config)
    invoke_in(folder, "train", "toy.yaml", "--set", "training.validation.metric=loss")
    done = invoke_in(folder, "export", "runs/toy", "--to", "ctranslate2", "--verify-with", "text/short.de")
    return folder / "runs/toy", done


def test_the_report(exported: tuple[Path, Done]) -> None:
    run, done = exported
    header, greedy, beam, forced = done.out.splitlines()
    assert header.split()[:4] == ["search", "sentences", "tokens", "same"]
    assert greedy.split()[:4] == ["greedy", "20", "100.00%", "100.0%"]
    assert beam.split()[:2] == ["beam", "5"] and float(beam.split()[3].rstrip("%")) >= 99
    assert forced.startswith("forced")
    assert done.err == "exported to runs/toy/ctranslate2\n"
    assert json.loads((run / "ctranslate2" / "manifest.json").read_text(encoding="utf-8"))["agreement"]


@pytest.mark.parametrize("search", [["--greedy"], [], ["--beam", "6", "--n-best", "2"]])
def test_the_engine_translates_the_same(exported: tuple[Path, Done], invoke: Invoke, search: list[str]) -> None:
    run, _ = exported
    text = run.parents[1] / "text"
    lines = b"".join((text / f"{name}.de").read_bytes() for name in ("short", "dev")) + b"\n  \nrot haus\n"
    command = ["translate", run, "--json", *search]
    native, exported_lines = (invoke(*command, *engine, given=lines).out.splitlines() for engine in ([], ENGINE))
    assert len(native) == len(exported_lines) == 35
    for one, other in zip(map(json.loads, native), map(json.loads, exported_lines), strict=True):
        assert other["text"] == one["text"] and other["tokens"] == one["tokens"]
        assert other["score"] == pytest.approx(one["score"], abs=1e-4)
    assert invoke("translate", run, *ENGINE, "rot haus").out == "red house\n"


def test_other_commands_with_the_engine(exported: tuple[Path, Done], invoke: Invoke) -> None:
    run, _ = exported
    native, engine = (json.loads(invoke("evaluate", run, "--json", *options).out) for options in ([], ENGINE))
    assert engine["sets"]["short"]["scores"] == native["sets"]["short"]["scores"]
    assert engine["sets"]["mixed"]["sentences"] == 60
    assert (native["engine"], engine["engine"]) == ("native float32", "ctranslate2 float32")
    attention = ["translate", run, "rot haus", "--attention", "-"]  # of the native model
    assert invoke(*attention, *ENGINE).out == invoke(*attention).out


def test_an_export_is_found_elsewhere_and_refused_after_changes(
    exported: tuple[Path, Done], invoke: Invoke, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(exported[0], tmp_path / "copy"))
    (copy / "ctranslate2").rename(tmp_path / "elsewhere")
    error = invoke("translate", copy, *ENGINE, "rot haus", code=2).err
    assert f"has no exported model; make it: seq2attn export {copy} --to ctranslate2" in error
    elsewhere = (*ENGINE, "--export-dir", tmp_path / "elsewhere")
    assert invoke("translate", copy, *elsewhere, "rot haus").out == "red house\n"
    invoke("average", copy, "--last", "2")
    error = invoke("translate", copy, *elsewhere, "rot haus", code=2).err
    assert "was made from other weights" in error and f"export {copy} {tmp_path / 'elsewhere'} --to" in error
    invoke("export", copy, tmp_path / "elsewhere", "--to", "ctranslate2", "--quantization", "int8")
    assert invoke("translate", copy, *elsewhere, "rot haus").out == "red house\n"


def test_unsupported_options_have_a_place(exported: tuple[Path, Done], invoke: Invoke, tmp_path: Path) -> None:
    run, _ = exported
    option = ("--set", "search.lengths.min_length_ratio=0.5")
    error = invoke("translate", run, *ENGINE, *option, "rot", "-o", "out", code=2).err
    assert error.startswith("<command line>:1:33: `search.lengths.min_length_ratio`: ctranslate2 ")
    assert [*tmp_path.iterdir()] == []
    error = invoke("evaluate", run, *ENGINE, "--set", "search={kind: sample}", code=2).err
    assert "`search.kind`: ctranslate2 samples without `search.seed`" in error
    error = invoke("export", untrained(tmp_path).folder, "exported", "--to", "ctranslate2", code=2).err
    assert re.match(r".*config\.yaml:\d+:\d+: `model\.encoder\.kind`: ctranslate2 has no encoder `gru`", error)
    assert "`model.decoder.kind`: ctranslate2 has no decoder `luong`" in error and "2 mistakes in" in error
    assert not Path("exported").exists()
    error = invoke("translate", run, "--engine", "onnx", "rot", code=2).err
    assert "there is no engine `onnx`; known: native, " in error


def test_long_lines_are_split_alike(exported: tuple[Path, Done], invoke: Invoke) -> None:
    run, _ = exported
    text = "rot haus. " * 3 + "und boot\n\n" + "alt " * 3000 + "\n"
    short = ["--greedy", "--set", "search.lengths.max_length=20"]
    limit = ["--set", "search.lengths.max_source_length=5"]
    native, engine = (
        invoke("translate", run, *short, *limit, *options, given=text.encode()) for options in ([], ENGINE)
    )
    assert (native.out, native.err) == (engine.out, engine.err)
    assert native.out.count("\n") == 3 and "translated in" in native.err
    limit = ["--set", "search.lengths.max_source_length=9999"]
    whole = invoke("translate", run, *short, *limit, *ENGINE, given=text.encode())
    assert whole.out.count("\n") == 3
    assert "tokens, and the engine takes no more than 2,047; translated in" in whole.err

"""A trained run is exported, and translates as before."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import CONFIG, Done, Invoke, Toy, invoke_in, write_toy

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
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Done]:
    """The toy as a Transformer, exported: its folder, its run, and what `export` said."""
    folder = tmp_path_factory.mktemp("exported")
    config = re.sub(r"  encoder: .*\n  decoder: .*\n", MODEL, CONFIG)
    config = config.replace("200 updates", "400 updates").replace("lr: 0.01", "lr: 0.005")
    write_toy(folder, config)
    invoke_in(folder, "train", "toy.yaml")
    done = invoke_in(folder, "export", "runs/toy", "--to", "ctranslate2", "--verify-with", "text/short.de")
    return folder, folder / "runs/toy", done


def test_what_export_says(exported: tuple[Path, Path, Done]) -> None:
    _, run, done = exported
    head, greedy, beam, forced = done.out.splitlines()
    assert head.split()[:4] == ["search", "sentences", "tokens", "same"]
    assert greedy.split()[:4] == ["greedy", "20", "100.00%", "100.0%"]
    assert beam.split()[:2] == ["beam", "5"] and float(beam.split()[3].rstrip("%")) >= 99
    assert forced.startswith("forced")
    assert done.err == "exported to runs/toy/ctranslate2\n"
    assert json.loads((run / "ctranslate2" / "manifest.json").read_text(encoding="utf-8"))["agreement"]


@pytest.mark.parametrize("search", [["--greedy"], [], ["--beam", "6", "--n-best", "2"]])
def test_the_engine_translates_the_same(exported: tuple[Path, Path, Done], invoke: Invoke, search: list[str]) -> None:
    folder, run, _ = exported
    given = b"".join((folder / f"text/{name}.de").read_bytes() for name in ("short", "dev")) + b"\n  \nrot haus\n"
    command = ["translate", run, "--json", *search]
    ours, theirs = (invoke(*command, *engine, given=given).out.splitlines() for engine in ([], ENGINE))
    assert len(ours) == len(theirs) == 35
    for one, other in zip(map(json.loads, ours), map(json.loads, theirs), strict=True):
        assert other["text"] == one["text"] and other["tokens"] == one["tokens"]
        assert other["score"] == pytest.approx(one["score"], abs=1e-4)
    assert invoke("translate", run, *ENGINE, "rot haus").out == "red house\n"


def test_the_engine_is_evaluated(exported: tuple[Path, Path, Done], invoke: Invoke) -> None:
    _, run, _ = exported
    ours, theirs = (json.loads(invoke("evaluate", run, "--json", *engine).out) for engine in ([], ENGINE))
    assert theirs["sets"]["short"]["scores"] == ours["sets"]["short"]["scores"]
    assert theirs["sets"]["mixed"]["sentences"] == 60


def test_attention_is_drawn_by_our_own_model(exported: tuple[Path, Path, Done], invoke: Invoke) -> None:
    _, run, _ = exported
    command = ["translate", run, "rot haus", "--attention", "-"]
    assert invoke(*command, *ENGINE).out == invoke(*command).out


def test_a_copy_elsewhere_and_one_too_old(exported: tuple[Path, Path, Done], invoke: Invoke, tmp_path: Path) -> None:
    _, run, _ = exported
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    (copy / "ctranslate2").rename(tmp_path / "elsewhere")
    said = invoke("translate", copy, *ENGINE, "rot haus", code=2).err
    assert f"holds no exported model; make it: seq2attn export {copy} --to ctranslate2" in said
    moved = (*ENGINE, "--export-dir", tmp_path / "elsewhere")
    assert invoke("translate", copy, *moved, "rot haus").out == "red house\n"
    invoke("average", copy, "--last", "2")
    said = invoke("translate", copy, *moved, "rot haus", code=2).err
    assert "was made of other weights" in said and f"export {copy} {tmp_path / 'elsewhere'} --to" in said
    invoke("export", copy, tmp_path / "elsewhere", "--to", "ctranslate2", "--quantization", "int8")
    assert invoke("translate", copy, *moved, "rot haus").out == "red house\n"


def test_what_cannot_be_has_a_place(
    exported: tuple[Path, Path, Done], toy: Toy, invoke: Invoke, tmp_path: Path
) -> None:
    _, run, _ = exported
    said = invoke(
        "translate", run, *ENGINE, "--set", "search.lengths.min_length_ratio=0.5", "rot", "-o", "out", code=2
    ).err
    assert said.startswith("<command line>:1:33: `search.lengths.min_length_ratio`: ctranslate2 ")
    assert [*tmp_path.iterdir()] == []
    said = invoke("evaluate", run, *ENGINE, "--set", "search={kind: sample}", code=2).err
    assert "`search.kind`: ctranslate2 samples without `search.seed`" in said
    said = invoke("export", toy.run, "exported", "--to", "ctranslate2", code=2).err
    assert re.match(r".*config\.yaml:\d+:\d+: `model\.encoder\.kind`: ctranslate2 has no encoder `gru`", said)
    assert "`model.decoder.kind`: ctranslate2 has no decoder `luong`" in said and "2 mistakes in" in said
    assert not Path("exported").exists()
    said = invoke("translate", run, "--engine", "onnx", "rot", code=2).err
    assert "there is no engine `onnx`; known: native, " in said


def test_lines_that_are_too_long(exported: tuple[Path, Path, Done], invoke: Invoke) -> None:
    _, run, _ = exported
    text = "rot haus. " * 3 + "und boot\n\n" + "alt " * 3000 + "\n"
    few = ["--greedy", "--set", "search.lengths.max_length=20", "--set", "search.lengths.max_source_length=5"]
    ours = invoke("translate", run, *few, given=text.encode())
    theirs = invoke("translate", run, *few, *ENGINE, given=text.encode())
    assert (ours.out, ours.err) == (theirs.out, theirs.err)
    assert ours.out.count("\n") == 3 and "translated in" in ours.err
    limit = ["--set", "search.lengths.max_source_length=9999"]
    whole = invoke("translate", run, *few[:3], *limit, *ENGINE, given=text.encode())
    assert whole.out.count("\n") == 3
    assert "tokens, and the engine takes no more than 2,047; translated in" in whole.err

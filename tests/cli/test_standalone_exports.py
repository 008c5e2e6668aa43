"""The program of an export translates as the run does, where neither seq2attn nor torch can be imported."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import Invoke, invoke_in, run_process, write_toy
from tests.support.untrained_runs import TRANSFORMER_CONFIG, untrained_run

SIZE = "layers: 1, heads: 4, ffn_dim: 64"
CHANGES = (
    f"model.encoder={{kind: transformer, {SIZE}}}",
    f"model.decoder={{kind: transformer, {SIZE}}}",
    "tokenizer={joint: null, source: {kind: unigram, vocab_size: 290}, target: {kind: bpe, vocab_size: 290}}",
    "training={max_duration: [80 updates], optimizer: {lr: 0.008}, validation: {every: 80 updates, metric: loss}}",
)
ALONE = """\
import runpy, sys
sys.modules["seq2attn"] = sys.modules["torch"] = None  # which cannot be imported then
runpy.run_path(sys.argv[1], {}, "__main__")
"""
"""With `-I`, which leaves out PYTHONPATH and the working directory."""
INVISIBLE = (
    b"\xef\xbb\xbfrot\n\xe2\x80\x8b\n\xc2\xad \xe2\x80\x8e\n\xff neu\n\xef\xbb\xbfrot\n\xef\xb8\x8f \xe3\x85\xa4\n"
)
LONG = b"und neu " * 40 + b"\n"
LINES = INVISIBLE + b"rot\t haus\xc2\xa0alt\n\n  \nrot\nzzz \xc3\x84\xc3\x96 \xf0\x9f\x98\x80\n" + LONG


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Transformer that has learned little, so that its searches differ."""
    folder = tmp_path_factory.mktemp("standalone")
    write_toy(folder)
    invoke_in(folder, "train", "toy.yaml", *(f"--set={change}" for change in CHANGES))
    (folder / "in").write_bytes(LINES + (folder / "text/mixed.de").read_bytes())
    return folder


def export(home: Path, engine: str, search: dict[str, Any]) -> tuple[Path, Path]:
    """A copy of the run with another search, and its export."""
    run, out = home / "changed", home / "out"
    for folder in (run, out):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home / "runs/toy", run)
    config = yaml.safe_load((run / "config.yaml").read_text("utf-8"))
    config["search"] = {**search, "lengths": {"max_length": 30, **search.get("lengths", {})}}
    (run / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    invoke_in(home, "export", run, out, "--to", engine, "--verify-with", "text/short.de")
    return run, out


BEAM: dict[str, Any] = {"kind": "beam", "beam_size": 3}


@pytest.mark.parametrize(
    ("engine", "search"),
    [
        pytest.param("ctranslate2", BEAM, marks=pytest.mark.slow),
        ("ctranslate2", {**BEAM, "patience": 1, "lengths": {"alpha": 0.2, "max_length_ratio": 0.7}}),
        ("ctranslate2", {**BEAM, "patience": 3, "lengths": {"length_penalty": "gnmt"}}),
        pytest.param("ctranslate2", {"kind": "greedy"}, marks=pytest.mark.slow),
        pytest.param("onnx", BEAM, marks=pytest.mark.slow),
        pytest.param("onnx", {"kind": "greedy", "lengths": {"max_length_ratio": None}}, marks=pytest.mark.slow),
    ],
)
def test_the_program_translates_as_the_engine(home: Path, engine: str, search: dict[str, Any]) -> None:
    run, out = export(home, engine, search)
    card = (out / "README.md").read_text("utf-8")
    assert re.findall(r"^python (\S+) < input.txt > output.txt$", card, re.MULTILINE) == ["translate.py"]
    library = {"onnx": "onnxruntime"}.get(engine, engine)
    assert f"\npip install {library} sentencepiece\n" in card
    (home / "alone.py").write_text(ALONE, "utf-8")
    done = run_process(home, ["bash", "-c", f"{sys.executable} -I alone.py out/translate.py < in"])
    options = ["--greedy"] if engine == "onnx" else []
    long = "--long-inputs", "truncate"  # no program splits lines
    command = "translate", run, "-i", "in", "--engine", engine, "--export-dir", out, *options, *long
    translated = invoke_in(home, *command).out
    assert (done.code, done.err) == (0, "") and done.out == translated
    assert run_process(home, ["bash", "-c", f"{sys.executable} -I alone.py out/translate.py < /dev/null"]).out == ""
    assert len({*translated.splitlines()}) > 30


def test_a_program_cuts_lines_as_its_engine(home: Path) -> None:
    """CTranslate2 has fewer positions than the run takes."""
    run, out = export(home, "ctranslate2", {**BEAM, "lengths": {"max_source_length": 3000}})
    (home / "long").write_text("rot haus " * 1200 + "\nrot\n", "utf-8")
    (home / "alone.py").write_text(ALONE, "utf-8")
    done = run_process(home, ["bash", "-c", f"{sys.executable} -I alone.py out/translate.py < long"])
    long = "--engine", "ctranslate2", "--export-dir", out, "--long-inputs", "truncate"
    assert done.out == invoke_in(home, "translate", run, "-i", "long", *long).out


def test_tokenizers_that_are_not_of_sentencepiece_are_in_the_folder(invoke: Invoke, tmp_path: Path) -> None:
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG).folder
    invoke("export", run, tmp_path / "out", "--to", "ctranslate2", "--quantization", "int8")
    assert (tmp_path / "out/source/vocabulary.json").is_file() and not (tmp_path / "out/translate.py").exists()
    card = (tmp_path / "out/README.md").read_text("utf-8")
    assert "seq2attn translate" in card and "translate.py" not in card


@pytest.mark.parametrize(
    "search",
    [
        {"mbr": True},
        {"coverage_penalty": 0.2},
        pytest.param({"lengths": {"max_length": 3000}}, marks=pytest.mark.slow),
    ],
)
def test_a_search_that_no_program_has(home: Path, search: dict[str, Any]) -> None:
    _, out = export(home, "ctranslate2", {**BEAM, **search})
    assert (out / "target.spm").is_file() and not (out / "translate.py").exists()

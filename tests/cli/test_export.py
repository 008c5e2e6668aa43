"""A trained run is exported, and translates as before."""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.commands import Done, Invoke, invoke_in, run_process, write_toy
from tests.support.untrained_runs import TRANSFORMER_CONFIG, untrained_run

SIZE = "layers: 1, heads: 4, ffn_dim: 64"
CHANGES = (
    f"model.encoder={{kind: transformer, {SIZE}}}",
    f"model.decoder={{kind: transformer, {SIZE}}}",
    "training={max_duration: [240 updates], optimizer: {lr: 0.008}, validation: {every: 120 updates, metric: loss}}",
)
LR_SCHEDULE = "training.lr_schedule={kind: cosine, warmup_updates: 20, total_updates: auto}"
ENGINE = ("--engine", "ctranslate2")


@pytest.fixture(scope="module")
def exported_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A trained Transformer, exported: its run, and the output of `export`."""
    folder = tmp_path_factory.mktemp("exported")
    write_toy(folder)
    invoke_in(folder, "train", "toy.yaml", *(f"--set={change}" for change in CHANGES))
    done = invoke_in(folder, "export", "runs/toy", "--to", "ctranslate2", "--verify-with", "text/short.de")
    return folder / "runs/toy", done


def test_the_report(exported_run: tuple[Path, Done]) -> None:
    run, done = exported_run
    header, greedy, beam, forced = done.out.splitlines()
    assert header.split()[:4] == ["search", "sentences", "tokens", "same"]
    assert greedy.split()[:4] == ["greedy", "20", "100.00%", "100.0%"]
    assert beam.split()[:2] == ["beam", "5"] and float(beam.split()[3].rstrip("%")) >= 99
    assert forced.startswith("forced")
    assert done.err == "exported to runs/toy/ctranslate2\n"
    assert json.loads((run / "ctranslate2" / "manifest.json").read_text(encoding="utf-8"))["agreement"]


def test_the_command_of_the_model_card(exported_run: tuple[Path, Done]) -> None:
    run, _ = exported_run
    readme = (run / "ctranslate2" / "README.md").read_text(encoding="utf-8")
    assert (
        readme.startswith("---\nlanguage:\n- de\n- en\nlibrary_name: ctranslate2\n")
        and "\n120 pairs: `train.de`, `train.en`.\n" in readme
    )
    (command,) = re.findall("^seq2attn (.*)$", readme, re.MULTILINE)
    (run.parents[1] / "input.txt").write_text("rot haus\n", encoding="utf-8")
    assert invoke_in(run.parents[1], *shlex.split(command)).out == "red house\n"


@pytest.mark.slow
def test_a_program_of_transformers_translates_the_same(tmp_path: Path) -> None:
    """The program of an export that was moved, in a process of its own, for more lines than a batch has."""
    write_toy(tmp_path)
    changes = *CHANGES, "model.embeddings.tie=all", "training.max_duration=[480 updates]", LR_SCHEDULE
    invoke_in(tmp_path, "train", "toy.yaml", *(f"--set={change}" for change in changes))
    report = invoke_in(tmp_path, "export", "runs/toy", "--to", "huggingface", "--verify-with", "text/short.de").out
    assert re.search(r"^greedy +20 +100.00% +100.0%", report, re.MULTILINE)
    moved = shutil.move(tmp_path / "runs/toy/huggingface", tmp_path / "a model")
    card = (moved / "README.md").read_text(encoding="utf-8")
    assert "\npip install transformers torch sentencepiece\npython translate.py < input.txt" in card
    assert str(tmp_path) not in card
    lines = (tmp_path / "text/short.de").read_text(encoding="utf-8") + "rot\t haus\u00a0alt\n\n  \nrot\n"
    (tmp_path / "input.txt").write_text("\n" * 40 + lines * 2, encoding="utf-8")
    code = f"import runpy, sys; sys.modules['seq2attn'] = None; runpy.run_path({str(moved)!r} + '/translate.py')"
    output = run_process(tmp_path, ["bash", "-c", f"{sys.executable} -c {shlex.quote(code)} < input.txt"]).out
    assert output == invoke_in(tmp_path, "translate", "runs/toy", "-i", "input.txt").out


@pytest.mark.parametrize("search", [["--greedy"], [], ["--beam", "6", "--n-best", "2"]])
def test_the_engine_translates_the_same(exported_run: tuple[Path, Done], invoke: Invoke, search: list[str]) -> None:
    run, _ = exported_run
    text = run.parents[1] / "text"
    lines = b"".join((text / f"{name}.de").read_bytes() for name in ("short", "dev")) + b"\n  \nrot haus\n"
    command = ["translate", run, "--json", *search]
    native, exported_lines = (invoke(*command, *engine, given=lines).out.splitlines() for engine in ([], ENGINE))
    assert len(native) == len(exported_lines) == 35
    for one, other in zip(map(json.loads, native), map(json.loads, exported_lines), strict=True):
        assert other["text"] == one["text"] and other["tokens"] == one["tokens"]
        assert other["score"] == pytest.approx(one["score"], abs=1e-4)
    assert invoke("translate", run, *ENGINE, "rot haus").out == "red house\n"


def test_other_commands_with_the_engine(exported_run: tuple[Path, Done], invoke: Invoke) -> None:
    run, _ = exported_run
    native, engine = (json.loads(invoke("evaluate", run, "--json", *options).out) for options in ([], ENGINE))
    assert engine["sets"]["short"]["scores"] == native["sets"]["short"]["scores"]
    assert engine["sets"]["mixed"]["sentences"] == 60
    assert (native["engine"], engine["engine"]) == ("native float32", "ctranslate2 float32")
    attention = ["translate", run, "rot haus", "--attention", "-"]  # of the native model
    assert invoke(*attention, *ENGINE).out == invoke(*attention).out
    done = invoke("translate", run, "--set=search.lengths.max_source_length=9999", *ENGINE, given=b"alt " * 3000)
    assert done.out.count("\n") == 1
    assert "too many tokens: the engine takes no more than 2,047; translated in parts" in done.err


def test_an_export_elsewhere(exported_run: tuple[Path, Done], invoke: Invoke, tmp_path: Path) -> None:
    run, elsewhere = exported_run[0], tmp_path / "else where"
    invoke("export", run, elsewhere, "--to", "ctranslate2", "--quantization", "int8")
    assert json.loads((elsewhere / "manifest.json").read_text(encoding="utf-8"))["dtype"] == "int8"
    assert re.search(r"data type of the weights +\| int8 ", (elsewhere / "README.md").read_text(encoding="utf-8"))
    assert invoke("translate", run, *ENGINE, "--export-dir", elsewhere, "rot haus").out == "red house\n"
    shutil.rmtree(elsewhere)
    error = invoke("translate", run, *ENGINE, "--export-dir", elsewhere, "rot haus", code=2).err
    assert f"make it: seq2attn export {run} '{elsewhere}' --to ctranslate2" in error


def test_unsupported_options_have_a_place(exported_run: tuple[Path, Done], invoke: Invoke, tmp_path: Path) -> None:
    run, _ = exported_run
    option = ("--set", "search.lengths.min_length_ratio=0.5")
    error = invoke("translate", run, *ENGINE, *option, "rot", "-o", "out", code=2).err
    assert error.startswith("<command line>:1:33: `search.lengths.min_length_ratio`: ctranslate2 ")
    assert [*tmp_path.iterdir()] == []
    for command in ("translate", "evaluate"):
        error = invoke(command, run, *ENGINE, "--mbr", "4", code=2).err
        assert error.startswith(
            "error: --mbr: the engine ctranslate2 does not support this search: `search.kind`: ctransl"
        )
    error = invoke("evaluate", run, *ENGINE, "--set", "search={kind: sample}", code=2).err
    assert "`search.kind`: ctranslate2 samples without `search.seed`" in error
    error = invoke("export", untrained_run(tmp_path).folder, "exported", "--to", "ctranslate2", code=2).err
    assert re.match(r".*config\.yaml:\d+:\d+: `model\.encoder\.kind`: ctranslate2 has no encoder `gru`", error)
    assert "`model.decoder.kind`: ctranslate2 has no decoder `luong`" in error and "2 mistakes in" in error
    assert not Path("exported").exists()


def test_an_export_to_a_link_is_behind_it(tmp_path: Path) -> None:
    run, real = untrained_run(tmp_path, TRANSFORMER_CONFIG).folder, tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    for _ in range(2):
        invoke_in(tmp_path, "export", run, "link", "--to", "ctranslate2", "--quantization", "int8")
        assert (tmp_path / "link").readlink() == real and (real / "model.bin").is_file()


@pytest.mark.parametrize("command", ["export", "import"])
def test_the_working_directory_is_not_replaced(tmp_path: Path, command: str) -> None:
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG).folder
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder in (".", empty, "../empty"):
        options = ["--to", "ctranslate2"] if command == "export" else []
        error = invoke_in(empty, command, run, folder, *options, code=2).err
        assert f"{folder}: is the working directory, or has it inside; give another folder" in error
    assert [*empty.iterdir()] == [] and not [*tmp_path.glob("*.partial")]

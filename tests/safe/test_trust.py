"""A run's config runs no code, and looks into no folder, unless that was allowed by name."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import seq2attn
from seq2attn.alignment.aligner import Aligner
from seq2attn.cli import app
from seq2attn.config import trust
from seq2attn.config.load import load
from seq2attn.errors import ConfigError, RunError
from seq2attn.experiment import ExperimentConfig
from seq2attn.inference.translator import Translator
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.averaging import average_run
from tests.cli.conftest import Invoke, invoke_in
from tests.safe.untrained import CONFIG, LINES, untrained

PARTS = """
from pathlib import Path
from typing import Any

import seq2attn
from seq2attn.encoders.recurrent import RecurrentEncoder, RecurrentEncoderConfig

Path("it ran").touch()


class Theirs(RecurrentEncoder):
    class Config(RecurrentEncoderConfig):
        kind: str
        cell: str = "gru"

        def build(self, input_dim):
            own = self.model_dump() | {"kind": "gru"}
            del own["cell"]
            return RecurrentEncoderConfig(**own).build(input_dim)
"""
OURS, THEIRS = "encoder: {kind: gru, dim: 8}", "encoder: {kind: 'parts_{n}.inner:Theirs', dim: 8}"
COUNT = iter(range(1000))


@pytest.fixture(autouse=True)
def _nothing_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_allowed", set())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run whose encoder is in a module of the working directory, which no other test has imported."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / f"parts_{next(COUNT)}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text(PARTS, encoding="utf-8")
    made = untrained(tmp_path)
    config = made.config_path.read_text(encoding="utf-8")
    assert "    kind: gru\n    dim: 8\n" in config
    theirs = f"    kind: {package.name}.inner:Theirs\n    dim: 8\n"
    made.config_path.write_text(config.replace("    kind: gru\n    dim: 8\n", theirs, 1), encoding="utf-8")
    return made


def module_of(run: RunDirectory) -> str:
    return next(path.name for path in run.folder.parent.iterdir() if path.name.startswith("parts_"))


def has_run() -> bool:
    return Path("it ran").exists()


def commands(given: str = "run") -> Iterator[tuple[str, Any]]:
    """Every command that is given a run, or a config."""
    whole: Any = typer.main.get_command(app)
    subcommands = {f"config {name}": command for name, command in whole.commands["config"].commands.items()}
    for name, command in {**whole.commands, **subcommands}.items():
        if any(parameter.name in (given, f"{given}s") for parameter in command.params):
            yield name, command


MORE = {
    "export": ("--to", "ctranslate2"),
    "score": ("--source", "own.yaml", "--target", "own.yaml"),
    "average": ("--last", "1"),
    "align": ("--select-head",),
}


def test_the_commands_are_found() -> None:
    assert {name for name, _ in commands()} >= {
        "translate",
        "evaluate",
        "align",
        "average",
        "export",
        "doctor",
    }


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_refuses(run: RunDirectory, invoke: Invoke, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.folder.parent)  # `invoke` has gone elsewhere
    said = invoke(name, run.folder, *MORE.get(name, ()), code=2).err
    module = f"{module_of(run)}.inner"
    assert re.search(rf"config.yaml:\d+:11: `model.encoder.kind`: would run code of the module `{module}`", said)
    assert f"--allow-code {module}" in said
    assert not has_run()


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_can_be_told(name: str) -> None:
    options = [option for _, command in commands() for p in command.params for option in p.opts if _ == name]
    assert "--allow-code" in options


CONFIGS = [name for name, _ in commands("config")]


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_beside_the_files_of_a_run_runs_no_code(
    run: RunDirectory, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the module lies beside it, and the command is given in that folder."""
    module = module_of(run)
    (run.folder.parent / module).rename(run.folder / module)
    (run.folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    config, wrong = ("sweep.yaml", "axes.size.at=nothing") if name == "sweep" else ("config.yaml", "no=1")
    monkeypatch.chdir(run.folder)
    said = invoke_in(run.folder, *name.split(), config, code=2).err
    assert f"would run code of the module `{module}.inner`" in said and f"--allow-code {module}" in said
    assert not has_run()
    invoke_in(run.folder, *name.split(), config, "--allow-code", module, "--set", wrong, code=2)
    assert has_run()


SWEEP = """\
base: config.yaml
folder: swept
seeds: [1]
baseline: {size: small}
axes: {size: {at: model.embeddings.dim, choices: {small: 8, large: 16}}}
"""


def test_the_commands_that_are_given_a_config_are_found() -> None:
    assert {*CONFIGS} == {"train", "prepare", "verify-resume", "sweep", "config check", "config show"}


@pytest.mark.parametrize("files", [(), ("config.yaml",), ("run.json",), ("checkpoints",)])
def test_only_the_files_of_a_run_make_a_config_a_stranger_s(
    run: RunDirectory, tmp_path: Path, files: tuple[str, ...]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy(run.config_path, own / "mine.yaml")
    for file in files:
        shutil.copy(run.config_path, own / file)
    if {*files} <= {"config.yaml"}:
        assert load(own / "mine.yaml", ExperimentConfig) and has_run()
        return
    with pytest.raises(ConfigError, match="would run code"):
        load(own / "mine.yaml", ExperimentConfig)
    (tmp_path / "over.yaml").write_text("extends: own/mine.yaml\nrun_dir: other\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"own/mine.yaml:.*would run code"):
        load(tmp_path / "over.yaml", ExperimentConfig)
    assert not has_run()


@pytest.mark.parametrize("given", ["{}", "{}.inner", "{}.inner:Theirs"])
def test_what_is_allowed_is_run(run: RunDirectory, given: str) -> None:
    allowed = ("something_else", given.format(module_of(run)))
    texts = [t.text for t in seq2attn.load(run.folder, allow_code=allowed).translate(LINES)]
    assert has_run()
    assert Aligner.load(run.folder).model is not None
    with pytest.raises(RunError, match="has 0 checkpoints"):
        average_run(run.folder, last=1, best=None)
    shutil.rmtree(run.folder)
    assert texts == [t.text for t in Translator.load(untrained(run.folder.parent).folder).translate(LINES)]


@pytest.mark.parametrize("given", ["{}.outer", "{}.inner.more", "parts", "inner", "", "{}_more"])
def test_what_is_another_module_is_not(run: RunDirectory, given: str) -> None:
    with pytest.raises(ConfigError, match="would run code"):
        seq2attn.load(run.folder, allow_code=(given.format(module_of(run)),))
    assert not has_run()


@pytest.mark.parametrize("kind", ["os:system", "seq2attn.encoders.recurrent:RecurrentEncoder", "a:b:c", ":", "..x:y"])
def test_no_code_of_elsewhere_either(tmp_path: Path, kind: str) -> None:
    run = untrained(tmp_path)
    config = run.config_path.read_text(encoding="utf-8")
    run.config_path.write_text(
        config.replace("    kind: gru\n    dim: 8\n", f"    kind: '{kind}'\n", 1), encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="would run code"):
        Translator.load(run.folder)


def test_nor_to_explain_another_mistake(run: RunDirectory) -> None:
    """What a part expects is looked up to explain what is wrong in it."""
    config = run.config_path.read_text(encoding="utf-8")
    config = config.replace("    dim: 8\n    layers: 1\n", "    dim: x\n    layers: {}\n")
    run.config_path.write_text(config, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        run.load_config()
    assert "would run code" in str(error.value) and not has_run()
    with pytest.raises(ConfigError) as error:
        Translator.load(run.folder, allow_code=(module_of(run),))
    assert "should be a whole number" in str(error.value) and has_run()


def test_training_goes_on_with_what_ones_own_config_names(
    run: RunDirectory, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is not asked what may be run, nor is it run by the run alone."""
    monkeypatch.chdir(run.folder.parent)
    theirs = THEIRS.replace("parts_{n}", module_of(run))
    (run.folder.parent / "lines.txt").write_text("a few words\n" * 9, encoding="utf-8")
    training = "training: {max_duration: [2 updates], validation: {every: 2 updates}}\n"
    Path("theirs.yaml").write_text(CONFIG.replace(OURS, theirs) + training, encoding="utf-8")
    shutil.rmtree(run.folder)
    invoke("train", "theirs.yaml")
    monkeypatch.setattr(trust, "_allowed", set())  # as in another process
    assert "would run code" in invoke("translate", "run", "a few", code=2).err
    invoke("train", "theirs.yaml", "--resume", "--set", "training.max_duration=[4 updates]")
    assert (run.folder / "checkpoints/00000004").is_dir()


class TestFolders:
    """What a config names besides is not looked into."""

    def test_other_configs(self, tmp_path: Path) -> None:
        run = untrained(tmp_path)
        (tmp_path / "other.yaml").write_text("run_dir: elsewhere\n", encoding="utf-8")
        run.config_path.write_text(f"extends: {tmp_path}/other.yaml\n" + run.config_path.read_text(encoding="utf-8"))
        with pytest.raises(ConfigError, match=r"config.yaml:1:10: the config of a run is complete"):
            run.load_config()

    def test_shapes_of_berts(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        os.mkfifo(tmp_path / "config.json")
        (tmp_path / "run.json").touch()
        path = tmp_path / "bert.yaml"
        bert = CONFIG.replace(OURS, f"encoder: {{kind: bert, path: {tmp_path}}}")
        path.write_text(bert.replace("source: {kind: words}", f"source: {{kind: wordpiece, path: {tmp_path}}}"))
        with pytest.raises(ConfigError) as error:
            load(path, ExperimentConfig)
        assert "`model.encoder.architecture`: is missing, which a run has" in str(error.value)
        assert "`tokenizer.source.digest`: is missing, which a run has" in str(error.value)

    def test_vectors_and_texts(self, tmp_path: Path) -> None:
        """Which are for training; pipes in their places would make a reader wait forever."""
        run = untrained(tmp_path)
        (tmp_path / "lines.txt").unlink()
        os.mkfifo(tmp_path / "lines.txt")
        config = run.config_path.read_text(encoding="utf-8")
        vectors = config.replace("source_vectors: null", f"source_vectors: {tmp_path}/lines.txt")
        run.config_path.write_text(vectors, encoding="utf-8")
        assert len([*Translator.load(run.folder).translate(LINES)]) == len(LINES)

"""Code is imported only from modules that were allowed by name, and nothing from the working directory."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import seq2attn
from seq2attn.config import plugin
from seq2attn.config.load import load
from seq2attn.errors import ConfigError, RunError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.explorer import run_explorer
from seq2attn.io import import_path
from seq2attn.io.import_path import environment, leave_out_working_directory
from seq2attn.options import TranslationOptions
from seq2attn.training.checkpoints.averaging import average
from tests.support.commands import all_commands, invoke_in
from tests.support.untrained_runs import CONFIG, LINES, PLUGIN, RECIPE, SWEEP, untrained_run

ENCODER = "    kind: gru\n    dim: 8\n"
NUMBERS = count()


@pytest.fixture(autouse=True)
def _nothing_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_allowed", set())


@pytest.fixture
def module() -> str:
    """The name of a module that no other test imports."""
    return f"parts_{next(NUMBERS)}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> RunDirectory:
    """A run with an encoder from a module in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").touch()
    (tmp_path / module / "inner.py").write_text(PLUGIN, encoding="utf-8")
    run = untrained_run(tmp_path)
    edit_config(run, ENCODER, f"    kind: {module}.inner:Theirs\n    dim: 8\n")
    return run


def edit_config(run: RunDirectory, old: str, new: str) -> None:
    config = run.config_path.read_text(encoding="utf-8")
    assert old in config
    run.config_path.write_text(config.replace(old, new, 1), encoding="utf-8")


def has_run() -> bool:
    return Path("it ran").exists()


def commands(argument: str) -> dict[str, Any]:
    """The commands with an argument `run` or `config`."""
    names = {argument, f"{argument}s"}
    return {name: one for name, one in all_commands().items() if names & {parameter.name for parameter in one.params}}


RUN_COMMANDS, CONFIG_COMMANDS = commands("run"), commands("config") | commands("recipe")
del RUN_COMMANDS["import"]  # makes a run of a folder without code
OPTIONS = {
    "export": ("--to", "ctranslate2"),
    "score": ("--source", "own.yaml", "--target", "own.yaml"),
    "distill": ("--source", "own.yaml", "-o", "out"),
    "back-translate": ("--target", "own.yaml", "-o", "out"),
    "average": ("--last", "1"),
    "align": ("--select-head",),
    "compare": ("another",),
}


def test_the_commands_are_found() -> None:
    assert {*RUN_COMMANDS} >= {"translate", "evaluate", "align", "average", "export", "doctor"}
    assert {*CONFIG_COMMANDS} == {
        "train", "prepare", "sweep", "reproduce", "speedrun", "config check", "config show",
    }  # fmt: skip


@pytest.mark.parametrize("name", RUN_COMMANDS)
def test_commands_with_a_run_import_no_code(run: RunDirectory, name: str, module: str) -> None:
    error = invoke_in(run.folder.parent, name, run.folder, *OPTIONS.get(name, ()), code=2).err
    message = rf"config.yaml:\d+:11: `model.encoder.kind`: would run code of the module `{module}\.inner`"
    assert re.search(message, error) and f"--allow-code {module}.inner" in error
    assert not has_run()
    assert "--allow-code" in [option for parameter in RUN_COMMANDS[name].params for option in parameter.opts]


@pytest.mark.parametrize("override", ["model.encoder.dim=9", "model.encoder.kind=lstm", "model.encoder.no=1"])
def test_overrides_of_a_run_import_no_code(run: RunDirectory, override: str) -> None:
    with suppress(ConfigError):
        load(run.config_path, ExperimentConfig, [override])
    assert not has_run()


@pytest.mark.parametrize("name", CONFIG_COMMANDS)
def test_commands_with_a_config_in_a_run_import_no_code(
    run: RunDirectory, name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is in the run directory too, which is the working directory."""
    (run.folder.parent / module).rename(run.folder / module)
    (run.folder / "sweep.yaml").write_text(SWEEP.format("config.yaml"), encoding="utf-8")
    (run.folder / "recipe.yaml").write_text(RECIPE.format("config.yaml"), encoding="utf-8")
    config = {"sweep": "sweep.yaml", "reproduce": "recipe.yaml"}.get(name, "config.yaml")
    mistake = "no=1" if config == "config.yaml" else "axes.size.at=nothing"
    monkeypatch.chdir(run.folder)
    error = invoke_in(run.folder, *name.split(), config, code=2).err
    assert f"would run code of the module `{module}.inner`" in error and f"--allow-code {module}" in error
    assert not has_run()
    invoke_in(run.folder, *name.split(), config, "--allow-code", module, "--set", mistake, code=2)
    assert has_run()


@pytest.mark.parametrize("files", [(), ("config.yaml",), ("run.json",), ("checkpoints",)])
def test_a_config_is_untrusted_beside_files_of_a_run(run: RunDirectory, tmp_path: Path, files: tuple[str, ...]) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    for file in ("mine.yaml", *files):
        shutil.copy(run.config_path, folder / file)
    if {*files} <= {"config.yaml"}:
        assert load(folder / "mine.yaml", ExperimentConfig) and has_run()
        return
    (tmp_path / "over.yaml").write_text("extends: own/mine.yaml\nrun_dir: other\n", encoding="utf-8")
    for config in (folder / "mine.yaml", tmp_path / "over.yaml"):
        with pytest.raises(ConfigError, match=r"own/mine.yaml:(.|\n)*would run code"):
            load(config, ExperimentConfig)
    assert not has_run()


@pytest.mark.parametrize("name", ["{}", "{}.inner", "{}.inner:Theirs"])
def test_allowed_modules_are_imported(run: RunDirectory, module: str, name: str) -> None:
    allowed = ("something_else", name.format(module))
    texts = [t.text for t in seq2attn.load(run.folder, TranslationOptions(allow_code=allowed)).translate(LINES)]
    assert has_run()
    assert run.load().model is not None
    with pytest.raises(RunError, match="has 0 checkpoints"):
        average(run.folder, last=1, best=None)
    shutil.rmtree(run.folder)
    assert texts == [t.text for t in seq2attn.load(untrained_run(run.folder.parent).folder).translate(LINES)]


def test_other_modules_are_not(run: RunDirectory, module: str) -> None:
    for name in (f"{module}.outer", f"{module}.inner.more", "parts", "inner", "", f"{module}_more"):
        with pytest.raises(ConfigError, match="would run code"):
            seq2attn.load(run.folder, TranslationOptions(allow_code=[name]))
    assert not has_run()


@pytest.mark.parametrize("kind", ["os:system", "seq2attn.encoders.recurrent:RecurrentEncoder", "a:b:c", ":", "..x:y"])
def test_any_import_path_is_untrusted(tmp_path: Path, kind: str) -> None:
    run = untrained_run(tmp_path)
    edit_config(run, ENCODER, f"    kind: '{kind}'\n")
    with pytest.raises(ConfigError, match="would run code"):
        seq2attn.load(run.folder)


def test_a_module_is_not_imported_to_explain_another_mistake(run: RunDirectory, module: str) -> None:
    edit_config(run, "    dim: 8\n    layers: 1\n", "    dim: x\n    layers: {}\n")
    with pytest.raises(ConfigError, match="would run code"):
        run.load_config()
    assert not has_run()
    plugin.allow_code((module,))
    with pytest.raises(ConfigError, match="should be a whole number"):
        run.load_config()
    assert has_run()


def test_a_resumed_training_trusts_its_own_config(run: RunDirectory, module: str, monkeypatch: Any) -> None:
    folder = run.folder.parent
    config = CONFIG.replace("encoder: {kind: gru, dim: 8}", f"encoder: {{kind: '{module}.inner:Theirs', dim: 8}}")
    (folder / "lines.txt").write_text("a few words\n" * 9, encoding="utf-8")
    training = "training: {max_duration: [2 updates], validation: {every: 2 updates}}\n"
    (folder / "theirs.yaml").write_text(config + training, encoding="utf-8")
    shutil.rmtree(run.folder)
    invoke_in(folder, "train", "theirs.yaml")
    monkeypatch.setattr(plugin, "_allowed", set())  # as in another process
    assert "would run code" in invoke_in(folder, "translate", "run", "a few", code=2).err
    invoke_in(folder, "train", "theirs.yaml", "--resume", "--set", "training.max_duration=[4 updates]")
    assert (run.folder / "checkpoints/00000004").is_dir()


class TestFolders:
    """Other files that a config names are not read."""

    def test_other_configs(self, tmp_path: Path) -> None:
        run = untrained_run(tmp_path)
        (tmp_path / "other.yaml").write_text("run_dir: elsewhere\n", encoding="utf-8")
        run.config_path.write_text(f"extends: {tmp_path}/other.yaml\n" + run.config_path.read_text(encoding="utf-8"))
        with pytest.raises(ConfigError, match=r"config.yaml:1:10: the config of a run is complete"):
            run.load_config()

    def test_folders_of_bert(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        os.mkfifo(tmp_path / "config.json")
        (tmp_path / "run.json").touch()
        path = tmp_path / "bert.yaml"
        bert = CONFIG.replace("encoder: {kind: gru, dim: 8}", f"encoder: {{kind: bert, path: {tmp_path}}}")
        path.write_text(bert.replace("source: {kind: words}", f"source: {{kind: wordpiece, path: {tmp_path}}}"))
        with pytest.raises(ConfigError) as error:
            load(path, ExperimentConfig)
        assert "`model.encoder.architecture`: is missing" in str(error.value)
        assert "`tokenizer.source.digest`: is missing" in str(error.value)

    def test_vectors_and_texts(self, tmp_path: Path) -> None:
        """Only training reads them; to read a pipe would never end."""
        run = untrained_run(tmp_path)
        (tmp_path / "lines.txt").unlink()
        os.mkfifo(tmp_path / "lines.txt")
        edit_config(run, "source_vectors: null", f"source_vectors: {tmp_path}/lines.txt")
        assert len([*seq2attn.load(run.folder).translate(LINES)]) == len(LINES)
        assert run_explorer._example(run) == ""  # the page begins with no sentence


ROOT = Path(__file__).parents[2]
HOSTILE = "open('it ran', 'w'); raise SystemExit(9)"


def test_a_command_does_not_import_from_an_untrusted_folder(tmp_path: Path) -> None:
    """Modules with the names of required and of optional packages."""
    for name in ("typer", "yaml", "pydantic", "torch", "matplotlib", "ctranslate2"):
        (tmp_path / f"{name}.py").write_text(HOSTILE, encoding="utf-8")
    command = [sys.executable, "-m", "seq2attn", "config", "check", "none.yaml"]
    env = os.environ | {"PYTHONPATH": f"{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, "there is no file none.yaml" in done.stderr) == (2, True), done
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize(
    ("path", "expected"), [("", False), (":", False), ("/other:", False), ("/other", False), ("HERE:", True)]
)
def test_the_working_directory_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: bool
) -> None:
    sysconfig.get_paths()  # imports modules at its first call
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), "/other", str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", path.replace("HERE", str(tmp_path)))
    leave_out_working_directory()
    assert (sys.path == ["/other"]) != expected and (str(tmp_path) in sys.path) == expected


def test_processes_import_this_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seq2attn.py").write_text(HOSTILE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", ":")
    command = [sys.executable, "-c", "import seq2attn.io.import_path as module; print(module.__file__)"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == f"{import_path.__file__}\n"

"""All commands of the README and of long pages run as printed, with small models and few updates."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ENVIRONMENT, invoke_in

ROOT = Path(__file__).parents[2]
CORPORA = ROOT.parent / "shared" / "corpora"
BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
MINE = """\
extends: {}
model:
  encoder: {{kind: transfomer, layers: 2}}
"""
ELSEWHERE = (
    "bash scripts/demo.sh",
    "bash scripts/test.sh",
    "pip install",
)  # tests/cli/test_demo.py; this test
ONE_TRIAL = [
    "seeds=[1]",
    "changes.training.max_duration=[20 updates]",
    "changes.search.kind=greedy",
    "include=[{encoder: bigru, decoder: bahdanau, score: own, align: global}]",
]


def commands(page: str) -> list[str]:
    """The commands of a page, in their order, without comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for block in BASH.findall(text) for line in block.split("\n")]
    parts = (" ".join(shlex.quote(word) for word in shlex.split(line, comments=True)) for line in lines)
    return [part for part in parts if part and not part.startswith(ELSEWHERE)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A working directory like a checkout, in which commands may write."""
    folder = tmp_path_factory.mktemp("readme")
    copy_checkout(folder)
    return folder


def copy_checkout(folder: Path) -> None:
    """A checkout with small models, short translations and little text."""
    for name in ("configs", "scripts", "data/phrasebook"):
        shutil.copytree(ROOT / name, folder / name)
    config = folder / "configs/phrasebook.yaml"
    text = re.sub(r"dim: (256|128)", "dim: 16", config.read_text(encoding="utf-8"))
    config.write_text(text.replace("lengths: {", "lengths: {max_length: 20, "), encoding="utf-8")
    for path in (folder / "data/phrasebook").glob("*.*"):
        lines = path.read_text(encoding="utf-8").split("\n")[: 2000 if path.stem == "train" else 20]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    shutil.copytree(folder / "data/phrasebook", folder / "corpus")


def run(command: str, home: Path, *more: str) -> str:
    """The output of a command, in this process if it is `seq2attn`."""
    first, *words = [*shlex.split(command), *more]
    if first == "seq2attn":
        return invoke_in(home, *words).out
    return run_program(home, {"python": sys.executable}.get(first, first), *words)


def run_python(code: str, home: Path) -> str:
    return run_program(home, sys.executable, "-c", code)


def run_program(home: Path, *words: str) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(words, cwd=home, env={**ENVIRONMENT, "PATH": path}, text=True, capture_output=True)
    assert done.returncode == 0, f"{words}\n{done.stderr}"
    return done.stdout


def short(command: str) -> list[str]:
    """Options that shorten a training."""
    if command.startswith("seq2attn sweep") and "--dry-run" not in command:
        return [f"--set={value}" for value in ONE_TRIAL]
    if command.startswith("bash scripts/attention.sh"):
        return ["--set=training.max_duration=[20 updates]"]
    trains = command.startswith("seq2attn train") and "--dry-run" not in command
    updates = 12 if "--resume" in command else 3 if "my.yaml" in command else 8
    return [f"--set=training.max_duration=[{updates} updates]"] if trains else []


def test_the_error_of_the_readme_is_that_of_the_command(tmp_path):
    (tmp_path / "mine.yaml").write_text(MINE.format(ROOT / "configs" / "phrasebook.yaml"), encoding="utf-8")
    done = invoke_in(tmp_path, "config", "check", "mine.yaml", code=2)
    assert f"```\n{done.err.strip()}\n```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_of_the_readme_runs(home):
    readme = [command for command in commands("README.md") if "multi30k" not in command]
    assert any(command.startswith("seq2attn train") for command in readme)
    for command in readme:
        run(command, home, *short(command))
    assert (home / "seq2attn.schema.json").is_file()


def test_the_python_of_the_readme_runs(home):
    (code,) = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    code, replaced = re.subn("max_duration=1 epoch", "max_duration=5 updates", code)
    assert replaced == 1 and len(run_python(code, home).splitlines()) == 1
    assert (home / "runs" / "attention.html").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/data.md", "docs/translate.md", "docs/training.md"])
def test_every_command_of_a_page_runs(page, tmp_path):
    copy_checkout(tmp_path)
    if page == "docs/translate.md":
        run("seq2attn train configs/phrasebook.yaml", tmp_path, *short("seq2attn train"))
    for command in commands(page):
        run(command, tmp_path, *short(command))


@pytest.mark.slow
def test_every_command_of_the_story_of_attention_runs(home):
    for command in commands("docs/attention.md"):
        run(command, home, *short(command))
    steps = [path.stem for path in (ROOT / "configs" / "attention").glob("[0-9]*.yaml")]
    pictures = {path.stem for path in (home / "docs" / "attention").glob("*.png")}
    assert {*steps} - pictures == {"01-without"}


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora beside the checkout: shared/corpora")
@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_every_command_with_multi30k_runs(page, tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("configs", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for command in (c for c in commands(page) if "multi30k" in c):
        more = ["--mirror", str(CORPORA)] if "download" in command else short(command)
        run(command, tmp_path, *more)


def test_the_config_of_the_readme_is_valid(home, tmp_path):
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    for name in ("train.de", "train.en", "dev.de", "dev.en"):
        (tmp_path / name).touch()
    for block in blocks:
        (tmp_path / "readme.yaml").write_text(block, encoding="utf-8")
        run(f"seq2attn config check {tmp_path / 'readme.yaml'}", home)

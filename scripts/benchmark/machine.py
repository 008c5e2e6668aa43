"""What measurements were made on: the machine, the versions, the commit, the day."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmark.setting import REPOSITORY, Setting
from benchmark.systems import System

ASK = """
import importlib.metadata as metadata, sys
for name in sys.argv[1:]:
    try:
        print(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        print(name, "from source")
"""


def context(setting: Setting, systems: Sequence[System], command: str) -> dict[str, Any]:
    """All that a reader needs to believe a figure, or to repeat it."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": command,
        "commit": commit(),
        "processor": processor(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": setting.threads,
        "versions": {system.name: versions(system) for system in systems},
    }


def processor() -> str:
    """Its name."""
    try:
        told = Path("/proc/cpuinfo").read_text("utf-8").split("\n")
        names = [line.split(":")[1].strip() for line in told if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def commit() -> str:
    """The commit, with a + when the tree differs from it."""
    found = _git("rev-parse", "--short", "HEAD")
    return found + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "") if found else "?"


def versions(system: System) -> dict[str, str]:
    """Of its packages, as its own interpreter sees them."""
    command = [str(system.python), "-c", ASK, *system.packages]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {name: version for name, _, version in (line.partition(" ") for line in told.splitlines())}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""

"""Metadata of measurements: machine, versions, commit and date."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.backends import cudnn

from benchmark.setting import REPOSITORY, Setting
from benchmark.systems import System


def context(setting: Setting, systems: Sequence[System], command: str) -> dict[str, Any]:
    """Metadata to reproduce a measurement."""
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
        **({"gpu": gpu()} if setting.gpu else {}),
        "versions": {system.name: versions(system) for system in systems},
    }


def processor() -> str:
    """Name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n")
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def gpu() -> dict[str, str]:
    """Name, driver, CUDA and cuDNN of the first GPU; empty without one."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    name, _, driver = output.strip().partition(", ")
    return {"name": name, "driver": driver, "CUDA": str(torch.version.cuda), "cuDNN": str(cudnn.version())}


def commit() -> str:
    """The commit, with + for uncommitted changes."""
    name = _git("rev-parse", "--short", "HEAD")
    return name + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "") if name else "?"


def versions(system: System) -> dict[str, str]:
    """Versions of the packages of a system."""
    return {name: metadata.version(name) for name in system.packages}


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""

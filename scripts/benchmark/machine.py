"""Metadata of measurements: machine, versions, commit and date."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import psutil
import torch
from torch.backends import cudnn

from benchmark.setting import Setting
from benchmark.systems import System
from seq2attn.sweep.speedrun import describe_environment


def context(setting: Setting, systems: Sequence[System], command: str) -> dict[str, Any]:
    """Metadata to reproduce a measurement."""
    here = describe_environment(torch.device("cpu"))
    commit = str(here["commit"] or "?")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": command,
        "commit": commit[:8] + commit[40:],  # + for changes
        "processor": str(here["machine"]).rpartition(", ")[0],
        "cores": psutil.cpu_count(),
        "memory_gib": here["memory_gib"],
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "threads": setting.threads,
        **({"gpu": gpu()} if setting.gpu else {}),
        "versions": {system.name: versions(system) for system in systems},
    }


def gpu() -> dict[str, str]:
    """Name, driver, CUDA and cuDNN of the first GPU; empty without one."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    name, _, driver = output.strip().partition(", ")
    return {"name": name, "driver": driver, "CUDA": str(torch.version.cuda), "cuDNN": str(cudnn.version())}


def versions(system: System) -> dict[str, str]:
    """Versions of the packages of a system."""
    return {name: metadata.version(name) for name in system.packages}

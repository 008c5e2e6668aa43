"""The import path of commands and of the processes that they start, without the working directory.

`python -m` and an empty entry of PYTHONPATH put the working directory before all other places, so that a command in an
untrusted folder would import a `yaml.py` that lies there. Only plug-ins are imported from it: see `config.plugin`.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def leave_out_working_directory() -> None:
    """Removal of the working directory from the import path, unless PYTHONPATH names it or Python itself lies there."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        return  # nothing can be imported from it
    if here not in (*_named(), *sysconfig.get_paths().values()):
        sys.path[:] = [place for place in sys.path if place not in ("", here)]


def environment() -> dict[str, str]:
    """The environment of a Python process that is to import this package, and nothing from the working directory."""
    package = str(Path(__file__).parents[2])
    places = _named() if package == sysconfig.get_path("purelib") else [package, *_named()]
    return os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(places)}


def _named() -> list[str]:
    return [str(Path(name).absolute()) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]

"""The import path of commands and of their child processes, without the working directory.

`python -m` and an empty entry of PYTHONPATH put the working directory first, so that a command in an untrusted folder
would import a `yaml.py` from it. Only plug-ins are imported from the working directory: see `config.plugin`.
"""

import os
import sys
import sysconfig
from pathlib import Path


def leave_out_working_directory() -> None:
    """Removal of the working directory from the import path, unless PYTHONPATH names it or it is Python's own."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        return  # nothing can be imported from it
    if here not in (*_python_path(), *sysconfig.get_paths().values()):
        sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]


def environment() -> dict[str, str]:
    """The environment of a Python process that imports this package, and nothing from the working directory."""
    folder = str(Path(__file__).parents[2])
    entries = _python_path() if folder == sysconfig.get_path("purelib") else [folder, *_python_path()]
    return os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(entries)}


def _python_path() -> list[str]:
    return [str(Path(name).absolute()) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]

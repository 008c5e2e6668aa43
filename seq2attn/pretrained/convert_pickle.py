"""Conversion of pickled weights to safetensors as a separate program: reads one file, writes one, and nothing else.

`family.py` runs it in a process, because a pickle may be hostile: `torch.load` with `weights_only` makes
tensors only, but had holes. Where the platform lets it, the process has no network, starts no other processes, and is
limited in time, memory and the size of what it writes. It imports nothing from this package. Exit code 1: the reason is
on standard error.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MAX_SECONDS, MAX_EXTRA_BYTES = 600, 2**30


def leave_network() -> None:
    """A network namespace of its own, on Linux; must be called before there are threads."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNET)


def set_limits(file_size: int) -> None:
    """Limits for a file of this size; must be called after torch is imported."""
    limits = {"RLIMIT_CPU": MAX_SECONDS, "RLIMIT_FSIZE": 2 * file_size + MAX_EXTRA_BYTES, "RLIMIT_NPROC": 0}
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits["RLIMIT_AS"] = pages * os.sysconf("SC_PAGE_SIZE") + 4 * file_size + MAX_EXTRA_BYTES
    for name, limit in limits.items():
        with suppress(OSError, ValueError, AttributeError):
            resource.setrlimit(getattr(resource, name), (limit, limit))


def main() -> int:
    """Conversion of the file `argv[1]` to `argv[2]`; returns the exit code."""
    leave_network()
    import torch
    from safetensors.torch import save_file

    source, target = sys.argv[1:]
    set_limits(Path(source).stat().st_size)
    try:
        content = torch.load(source, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(source))
        if not isinstance(content, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in content.values()):
            raise TypeError("it holds other values than tensors")
        save_file({str(name): tensor.detach().clone().contiguous() for name, tensor in content.items()}, target)
    except Exception as error:  # a corrupt or hostile file raises any
        sys.stderr.write(str(error).partition("\n")[0] or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

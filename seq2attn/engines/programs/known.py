"""Which programs were compiled here by whoever runs them: native code of others is not run.

What a run says of itself a stranger may have written. So the digests of what was exported are kept outside of any run,
with the user's other state: a file for each, in $XDG_STATE_HOME/seq2attn/programs or ~/.local/state/seq2attn/programs.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from seq2attn.errors import RunError
from seq2attn.text.files import open_regular, write_bytes


def remember(packages: Iterable[Path]) -> None:
    """Keep in mind that these were made here; says so if that cannot be."""
    try:
        for package in packages:
            write_bytes(_home() / _digest(package), b"")
    except OSError as error:
        print(
            f"warning: {_home()}: cannot be written to ({error.strerror}), so that it will not be known that these"
            " programs were compiled here: `--allow-code programs` will be needed to run them",
            file=sys.stderr,
        )


def check_known(packages: Iterable[Path]) -> None:
    """Refuse programs that were not compiled here.

    Raises: RunError, before any of them is loaded.
    """
    for package in packages:
        try:
            is_known = (_home() / _digest(package)).is_file()
        except OSError as error:
            raise RunError(f"{package}: cannot be read ({error.strerror}); export the run again") from None
        if not is_known:
            raise RunError(
                f"{package}: is native code that was not compiled here, and may do anything that you may; export the"
                " run again, or if you trust it, say so by --allow-code programs (in Python: allow_code=['programs'])"
            )


def _home() -> Path:
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    # A relative one is to be ignored.
    state = given if given.is_absolute() else Path.home() / ".local" / "state"
    return state / "seq2attn" / "programs"


def _digest(package: Path) -> str:
    with open_regular(package) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Files that the user names, and standard output.

Without `overwrite`, a file is replaced only if it is empty, or if the same command wrote it and it is unchanged since.
To know this without another file, a command leaves a mark in the modification time of its output: the fraction of the
second is a digest of the command and the content.
"""

import codecs
import gzip
import lzma
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from seq2attn.errors import UserError
from seq2attn.io.files import atomic_path, sha256_json, sha256_of

STANDARD_STREAM = Path("-")
"""The path that means standard input or output on the command line."""
STANDARD_OUTPUTS = (STANDARD_STREAM, Path("/dev/stdout"))  # the second leads to a file that a shell may append to
SECOND = 10**9
"""Nanoseconds of a second."""


@contextmanager
def output(path: Path, command: str = "") -> Iterator[BinaryIO]:
    """A file that the user named, written by `atomic_path`; a device or a pipe is opened directly.

    A later call of `command` may replace it, as long as it is not changed: see `check_output`.

    Raises UserError when it cannot be written.
    """
    with ExitStack() as stack:
        try:
            # A pipe, such as /dev/fd/63 of `>(...)`, resolves to a name that no file has.
            is_special = path.exists() and not path.is_file()
            partial = path if is_special else stack.enter_context(atomic_path(path.resolve()))  # behind a link
            file = stack.enter_context(partial.open("wb"))
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from None
        except RuntimeError as error:  # links in a circle
            raise UserError(f"{path}: cannot be written: {error}") from None
        yield file
        if command and not is_special:
            file.close()
            _mark(partial, command)


def check_output(path: Path | None, command: str, *inputs: Path | None, overwrite: bool = False) -> None:
    """Raises UserError for an output that would replace one of the inputs, or something that `command` did not write,
    and for one in a folder that does not exist.

    So no corpus is lost by a wrong name. An empty file is replaced, and everything but an input with `overwrite`.
    """
    if path is None or path in STANDARD_OUTPUTS:
        return
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}; make it, or give another name")
    if not path.is_file():
        return
    if any(file and file.exists() and path.samefile(file) for file in inputs):
        raise UserError(f"{path}: is an input of this command too; give another name")
    stat = path.stat()
    if stat.st_size and not overwrite and stat.st_mtime_ns % SECOND != _fraction(path, command):
        raise UserError(
            f"{path}: exists, and was changed or not written by this command; give another name, or ``overwrite``"
        )


def _fraction(path: Path, command: str) -> int:
    """The mark of an output: nanoseconds, below a second, by a digest of the command and the content."""
    return int(sha256_json([command, sha256_of(path)])[:8], 16) % 10**6 * 1000


def _mark(path: Path, command: str) -> None:
    """Write the mark that `check_output` looks for; a change of the file removes it."""
    time = path.stat().st_mtime_ns
    time -= (time - _fraction(path, command)) % SECOND  # make warns of times in the future
    with suppress(OSError):  # of a file system that keeps its own times, on which --overwrite is needed
        os.utime(path, ns=(time, time))


@contextmanager
def text_output(path: Path | None, command: str = "") -> Iterator[TextIO | codecs.StreamWriter]:
    """Standard output, for None, `-` and /dev/stdout, or a file as `output` writes it, compressed for .gz and .xz."""
    if path is None or path in STANDARD_OUTPUTS:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with output(path, command) as file, _compressed(file, path.suffix) as stream:
            yield codecs.getwriter("utf-8")(stream)


def _compressed(file: BinaryIO, suffix: str) -> AbstractContextManager[Any]:
    """A stream that compresses into `file`, if a name with this suffix is read so."""
    match suffix:
        case ".gz":
            return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        case ".xz":
            return lzma.LZMAFile(file, "wb")
        case _:
            return nullcontext(file)

"""Atomic writes, and reads of regular files of limited size, with the version of their format.

Only regular files are read: a pipe may block, and a device has no end. A write makes a new file and renames it over the
old one, and never follows a symbolic link of that name. Below a folder that this process has locked nothing is written
once another folder is in its place.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from seq2attn.errors import RunError, UserError
from seq2attn.io.lock import check_locks
from seq2attn.version import __version__

MAX_FILE_BYTES = 2**25
"""Maximum size of a file that is read into memory: a vocabulary of a million words has half of it."""
MAX_JSON_BYTES, MAX_JSON_VALUES = 2**20, 2**21
"""Maximum size of a JSON file without a vocabulary or text, and number of values in any: one takes up to 100 bytes."""
FORMAT_VERSION = 1
"""Version of run directories, exports, prepared data and sweep results."""
TEMPORARY = re.compile(r"\.[0-9a-f]{8}\.(partial|removed)$")
"""The end of a temporary name."""
MANIFEST = "run.json"
"""The file that makes a folder a run directory: the version of the format of its files."""
FILE_HINT = "take the file that belongs to the model"
"""The advice in errors about a file of a pretrained model."""
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk, whose errors name no file."""
T = TypeVar("T")
_adapter = cache(TypeAdapter)


def write_bytes(path: Path, content: bytes) -> None:
    """Atomic write of a file and, if need be, its folder."""
    check_locks(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as partial:
        partial.write_bytes(content)


def _temporary(path: Path, kind: str) -> Path:
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.{kind}")


def remove_temporary(folder: Path, *, keep_folders: bool = False) -> None:
    """Remove the temporary files and folders of killed writers in a folder that this process has locked."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if TEMPORARY.search(path.name):
            if not path.is_dir() or path.is_symlink():
                path.unlink()
            elif not keep_folders:
                shutil.rmtree(path)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path whose file replaces `path` after fsync; it is deleted after an error.

    The temporary name is unique: of several processes that write one file, the last one wins.
    """
    check_locks(path)
    partial = _temporary(path, "partial")
    try:
        yield partial
        sync(partial)
        check_locks(path)
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS:
            error.filename = str(path)
        raise
    sync(path.parent)


@contextmanager
def atomic_dir(folder: Path) -> Iterator[Path]:
    """A temporary folder of a unique name that replaces `folder` after fsync; it is deleted after an error."""
    check_locks(folder)
    partial = _temporary(folder, "partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        for path in (*partial.rglob("*"), partial):
            sync(path)
        remove_dir(folder)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync(folder.parent)


def check_not_working_dir(folder: Path) -> None:
    """Raises UserError if the shell would be in no folder after `folder` is replaced."""
    if Path.cwd().is_relative_to(os.path.realpath(folder)):  # unlike resolve, without an error for links in a circle
        raise UserError(f"{folder}: is the working directory, or has it inside; give another folder")


def remove_dir(folder: Path) -> None:
    """Rename a folder, then delete it: a kill in between leaves no folder of that name with part of its files."""
    check_locks(folder)
    if folder.is_symlink():
        folder.unlink()
    elif folder.is_dir():
        removed = _temporary(folder, "removed")
        folder.rename(removed)
        shutil.rmtree(removed)


def sync(path: Path) -> None:
    """fsync of a file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """SHA-256 of the content of a file, as hex. Raises OSError, also if it is not a regular file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of a value as JSON, as hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Atomic write of `content` as indented JSON."""
    write_bytes(path, json_bytes(content))


def json_bytes(content: Any) -> bytes:
    """Indented JSON, as a file."""
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def write_manifest(folder: Path) -> None:
    """Make `folder` a run directory."""
    write_json(folder / MANIFEST, {"format": FORMAT_VERSION, "seq2attn": __version__})


def open_regular(path: Path) -> BufferedReader:
    """A file opened for reading. Raises OSError, also if it is not a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_bytes(path: Path, fix: str, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """The content of a file of a run or of a pretrained model; `fix` is the advice in error messages.

    Raises RunError, also if it is not a regular file or larger than `max_bytes`.
    """
    try:
        with open_regular(path) as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); {fix}") from None
    if len(content) > max_bytes:
        raise RunError(f"{path}: has more than the {max_bytes:,} bytes that such a file may have; {fix}")
    return content


def read_object(path: Path, fix: str, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """The JSON object in a file of a run or of a pretrained model. `max_bytes`: more for a vocabulary or text.

    Raises RunError, also if it is not a JSON object.
    """
    return parse_object(read_bytes(path, fix, max_bytes), path, fix)


def read_objects(path: Path, fix: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in the lines of a log, without a last line that was not completed, as after a power failure.

    Raises RunError for a file that is not regular, or with another line.
    """
    number = 0
    try:
        with open_regular(path) as file:
            while (line := file.readline(MAX_JSON_BYTES)).endswith(b"\n"):
                number += 1
                yield parse_object(line, f"{path}:{number}", fix)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}); {fix}") from None
    if len(line) == MAX_JSON_BYTES:
        raise RunError(f"{path}:{number + 1}: has more than the {len(line):,} bytes that a line may have; {fix}")


def parse_object(text: bytes | str, place: Path | str, fix: str) -> dict[str, Any]:
    """The JSON object in text from `place`. Raises RunError for other text."""
    content = parse_json(text, place, fix)
    if not isinstance(content, dict):
        raise RunError(f"{place}: expected a JSON object, found a {type(content).__name__}; {fix}")
    return content


def parse_json(text: bytes | str, place: Path | str, fix: str) -> Any:
    """The value of JSON text from `place`. Raises RunError if it is not JSON, nested too deep, or has many values."""
    check_num_values(text, place, fix)
    try:
        return json.loads(text)
    except ValueError as error:
        raise RunError(f"{place}: is not JSON ({error}); {fix}") from None
    except RecursionError:
        raise RunError(f"{place}: is nested too deep; {fix}") from None


def check_num_values(text: bytes | str, place: Path | str, fix: str) -> None:
    """Raises RunError for JSON or YAML with too many values, which takes many times its size as memory."""
    marks = map(text.count, b"[{,:") if isinstance(text, bytes) else map(text.count, "[{,:")
    if sum(marks) > MAX_JSON_VALUES:
        raise RunError(f"{place}: has more than the {MAX_JSON_VALUES:,} values that such a file may have; {fix}")


def validate(kind: type[T], content: Any, place: Path | str, problem: str, fix: str) -> T:
    """Content of `place` as a type. Raises RunError with the `problem`, such as "is no report", and the first key."""
    try:
        return _adapter(kind).validate_python(content)  # type: ignore[arg-type]  # a type is hashable
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise RunError(f"{place}: {problem} (at `{key}`); {fix}") from None


def check_format(content: Mapping[str, Any], path: Path, fix: str) -> None:
    """Check of the content of `path`; `fix` is the advice in the message. Raises RunError for another version."""
    version = content.get("format")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise RunError(
            f"{path}: is of format {version}, and this seq2attn reads format {FORMAT_VERSION} only; use the seq2attn"
            f" that wrote it, or {fix}"
        )

"""Lines of a text file, plain or compressed. Errors have the file and the line."""

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from seq2attn.errors import DataError

BOM = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 2**24
"""Maximum size of a line: far more than any sentence, and little enough for memory."""
READ_SIZE = 2**18
"""Bytes that are read at once: thousands of lines of a file. A pipe buffers what is written meanwhile."""
BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
"""Errors of reading a compressed file."""
_BREAKS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}


def json_line(content: Any) -> str:
    """JSON with null for NaN, and with U+0085, U+2028 and U+2029 escaped, at which other programs break lines."""
    content = json.loads(json.dumps(content), parse_constant=lambda name: None)
    return json.dumps(content, ensure_ascii=False).translate(_BREAKS) + "\n"


def read_lines(path: Path) -> Iterator[str]:
    r"""Lines of a UTF-8 file, separated by '\n' only, without '\r' before it and without a byte order mark.

    Files that end in .gz or .xz are decompressed.

    Raises DataError for a file that is missing, a directory, empty, badly compressed or not UTF-8, and for a line
    of more than `MAX_LINE_BYTES`.
    """
    number = 0
    try:
        with open_lines(path) as stream:
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise _too_long(f"{path}:{number}")
                yield _decode(raw, path, number)
    except BROKEN as error:
        raise DataError(f"{path}: the compressed file is broken after line {number} ({error})") from None
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise DataError(f"{path}: is a directory, expected a text file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    if number == 0:
        raise DataError(f"{path}: is empty")


def read_line_batches(stream: IO[bytes], read_size: int = READ_SIZE) -> Iterator[list[bytes]]:
    r"""The lines of a buffered stream in batches: those of a file or of a fast pipe together, typed ones one by one.

    Lines end at '\n' only, which is removed. A file always gives the same batches.

    Raises DataError for a line of more than `MAX_LINE_BYTES`, and for input that is badly compressed.
    """
    begin, count = list[bytes](), 0
    while True:
        try:
            chunk = stream.read1(read_size)  # type: ignore[attr-defined]  # without waiting for more
        except BROKEN as error:
            raise DataError(f"the compressed input is broken after line {count:,} ({error})") from None
        if not chunk:
            break
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join([*begin, ended[0]])
            begin, count = [], count + len(ended)
            yield ended
        begin.append(rest)
        if sum(map(len, begin)) > MAX_LINE_BYTES:
            raise _too_long(f"line {count + 1:,} of the input")
    if last := b"".join(begin):
        yield [last]


def _too_long(place: str) -> DataError:
    """Error for a line of more than `MAX_LINE_BYTES`."""
    return DataError(
        f"{place}: the line has more than {MAX_LINE_BYTES:,} bytes; is it a text file, with a sentence a line?"
    )


def open_lines(path: Path) -> IO[bytes]:
    """The bytes of a text file, decompressed if it ends in .gz or .xz. Raises OSError if it cannot be opened."""
    match path.suffix:
        case ".gz":
            return cast("IO[bytes]", gzip.open(path, "rb"))
        case ".xz":
            return lzma.open(path, "rb")
        case _:
            return path.open("rb")


def _decode(raw: bytes, path: Path, number: int) -> str:
    start = len(BOM) if number == 1 and raw.startswith(BOM) else 0
    try:
        line = raw[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        column = start + error.start
        raise DataError(
            f"{path}:{number}: byte {column + 1} of the line (0x{raw[column]:02x}) is not UTF-8 "
            f"({error.reason}); save the file as UTF-8"
        ) from None
    return line.removesuffix("\n").removesuffix("\r")

"""Download of a file over HTTP: an interrupted transfer is resumed, a failed one retried."""

import os
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from seq2attn.errors import UserError
from seq2attn.io.lock import lock

HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; seq2attn)"}
"""Some servers refuse the user agent of Python."""


def download(url: str, part: Path, *, pauses: Sequence[float] = (1, 4)) -> None:
    """Append what is missing of `url` to the file `part`; retries after `pauses` seconds.

    A complete file stays as it is. Raises UserError when the file cannot be fetched, or another process fetches it;
    `part` is kept for the next call.
    """
    with part.open("ab") as file:
        if not lock(file.fileno()):
            raise UserError(f"{part}: another process fetches it; wait for its end, or give another folder")
        for pause in (*pauses, None):
            try:
                _resume(url, file)
                return
            except (OSError, HTTPException) as error:  # URLError, timeouts and resets are OSErrors
                is_final = isinstance(error, urllib.error.HTTPError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
                if is_final or pause is None:
                    hint = "run this again (it resumes), or use a copy of the files with ``mirror=DIR``"
                    raise UserError(f"{url}: cannot be fetched: {error}; {hint}") from error
                time.sleep(pause)


def _resume(url: str, file: BinaryIO) -> None:
    """One request for the missing bytes. Raises OSError if the transfer breaks off."""
    have = _size(file)
    request = urllib.request.Request(url, headers=HEADERS | ({"Range": f"bytes={have}-"} if have else {}))
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            total = error.headers.get("Content-Range", "").rpartition("/")[2]
            if total.isdigit() and have > int(total):
                file.truncate(0)
                raise OSError(f"it had {have} bytes, more than the {total} expected; emptied") from None
            return  # complete; another file would have another content
    with response:
        if response.status != HTTPStatus.PARTIAL_CONTENT:
            file.truncate(0)
            have = 0
        rest = response.headers["Content-Length"]
        expected = have + int(rest) if rest else None
        with tqdm(desc=url.rpartition("/")[2], total=expected, initial=have, unit="B", unit_scale=True) as progress:
            while chunk := response.read(1 << 16):
                file.write(chunk)
                progress.update(len(chunk))
    if expected is not None and _size(file) != expected:  # an early end is not an error of the connection
        raise OSError(f"broke off after {_size(file)} of {expected} bytes")


def _size(file: BinaryIO) -> int:
    file.flush()
    return os.fstat(file.fileno()).st_size

"""Download of a file over HTTP: an interrupted transfer is resumed, a failed one retried."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from tqdm import tqdm

from seq2attn.errors import UserError

HEADERS = {"User-Agent": "Mozilla/5.0 (compatible; seq2attn)"}
"""Some servers refuse the user agent of Python."""


def download(url: str, part: Path, *, pauses: Sequence[float] = (1, 4)) -> None:
    """Append what is missing of `url` to the file `part`; retries after `pauses` seconds.

    A complete file stays as it is. Raises: UserError when the file cannot be fetched; `part` is kept for the next call.
    """
    for pause in (*pauses, None):
        try:
            _resume(url, part)
            return
        except (OSError, HTTPException) as error:  # URLError, timeouts and resets are OSErrors
            is_final = isinstance(error, urllib.error.HTTPError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
            if is_final or pause is None:
                hint = "run this again (it resumes), or use a copy of the files with --mirror DIR"
                raise UserError(f"{url}: cannot be fetched: {error}; {hint}") from error
            time.sleep(pause)


def _resume(url: str, part: Path) -> None:
    """One request for the missing bytes. Raises OSError if the transfer breaks off."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers=HEADERS | ({"Range": f"bytes={have}-"} if have else {}))
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # complete; another file would have another content
            raise
    with response:
        resumed = response.status == HTTPStatus.PARTIAL_CONTENT
        have = have if resumed else 0
        rest = response.headers["Content-Length"]
        total = have + int(rest) if rest else None
        progress = tqdm(desc=url.rpartition("/")[2], total=total, initial=have, unit="B", unit_scale=True)
        with part.open("ab" if resumed else "wb") as file, progress:
            while chunk := response.read(1 << 16):
                file.write(chunk)
                progress.update(len(chunk))
    if total is not None and part.stat().st_size != total:  # an early end is not an error of the connection
        raise OSError(f"broke off after {part.stat().st_size} of {total} bytes")

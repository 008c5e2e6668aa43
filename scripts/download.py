"""Download of a public corpus, with a check: `python scripts/download.py multi30k`.

A second run resumes an interrupted transfer; files that are already right stay as they are.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import sys
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from tqdm import tqdm


@dataclass(frozen=True)
class Text:
    """One side of one split; `sha256` is that of the text, not of the compressed file."""

    name: str
    sha256: str


# Task 1, raw, as of commit a3d2e0d; see https://github.com/multi30k/dataset for its terms. The files there are
# `<name>.gz`, whose sums would change with the compressor: the text inside is checked.
MULTI30K_HOME = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
MULTI30K = (
    Text("train.de", "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
    Text("train.en", "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
    Text("val.de", "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
    Text("val.en", "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
    Text("test_2016_flickr.de", "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
    Text("test_2016_flickr.en", "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
    Text("test_2017_flickr.de", "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081"),
    Text("test_2017_flickr.en", "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98"),
    Text("test_2017_mscoco.de", "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22"),
    Text("test_2017_mscoco.en", "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2"),
)


CHANGED_HINT = "Removed; run this again. If the error stays, the origin has changed: use a copy with --mirror DIR."


class DownloadError(Exception):
    """Error of a text that cannot be downloaded, with a hint."""


def download(texts: Sequence[Text], output: Path, *, home: str, pauses: Sequence[float] = (1, 4)) -> list[Path]:
    """Fetch `<home>/<name>.gz` of every text not yet in `output`, retrying after `pauses` seconds.

    Returns the new files. Raises DownloadError when a file cannot be fetched or is not the one expected.
    """
    new = []
    for text in _missing(texts, output):
        part = output / f"{text.name}.gz.part"
        _fetch(f"{home}/{text.name}.gz", part, pauses)
        unpacked = output / f"{text.name}.part"
        try:
            with gzip.open(part) as source, unpacked.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        except (OSError, EOFError, zlib.error) as error:
            unpacked.unlink(missing_ok=True)
            raise DownloadError(f"{part}: not a whole gzip file ({error}). Removed; run this again.") from error
        finally:
            part.unlink()
        new.append(_accept(unpacked, text, f"{home}/{text.name}.gz", CHANGED_HINT))
    return new


def copy(texts: Sequence[Text], output: Path, *, mirror: Path) -> list[Path]:
    """Copy every text not yet in `output` from the folder `mirror`; returns and raises as `download`."""
    new = []
    for text in _missing(texts, output):
        unpacked = output / f"{text.name}.part"
        try:
            shutil.copyfile(mirror / text.name, unpacked)
        except OSError as error:
            raise DownloadError(f"{mirror / text.name}: cannot be copied: {error.strerror}.") from error
        new.append(_accept(unpacked, text, str(mirror / text.name), "This copy is corrupt, or of another version."))
    return new


def _missing(texts: Sequence[Text], output: Path) -> list[Text]:
    output.mkdir(parents=True, exist_ok=True)
    return [text for text in texts if not (output / text.name).is_file() or _sum(output / text.name) != text.sha256]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _accept(unpacked: Path, text: Text, origin: str, fix: str) -> Path:
    """Check a text and rename it to its final name."""
    sha256 = _sum(unpacked)
    if sha256 != text.sha256:
        unpacked.unlink()
        raise DownloadError(
            f"{origin}: the text is not the one expected.\n"
            f"  expected SHA-256 {text.sha256}\n"
            f"  found    SHA-256 {sha256}\n"
            f"  {fix}"
        )
    return unpacked.replace(unpacked.with_name(text.name))


def _fetch(url: str, part: Path, pauses: Sequence[float]) -> None:
    for pause in (*pauses, None):
        try:
            _continue(url, part)
            return
        except (OSError, HTTPException) as error:  # URLError, timeouts and resets are OSErrors
            is_final = isinstance(error, urllib.error.HTTPError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
            if is_final or pause is None:
                raise DownloadError(
                    f"{url}: cannot be fetched: {error}.\n"
                    "  Run this again (it resumes), or use a copy of the files with --mirror DIR."
                ) from error
            time.sleep(pause)


def _continue(url: str, part: Path) -> None:
    """Append the missing bytes to `part`. Raises OSError if the transfer breaks off."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response: HTTPResponse = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return  # complete; another file would have another sum
            raise
    with response:
        resumed = response.status == HTTPStatus.PARTIAL_CONTENT
        have = have if resumed else 0
        rest = response.headers["Content-Length"]
        total = have + int(rest) if rest else None
        progress = tqdm(desc=part.stem, total=total, initial=have, unit="B", unit_scale=True)
        with part.open("ab" if resumed else "wb") as file, progress:
            while chunk := response.read(1 << 16):
                file.write(chunk)
                progress.update(len(chunk))
    if total is not None and part.stat().st_size != total:  # an early end is not an error of the connection
        raise OSError(f"broke off after {part.stat().st_size} of {total} bytes")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fetch a public corpus and check it.")
    parser.add_argument("corpus", choices=["multi30k"], help="image captions, English-German, 29,000 pairs")
    parser.add_argument("--output", type=Path, help="the folder to fill (default: data/CORPUS)")
    parser.add_argument("--mirror", type=Path, help="copy from DIR/CORPUS/ instead of the network", metavar="DIR")
    options = parser.parse_args(arguments)
    output = options.output or Path("data") / options.corpus
    try:
        if options.mirror:
            new = copy(MULTI30K, output, mirror=options.mirror / options.corpus)
        else:
            new = download(MULTI30K, output, home=MULTI30K_HOME)
    except (DownloadError, OSError) as error:  # a folder that cannot be written, a full disk
        print(f"download: {error}", file=sys.stderr)
        return 2
    print(f"{output}: {len(new)} files new, {len(MULTI30K) - len(new)} already right")
    return 0


if __name__ == "__main__":
    sys.exit(main())

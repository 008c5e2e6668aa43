"""Downloads resume, retry, and never leave a text under its name that is not the one expected."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
MIRROR = ROOT.parent / "shared" / "corpora"
CONTENT = "".join(f"Satz Nummer {i}: {hashlib.sha256(bytes([i])).hexdigest()}\n" for i in range(200)).encode()
PACKED = gzip.compress(CONTENT, mtime=0)


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("download", ROOT / "scripts" / "download.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["download"] = module  # where dataclass looks for its annotations
    spec.loader.exec_module(module)
    return module


script = load_script()
TEXT = script.Text("train.de", hashlib.sha256(CONTENT).hexdigest())


@dataclass
class Home:
    """A web server for one file, that can break off, fail or know no ranges."""

    url: str = ""
    ranges: bool = True
    break_after: int | None = None
    """Bytes of the first answer, after which the connection closes."""
    failures: int = 0
    """Requests that are answered 503 before one is served."""
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def home() -> Iterator[Home]:
    state = Home()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            state.asked.append(wanted)
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and state.ranges else 0
            if self.path != "/raw/train.de.gz":
                return self.send_error(404)
            if state.failures:
                state.failures -= 1
                return self.send_error(503)
            if start >= len(PACKED):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(PACKED) - start))
            self.end_headers()
            self.wfile.write(PACKED[start : state.break_after])
            state.break_after = None
            return None

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/raw"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_is_fetched_once(home: Home, tmp_path: Path):
    output = tmp_path / "new"
    assert script.download([TEXT], output, home=home.url, pauses=()) == [output / "train.de"]
    assert (output / "train.de").read_bytes() == CONTENT
    assert script.download([TEXT], output, home=home.url, pauses=()) == []
    assert home.asked == [None]
    assert names(output) == ["train.de"]


def test_a_transfer_that_breaks_off_goes_on(home: Home, tmp_path: Path):
    home.break_after = 1000
    script.download([TEXT], tmp_path, home=home.url, pauses=(0,))
    assert (tmp_path / "train.de").read_bytes() == CONTENT
    assert home.asked == [None, "bytes=1000-"]


def test_an_earlier_run_is_resumed(home: Home, tmp_path: Path):
    home.break_after = 1000
    with pytest.raises(script.DownloadError, match=f"broke off after 1000 of {len(PACKED)} bytes"):
        script.download([TEXT], tmp_path, home=home.url, pauses=())
    assert names(tmp_path) == ["train.de.gz.part"]
    script.download([TEXT], tmp_path, home=home.url, pauses=())
    assert home.asked == [None, "bytes=1000-"]
    assert names(tmp_path) == ["train.de"]


def test_a_whole_part_is_not_fetched_again(home: Home, tmp_path: Path):
    (tmp_path / "train.de.gz.part").write_bytes(PACKED)
    script.download([TEXT], tmp_path, home=home.url, pauses=())
    assert home.asked == [f"bytes={len(PACKED)}-"]
    assert (tmp_path / "train.de").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(home: Home, tmp_path: Path):
    home.ranges = False
    (tmp_path / "train.de.gz.part").write_bytes(PACKED[:500])
    script.download([TEXT], tmp_path, home=home.url, pauses=())
    assert (tmp_path / "train.de").read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(home: Home, tmp_path: Path):
    home.failures = 2
    script.download([TEXT], tmp_path, home=home.url, pauses=(0, 0))
    assert len(home.asked) == 3


def test_a_file_that_is_not_there_is_asked_for_once(home: Home, tmp_path: Path):
    with pytest.raises(script.DownloadError, match=r"raw/none\.de\.gz: cannot be fetched: HTTP Error 404"):
        script.download([script.Text("none.de", "0" * 64)], tmp_path, home=home.url, pauses=(60,))
    assert len(home.asked) == 1


def test_nobody_there_says_what_to_do(tmp_path: Path):
    with pytest.raises(script.DownloadError, match="--mirror DIR"):
        script.download([TEXT], tmp_path, home="http://127.0.0.1:9/raw", pauses=(0,))


def test_another_text_is_refused_and_removed(home: Home, tmp_path: Path):
    wrong = script.Text("train.de", "0" * 64)
    with pytest.raises(script.DownloadError) as caught:
        script.download([wrong], tmp_path, home=home.url, pauses=())
    assert all(part in str(caught.value) for part in ("train.de.gz", wrong.sha256, TEXT.sha256, "run this again"))
    assert names(tmp_path) == []


@pytest.mark.parametrize("beginning", [b"something else", PACKED[:500] + b"\0" * 500])
def test_a_damaged_part_is_dropped(home: Home, tmp_path: Path, beginning: bytes):
    (tmp_path / "train.de.gz.part").write_bytes(beginning)
    with pytest.raises(script.DownloadError, match="run this again"):
        script.download([TEXT], tmp_path, home=home.url, pauses=())
    assert names(tmp_path) == []
    script.download([TEXT], tmp_path, home=home.url, pauses=())
    assert names(tmp_path) == ["train.de"]


def test_a_mirror_is_copied_and_checked(tmp_path: Path):
    mirror, output = tmp_path / "mirror", tmp_path / "output"
    mirror.mkdir()
    (mirror / "train.de").write_bytes(CONTENT)
    assert script.copy([TEXT], output, mirror=mirror) == [output / "train.de"]
    assert script.copy([TEXT], output, mirror=mirror) == []

    (output / "train.de").write_bytes(b"spoilt\n")
    assert script.copy([TEXT], output, mirror=mirror) == [output / "train.de"]
    assert (output / "train.de").read_bytes() == CONTENT

    (mirror / "train.de").write_bytes(b"spoilt\n")
    (output / "train.de").unlink()
    with pytest.raises(script.DownloadError, match="not the one expected"):
        script.copy([TEXT], output, mirror=mirror)
    assert names(output) == []


def test_the_command_exits_two_and_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = script.main(["multi30k", "--output", str(tmp_path / "out"), "--mirror", str(tmp_path)])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'multi30k' / 'train.de'}: cannot be copied: No such file" in err

    (tmp_path / "file").touch()
    assert script.main(["multi30k", "--output", str(tmp_path / "file")]) == 2


@pytest.mark.skipif(not MIRROR.is_dir(), reason="no ../shared/corpora here")
def test_the_command_fills_a_folder_from_the_mirror(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["multi30k", "--output", str(tmp_path), "--mirror", str(MIRROR)]
    assert script.main(arguments) == script.main(arguments) == 0
    assert "10 files new, 0 already right" in (out := capsys.readouterr().out)
    assert "0 files new, 10 already right" in out
    assert names(tmp_path) == sorted(text.name for text in script.MULTI30K)

"""Downloads: resumed, retried, and checked before they get their name."""

import gzip
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import download as script
import pytest

CONTENT = "".join(f"Satz Nummer {i}: {hashlib.sha256(bytes([i])).hexdigest()}\n" for i in range(200)).encode()
COMPRESSED = gzip.compress(CONTENT, mtime=0)
TEXT = script.Text("train.de", hashlib.sha256(CONTENT).hexdigest())


@dataclass
class Server:
    """A web server for one file."""

    url: str = ""
    supports_ranges: bool = True
    break_after: int | None = None  # bytes of the first response, after which the connection closes
    num_failures: int = 0  # requests with status 503 before one succeeds
    ranges: list[str | None] = field(default_factory=list)  # of all requests


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested = self.headers["Range"]
            state.ranges.append(requested)
            is_partial = requested and state.supports_ranges
            start = int(requested.removeprefix("bytes=").removesuffix("-")) if is_partial else 0
            if self.path != "/raw/train.de.gz":
                return self.send_error(404)
            if state.num_failures:
                state.num_failures -= 1
                return self.send_error(503)
            if start >= len(COMPRESSED):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(COMPRESSED) - start))
            self.end_headers()
            self.wfile.write(COMPRESSED[start : state.break_after])
            state.break_after = None
            return None

        def log_message(self, format: str, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}/raw"
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def download(server: Server, folder: Path, text: script.Text = TEXT, *, pauses: tuple[int, ...] = ()) -> list[Path]:
    return script.download([text], folder, home=server.url, pauses=pauses)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_is_downloaded_once(server: Server, tmp_path: Path):
    output = tmp_path / "new"
    assert download(server, output) == [output / "train.de"]
    assert (output / "train.de").read_bytes() == CONTENT
    assert download(server, output) == []
    assert server.ranges == [None]
    assert names(output) == ["train.de"]


def test_an_interrupted_transfer_is_resumed(server: Server, tmp_path: Path):
    server.break_after = 1000
    download(server, tmp_path / "retried", pauses=(0,))
    server.break_after = 1000
    with pytest.raises(script.DownloadError, match=f"broke off after 1000 of {len(COMPRESSED)} bytes"):
        download(server, tmp_path / "later")
    assert names(tmp_path / "later") == ["train.de.gz.part"]
    download(server, tmp_path / "later")
    assert server.ranges == [None, "bytes=1000-"] * 2
    assert (tmp_path / "retried/train.de").read_bytes() == (tmp_path / "later/train.de").read_bytes() == CONTENT


@pytest.mark.parametrize(("supports_ranges", "size"), [(True, len(COMPRESSED)), (False, 500)])
def test_the_part_is_complete_or_the_server_sends_all(server: Server, tmp_path: Path, supports_ranges: bool, size: int):
    server.supports_ranges = supports_ranges
    (tmp_path / "train.de.gz.part").write_bytes(COMPRESSED[:size])
    download(server, tmp_path)
    assert server.ranges == [f"bytes={size}-"]
    assert (tmp_path / "train.de").read_bytes() == CONTENT


def test_errors_of_servers(server: Server, tmp_path: Path):
    with pytest.raises(script.DownloadError, match=r"raw/none\.de\.gz: cannot be fetched: HTTP Error 404"):
        download(server, tmp_path, script.Text("none.de", "0" * 64), pauses=(60,))
    assert len(server.ranges) == 1  # without a retry
    server.num_failures = 2
    download(server, tmp_path, pauses=(0, 0))
    assert len(server.ranges) == 4
    with pytest.raises(script.DownloadError, match="--mirror DIR"):
        script.download([TEXT], tmp_path / "new", home="http://127.0.0.1:9/raw", pauses=(0,))


@pytest.mark.parametrize("part", [None, b"something else", COMPRESSED[:500] + b"\0" * 500])
def test_a_wrong_text_is_an_error_and_removed(server: Server, tmp_path: Path, part: bytes | None):
    wrong = script.Text("train.de", "0" * 64)
    if part is not None:
        (tmp_path / "train.de.gz.part").write_bytes(part)
    with pytest.raises(script.DownloadError, match="run this again") as error:
        download(server, tmp_path, TEXT if part else wrong)
    assert part or all(text in str(error.value) for text in ("train.de.gz", wrong.sha256, TEXT.sha256))
    assert names(tmp_path) == []


def test_a_mirror_is_copied_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    mirror, output = tmp_path / "multi30k", tmp_path / "output"
    command = ["multi30k", "--output", str(output), "--mirror", str(tmp_path)]
    assert script.main(command) == 2
    assert f"{mirror / 'train.de'}: cannot be copied: No such file" in capsys.readouterr().err
    monkeypatch.setattr(script, "MULTI30K", (TEXT,))
    mirror.mkdir()
    (mirror / "train.de").write_bytes(CONTENT)
    (output / "train.de").write_bytes(b"corrupt\n")
    for counts in ("1 files new, 0 already right", "0 files new, 1 already right"):
        assert script.main(command) == 0
        assert counts in capsys.readouterr().out and (output / "train.de").read_bytes() == CONTENT
    (mirror / "train.de").write_bytes(b"corrupt\n")
    (output / "train.de").unlink()
    assert script.main(command) == 2
    assert "not the one expected" in capsys.readouterr().err and names(output) == []

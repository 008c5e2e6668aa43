"""Downloads: resumed and retried."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from seq2attn.errors import UserError
from seq2attn.io.download import download
from seq2attn.io.lock import lock
from tests.support.file_server import Server, serve

CONTENT = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(200))


@pytest.fixture
def server() -> Iterator[Server]:
    with serve({"/a/file": CONTENT}) as server:
        yield server


def test_an_interrupted_transfer_is_resumed(server: Server, tmp_path: Path) -> None:
    retried, later = tmp_path / "retried", tmp_path / "later"
    server.break_after = 1000
    download(f"{server.url}/a/file", retried, pauses=(0,))
    server.break_after = 1000
    with pytest.raises(UserError, match=f"a/file: .*broke off after 1000 of {len(CONTENT)} bytes"):
        download(f"{server.url}/a/file", later, pauses=())
    assert later.read_bytes() == CONTENT[:1000]
    download(f"{server.url}/a/file", later, pauses=())
    assert server.ranges == [None, "bytes=1000-"] * 2
    assert retried.read_bytes() == later.read_bytes() == CONTENT


@pytest.mark.parametrize(("supports_ranges", "size"), [(True, len(CONTENT)), (False, 500)])
def test_the_file_is_complete_or_the_server_sends_all(
    server: Server, tmp_path: Path, supports_ranges: bool, size: int
) -> None:
    server.supports_ranges = supports_ranges
    (tmp_path / "part").write_bytes(CONTENT[:size])
    download(f"{server.url}/a/file", tmp_path / "part")
    assert server.ranges == [f"bytes={size}-"]
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_a_longer_file_is_of_another_origin_and_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"old" + CONTENT)
    download(f"{server.url}/a/file", tmp_path / "part", pauses=(0,))
    assert server.ranges == [f"bytes={len(CONTENT) + 3}-", None]
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_one_process_at_a_time_fetches_a_file(server: Server, tmp_path: Path) -> None:
    with (tmp_path / "part").open("ab") as other:
        assert lock(other.fileno())
        with pytest.raises(UserError, match=r"part: another process fetches it; wait for its end"):
            download(f"{server.url}/a/file", tmp_path / "part")
    assert server.ranges == []
    download(f"{server.url}/a/file", tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_errors_of_servers(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a/none: cannot be fetched: HTTP Error 404"):
        download(f"{server.url}/a/none", tmp_path / "none", pauses=(60,))
    assert len(server.ranges) == 1  # without a retry
    server.num_failures = 2
    download(f"{server.url}/a/file", tmp_path / "file", pauses=(0, 0))
    assert len(server.ranges) == 4
    with pytest.raises(UserError, match="``mirror=DIR``"):
        download("http://127.0.0.1:9/file", tmp_path / "new", pauses=(0,))

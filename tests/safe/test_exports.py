"""Exported models that were damaged, or that lie: CTranslate2 would believe what they say of themselves."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
import torch

from seq2attn.engines.ctranslate2 import CTranslate2
from seq2attn.engines.ctranslate2.packed import check_packed
from seq2attn.engines.exported import check_header, write_header
from seq2attn.errors import RunError
from seq2attn.run import Run
from tests.safe.untrained import CONFIG, untrained

pytest.importorskip("ctranslate2")
OURS = "  encoder: {kind: gru, dim: 8}\n  decoder: {kind: luong, dim: 8}\n"
TRANSFORMER = """\
  encoder: {kind: transformer, layers: 1, heads: 2, feed_forward: 8}
  decoder:
    {kind: transformer, layers: 1, heads: 2, feed_forward: 8, attention: {score: {kind: multi-head, heads: 2}}}
"""
TARGET = CTranslate2()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and in it an export."""
    folder = tmp_path_factory.mktemp("exported")
    assert OURS in CONFIG
    run = untrained(folder, CONFIG.replace(OURS, TRANSFORMER))
    where = run.folder / TARGET.name
    where.mkdir()
    TARGET.write(run, where, "float32")
    write_header(run, TARGET, "float32", {}, where)
    return folder


@pytest.fixture
def copy(exported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(exported, tmp_path / "copy") / "run" / TARGET.name


def test_it_is_sound(exported: Path) -> None:
    run = Run(exported / "run")
    check_header(run, TARGET, run.folder / TARGET.name)
    TARGET.open(run, run.folder / TARGET.name, torch.device("cpu"))


@pytest.mark.parametrize("type_", TARGET.types)
def test_what_is_exported_is_sound(exported: Path, tmp_path: Path, type_: str) -> None:
    TARGET.write(Run(exported / "run"), tmp_path, type_)
    check_packed(tmp_path / "model.bin", "")


@pytest.mark.parametrize("name", ["model.bin", "config.json", "*_vocabulary.json"])
def test_damage_is_seen(copy: Path, name: str) -> None:
    run, file = Run(copy.parent), next(copy.glob(name))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="does not hold what was exported to it"):
        check_header(run, TARGET, copy)
    file.unlink()
    with pytest.raises(RunError, match="does not hold what was exported to it"):
        check_header(run, TARGET, copy)


def parts(content: bytes) -> tuple[int, int]:
    """Where the shape of the first variable is that has one, and where the number of its bytes."""

    def after_text(place: int) -> int:
        return place + 2 + struct.unpack_from("<H", content, place)[0]

    place = after_text(4) + 4 + 4
    while (rank := content[shape := after_text(place)]) == 0:
        length = shape + 1 + 1
        place = length + 4 + struct.unpack_from("<I", content, length)[0]
    return shape + 1, shape + 1 + 4 * rank + 1


class TestForged:
    """Any part that says what is not so."""

    def refused(self, copy: Path, content: bytes) -> str:
        (copy / "model.bin").write_bytes(content)
        with pytest.raises(RunError, match=r"model\.bin: is no model of CTranslate2, or is damaged") as error:
            check_packed(copy / "model.bin", "")
        return str(error.value)

    def test_shapes(self, copy: Path) -> None:
        content = bytearray((copy / "model.bin").read_bytes())
        shape, _ = parts(content)
        struct.pack_into("<I", content, shape, 2**31)
        assert "is not of the size that its shape says" in self.refused(copy, content)

    def test_shapes_that_overflow(self, copy: Path) -> None:
        """Of which 64 bits would hold the product, less what does not fit."""
        content = bytearray((copy / "model.bin").read_bytes())
        shape, length = parts(content)
        rank = content[shape - 1]
        forged = (
            content[: shape - 1]
            + bytes([rank + 3])
            + struct.pack("<3I", 2**30, 2**30, 2**4)
            + content[shape:]
        )
        struct.pack_into("<I", forged, length + 12, 0)
        assert "is not of the size that its shape says" in self.refused(copy, forged)

    def test_lengths(self, copy: Path) -> None:
        content = bytearray((copy / "model.bin").read_bytes())
        shape, length = parts(content)
        rank = content[shape - 1]
        for n in range(rank):
            struct.pack_into("<I", content, shape + 4 * n, 1 if n else 2**29)
        struct.pack_into("<I", content, length, 2**31)
        assert "leads out of the file" in self.refused(copy, content)

    @pytest.mark.parametrize("kept", [0, 3, 7, 40, 400, -1, -100])
    def test_torn(self, copy: Path, kept: int) -> None:
        self.refused(copy, (copy / "model.bin").read_bytes()[:kept])

    def test_more(self, copy: Path) -> None:
        assert "more in it" in self.refused(copy, (copy / "model.bin").read_bytes() + b"\0")

    def test_numbers_of_variables(self, copy: Path) -> None:
        content = bytearray((copy / "model.bin").read_bytes())
        place = 4 + 2 + struct.unpack_from("<H", content, 4)[0] + 4
        for number in (0, 1, 2**32 - 1):
            struct.pack_into("<I", content, place, number)
            self.refused(copy, bytes(content))

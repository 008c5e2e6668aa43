"""What was learnt from is known again, however it is written in Unicode and spaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seq2attn.data.seen import Seen, line_numbers
from seq2attn.errors import RunError


def test_what_is_the_same_text_is_the_same() -> None:
    numbers = line_numbers(["cafe\u0301  au lait ", "café au lait", "café au\u2028lait", "Café au lait"])
    assert numbers[0] == numbers[1] == numbers[2] != numbers[3]


def test_neighbours_do_not_matter() -> None:
    lines = ["", " ", "a", "a  b", "\ud800", "é", "e\u0301", "a\nb", "a b"]
    assert line_numbers(lines).tolist() == [int(line_numbers([line])[0]) for line in lines]


def test_it_is_kept(tmp_path: Path) -> None:
    sources, targets = line_numbers(["a", "b", "b"]), line_numbers(["x", "y", "y"])
    Seen.of(sources, targets).save(tmp_path / "seen")
    seen = Seen.open(tmp_path / "seen")
    assert seen is not None
    asked = line_numbers(["b", "b", "y", "c"]), line_numbers(["y", "x", "b", "y"])
    assert seen.overlap(*asked) == (2, 1)
    assert Seen.open(tmp_path / "none") is None


def test_damage_is_told(tmp_path: Path) -> None:
    Seen.of(line_numbers(["a"]), line_numbers(["x"])).save(tmp_path)
    np.save(tmp_path / "pairs.npy", np.zeros((2, 2)))
    with pytest.raises(RunError, match="does not hold the numbers"):
        Seen.open(tmp_path)
    (tmp_path / "pairs.npy").write_bytes(b"no")
    with pytest.raises(RunError, match="cannot be read"):
        Seen.open(tmp_path)

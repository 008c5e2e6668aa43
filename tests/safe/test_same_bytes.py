"""Files of weights: the same tensors and metadata are the same bytes, in any process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import torch

from seq2attn.io.weights import load_tensors, save_tensors

ROOT = Path(__file__).parents[2]
ABOUT = {name: f'{name} "ä\u2028\x01\x7f\\/' for name in ("source", "target", "origin", "one", "two", "three")}
SAVE = """\
import sys
from pathlib import Path
from tests.safe.test_same_bytes import save
print(save(Path(sys.argv[1])))
"""


def save(path: Path) -> str:
    """SHA-256 of a file of weights."""
    save_tensors({"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(3, dtype=torch.int64)}, path, ABOUT)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_same_is_saved_as_the_same_bytes(tmp_path: Path) -> None:
    digests = {save(tmp_path / str(number)) for number in range(3)}
    command = [sys.executable, "-c", SAVE, str(tmp_path / "other")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert digests == {done.stdout.strip()}
    assert load_tensors(tmp_path / "other")["b"].tolist() == [[0, 1, 2], [3, 4, 5]]

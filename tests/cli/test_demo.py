"""The demonstration, as it is: a new environment, training, BLEU of at least 90 on unseen combinations, pictures."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "runs", "demo", "multi30k", "__pycache__", ".*_cache")


@pytest.mark.slow
def test_the_demonstration_on_a_fresh_copy(tmp_path):
    copy = tmp_path / "seq2attn"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    subprocess.run(["bash", "scripts/demo.sh", "here"], cwd=copy, check=True)
    report = json.loads((copy / "here/run/evaluation/unseen.json").read_text(encoding="utf-8"))
    bleu = report["scores"][0]
    assert bleu["name"] == "BLEU"
    assert bleu["value"] >= 90
    for name in ("attention.png", "bleu-by-length.png"):
        assert (copy / "here" / name).read_bytes().startswith(b"\x89PNG")

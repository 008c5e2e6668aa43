"""A sentence to verify imports with, where these are not what a test is about."""

from pathlib import Path

import pytest

from tests.support.marian import SOURCE


@pytest.fixture
def sentence(tmp_path: Path) -> Path:
    """A file with one sentence: random weights translate to the maximum length, so more of them take long."""
    file = tmp_path / "sentence"
    file.write_text(SOURCE[0], encoding="utf-8")
    return file

"""A setting of the benchmarks with a small text."""

from pathlib import Path

import pytest
from benchmark.setting import Setting

from tests.support.corpora import write_phrases


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_phrases(corpus, {"train": 300, "val": 60, "test_2016_flickr": 120})
    return Setting(corpus, tmp_path / "runs", threads=1)

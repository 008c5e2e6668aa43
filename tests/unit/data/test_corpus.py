"""Corpora of ids: saved and loaded unchanged; corrupt files are errors."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2attn.data.corpus import Corpus
from seq2attn.errors import RunError

Ids = st.lists(st.integers(0, 65535), max_size=5)
PAIRS = [([5, 6, 7], [8]), ([], []), ([9], [10, 11])]


@settings(deadline=None, max_examples=30)
@given(pairs=st.lists(st.tuples(Ids, Ids)), size=st.sampled_from([2**16, 2**16 + 1]))
def test_a_corpus_is_loaded_as_it_was_saved(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[int], list[int]]], size: int
) -> None:
    saved = Corpus.from_pairs(pairs, size)
    folder = tmp_path_factory.getbasetemp() / "corpus"
    saved.save(folder)
    loaded = Corpus.load(folder)
    assert isinstance(loaded.ids, np.memmap)
    for corpus in (saved, loaded):
        assert [(source.tolist(), target.tolist()) for source, target in corpus] == pairs
        assert corpus.lengths.tolist() == [[len(source), len(target)] for source, target in pairs]
        assert len(corpus) == len(pairs) and corpus.hash == saved.hash
        assert corpus.ids.dtype == (np.uint16 if size == 2**16 else np.int32)


def test_saving_again_replaces(tmp_path: Path) -> None:
    for pairs in (PAIRS, PAIRS[:1]):
        Corpus.from_pairs(pairs, 20).save(tmp_path / "c")
    assert len(Corpus.load(tmp_path / "c")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_corrupt_files_are_errors(tmp_path: Path) -> None:
    def message() -> str:
        with pytest.raises(RunError) as error:
            Corpus.load(tmp_path / "c")
        return str(error.value)

    assert message().startswith(f"{tmp_path / 'c/header.json'}: cannot be read (No such file or directory)")
    Corpus.from_pairs(PAIRS, 20).save(tmp_path / "c")
    for other in (np.zeros(9, dtype=np.uint16), np.zeros(7), np.full(7, -1, dtype=np.int32)):
        np.save(tmp_path / "c/ids.npy", other)
        assert "the prepared ids are not pairs of sequences" in message()
    np.save(tmp_path / "c/ids.npy", np.zeros(7, dtype=np.uint16))
    assert "the prepared ids are not those that were saved (the hash differs)" in message()
    assert message().endswith("prepare the data again")
    (tmp_path / "c/ids.npy").write_bytes(b"")
    assert "ids.npy: cannot be read" in message()


@pytest.mark.parametrize("index", [3, -1])
def test_indices_out_of_range(index: int) -> None:
    with pytest.raises(IndexError):
        Corpus.from_pairs(PAIRS, 20)[index]

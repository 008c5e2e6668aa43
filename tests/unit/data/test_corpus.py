"""Corpora of ids: what was written is read back, and damage is seen."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2attn.data.corpus import Corpus
from seq2attn.errors import RunError

Sequences = st.lists(st.integers(0, 65535), max_size=5)
PAIRS = [([5, 6, 7], [8]), ([], []), ([9], [10, 11])]


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(Sequences, Sequences)), size=st.sampled_from([2**16, 2**16 + 1]))
def test_it_reads_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[list[int], list[int]]], size: int
) -> None:
    corpus = Corpus.from_pairs(pairs, size)
    folder = tmp_path_factory.getbasetemp() / "corpus"
    corpus.save(folder)
    for one in (corpus, Corpus.load(folder)):
        assert [(source.tolist(), target.tolist()) for source, target in one] == pairs
        assert one.lengths.tolist() == [[len(source), len(target)] for source, target in pairs]
        assert len(one) == len(pairs) and one.hash == corpus.hash
        assert one.ids.dtype == (np.uint16 if size == 2**16 else np.int32)


def test_ids_stay_on_disk_until_asked_for(tmp_path: Path) -> None:
    Corpus.from_pairs(PAIRS, 20).save(tmp_path / "c")
    assert isinstance(Corpus.load(tmp_path / "c").ids, np.memmap)


def test_saving_again_replaces(tmp_path: Path) -> None:
    Corpus.from_pairs(PAIRS, 20).save(tmp_path / "c")
    Corpus.from_pairs(PAIRS[:1], 20).save(tmp_path / "c")
    assert len(Corpus.load(tmp_path / "c")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_damage_is_seen(tmp_path: Path) -> None:
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
    assert "the prepared ids cannot be read" in message()


def test_outside() -> None:
    corpus = Corpus.from_pairs(PAIRS, 20)
    with pytest.raises(IndexError):
        corpus[3]
    with pytest.raises(IndexError):
        corpus[-1]

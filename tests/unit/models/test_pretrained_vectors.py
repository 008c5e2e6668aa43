"""Word vectors read by torchtext, without its untrusted cache and its global settings."""

import gzip
import pickle
import ssl
from pathlib import Path

import pytest
from pydantic import ValidationError

from seq2attn.errors import DataError
from seq2attn.models.model_config import EmbeddingsConfig
from seq2attn.models.pretrained_vectors import load_vectors

WORDS = {"house": [0.5, -1.0, 2.0], "Haus": [1.0, 0.0, 0.25], "äpfel": [3.0, 3.5, -4.0]}
LINES = [f"{word} {' '.join(map(str, vector))}" for word, vector in WORDS.items()]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_vectors_are_found_exactly_then_in_lower_case(tmp_path: Path):
    path = write(tmp_path / "glove.txt", LINES)
    tokens = ["<unk>", "Haus", "House", "haus", "Äpfel"]
    table, coverage = load_vectors(path, tokens, 3)
    zero = [0.0, 0.0, 0.0]
    assert table.tolist() == [zero, WORDS["Haus"], WORDS["house"], zero, WORDS["äpfel"]]
    assert coverage.is_covered.tolist() == [False, True, True, False, True]
    assert str(coverage) == "pretrained vectors for 3 of 5 tokens (60.0%); none for <unk>, haus"


def test_a_fasttext_header_and_compressed_files_are_read(tmp_path: Path):
    path = write(tmp_path / "wiki.vec", ["3 3", *(line + " " for line in LINES)])
    table, coverage = load_vectors(path, list(WORDS), 3)
    assert table.tolist() == list(WORDS.values())
    assert str(coverage) == "pretrained vectors for 3 of 3 tokens (100.0%)"
    path = tmp_path / "glove.txt.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    assert load_vectors(path, ["Haus"], 3)[0].tolist() == [WORDS["Haus"]]


def test_no_cache_is_written_or_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path / "glove.txt", LINES)
    planted = tmp_path / "glove.txt.pt"
    planted.write_bytes(pickle.dumps("untrusted"))
    (tmp_path / ".vector_cache").mkdir()
    (tmp_path / ".vector_cache" / "glove.txt.pt").write_bytes(planted.read_bytes())
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert load_vectors(Path("glove.txt"), ["Haus"], 3)[1].is_covered.all()
    assert sorted(tmp_path.rglob("*")) == before
    assert path.exists()


def test_certificates_stay_checked(tmp_path: Path):
    before = ssl._create_default_https_context
    load_vectors(write(tmp_path / "glove.txt", LINES), ["Haus"], 3)
    with pytest.raises(DataError):
        load_vectors(write(tmp_path / "bad.txt", [*LINES, "short 1.0 2.0"]), ["Haus"], 3)
    assert ssl._create_default_https_context is before


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINES, r"vectors\.txt:1: expected a word and 5 numbers, found 3"),
        (["3 3", *LINES], r"vectors\.txt:2: expected a word and 5 numbers, found 3"),
        ([], r"vectors\.txt: cannot be read as word vectors"),
        (["a 1 2 3 4 5", "b 1 2 3 4 5", "c 1 2"], r"vectors\.txt:3: expected a word and 5 numbers, found 2"),
        (["a 1 2 3 4 5", "b 1 2 3 4 5", "c 1 2 3 4 x"], r"vectors\.txt:3: expected a word and 5 finite"),
        (["a 1 2 3 4 5", "b 1 2 3 4 5", ""], r"vectors\.txt:3: expected a word and 5 numbers, found 0"),
        (["a 1 2 3 4 5", "b 1 2 3 4 5", "c 1 2 3 4 nan"], r"vectors\.txt:3: expected .* finite"),
        (["a 1 2 3 4 5", "b 1 2 3 4 5", "c 1 2 3 4 1e99"], r"vectors\.txt: has numbers too large"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(tmp_path: Path, lines: list[str], message: str):
    with pytest.raises(DataError, match=message):
        load_vectors(write(tmp_path / "vectors.txt", lines), ["c"], 5)


def test_a_missing_or_truncated_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"none\.txt: cannot be read: .*No such file"):
        load_vectors(tmp_path / "none.txt", ["a"], 3)
    truncated = tmp_path / "truncated.gz"
    truncated.write_bytes(gzip.compress("\n".join(LINES).encode())[:-12])
    with pytest.raises(DataError, match=r"truncated\.gz: cannot be read"):
        load_vectors(truncated, ["a"], 3)


def test_one_table_takes_one_file():
    """The second file would replace the vectors of the first."""
    files = {"source_vectors": "a.vec", "target_vectors": "b.vec"}
    with pytest.raises(ValidationError, match="both sides share one table; give only one of `source_vectors`"):
        EmbeddingsConfig(tie="all", **files)
    for tie, one in (("output", files), ("all", {"source_vectors": "a.vec"}), ("all", {"target_vectors": "b.vec"})):
        EmbeddingsConfig(tie=tie, **one)

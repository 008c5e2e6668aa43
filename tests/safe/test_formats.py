"""Every format that ever was is read, and one that is not known yet is told from damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.numpy

from seq2attn import formats
from seq2attn.alignment.head import recorded
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepare import load_prepared
from seq2attn.engines.exported import check_header, fingerprint
from seq2attn.engines.targets import TARGETS
from seq2attn.errors import RunError
from seq2attn.formats import format_of
from seq2attn.run import Run
from seq2attn.sweep.record import read_record
from seq2attn.training.checkpoint import read_checkpoint
from seq2attn.translator import Translator
from seq2attn.weights import load_tensors
from tests.safe.untrained import untrained

PATH = Path("some/file.json")


@pytest.mark.parametrize(
    "said", [{}, {"format": None}, {"format": "1"}, {"format": True}, {"format": 0}, {"format": 1.0}]
)
def test_no_format(said: dict[str, object]) -> None:
    with pytest.raises(RunError, match=r"some/file\.json: says no format.*; mend it"):
        format_of(said, 2, PATH, "mend it")


def test_newer_formats() -> None:
    assert [format_of({"format": n}, 3, PATH, "") for n in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(RunError, match=r"is of format 4, made by a newer .* which knows formats 1 to 3"):
        format_of({"format": 4}, 3, PATH, "")
    with pytest.raises(RunError, match="knows format 1: pip install --upgrade seq2attn"):
        format_of({"format": 2**60}, 1, PATH, "")


def of_export(run: Run) -> None:
    content = {"format": formats.EXPORT, "engine": "ctranslate2", "weights": fingerprint(run), "digests": {}}
    folder = run.folder / "ctranslate2"
    if not folder.exists():
        folder.mkdir()
        (folder / "seq2attn.json").write_text(json.dumps(content), encoding="utf-8")
    check_header(run, TARGETS["ctranslate2"], folder)


def load(run: Run) -> None:
    Translator.load(run.folder)


def origin(run: Run) -> None:
    """As of weights of before they said so themselves."""
    tensors = load_tensors(run.weights)
    safetensors.numpy.save_file({name: tensor.numpy() for name, tensor in tensors.items()}, run.weights)
    run.origin()


WHERE: dict[str, tuple[str, Callable[[Run], object]]] = {
    "RUN": ("run.json", load),
    "WEIGHTS": ("model.json", origin),
    "CHECKPOINT": (
        "checkpoints/00000001/state.json",
        lambda run: read_checkpoint(run.folder / "checkpoints/00000001"),
    ),
    "ALIGNMENT": ("alignment.json", recorded),
    "TOKENIZER": ("source/tokenizer.json", load),
    "VOCABULARY": ("target/vocabulary.json", load),
    "CORPUS": ("data/dev/header.json", lambda run: Corpus.open(run.folder / "data/dev")),
    "PREPARED": ("data/prepared.json", lambda run: load_prepared(run.folder)),
    "EXPORT": ("ctranslate2/seq2attn.json", of_export),
    "SWEEP": ("result.json", lambda run: read_record(run.folder)),
}
"""Which file says its format by each number in formats.py, and what reads it."""
ELSEWHERE = {"DATA_REPORT"}  # tested beside what reads it


def test_all_are_here() -> None:
    assert {name for name in vars(formats) if name.isupper()} == {*WHERE, *ELSEWHERE}


@pytest.mark.parametrize("name", WHERE)
def test_a_newer_one_says_so(tmp_path: Path, name: str) -> None:
    run = untrained(tmp_path)
    file, read = WHERE[name]
    path = run.folder / file
    if name == "EXPORT":
        of_export(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    newest: int = getattr(formats, name)
    assert content.get("format", newest) == newest
    path.write_text(json.dumps(content | {"format": newest + 1}), encoding="utf-8")
    with pytest.raises(RunError) as error:
        read(run)
    assert f"{path}: is of format {newest + 1}, made by a newer seq2attn" in str(error.value)

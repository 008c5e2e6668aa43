"""Maps and curves are really drawn; their text form keeps its columns in any script."""

from __future__ import annotations

import json
import sys
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest

from seq2attn.drawing.alignment import SCALE, alignment_text
from seq2attn.drawing.curves import draw_bleu_by_length, draw_training
from seq2attn.drawing.picture import draw_alignment
from seq2attn.errors import DataError, UserError
from seq2attn.evaluation.metrics import LengthBucket, Score

SOURCE = ["▁Die", "kleine", "Katze", "schläft", "für", "$5", "unter", "dem", "$6", "Tisch", "</s>"]
TARGET = ["▁The", "little", "cat", "sleeps", "for", "$5", "under", "the", "$6", "table", "</s>"]


def diagonal(target: int, source: int) -> np.ndarray:
    distance = np.arange(target)[:, None] / target - np.arange(source) / source
    weights = np.exp(-200 * distance**2)
    return weights / weights.sum(1, keepdims=True)


def columns(line: str) -> int:
    wide = {"W": 2, "F": 2}
    return sum(
        wide.get(unicodedata.east_asian_width(c), 1)
        for c in line
        if unicodedata.category(c) not in ("Mn", "Me")
    )


# as text


def test_text_has_a_row_a_target_token():
    lines = alignment_text(SOURCE, TARGET, np.eye(len(TARGET))).splitlines()
    first = lines.index("  ▁The ██")
    rows = lines[first : first + len(TARGET)]
    assert [row.split()[0] for row in rows] == TARGET
    assert [row.index("██") for row in rows] == [7 + 2 * i for i in range(len(TARGET))]
    assert lines[-1] == SCALE


def test_headings_stand_above_their_columns():
    lines = alignment_text(["ab", "c"], ["x"], np.array([[1.0, 0.1]])).splitlines()
    assert lines[:3] == ["  a", "  b c", "x ██··"]


def test_long_words_become_numbers_with_a_legend():
    long = "Donaudampfschifffahrtsgesellschaft"
    text = alignment_text(["Die", long], ["x"], np.array([[0.5, 0.5]]))
    assert text.splitlines()[0] == "  1 2"
    assert f"1 Die  2 {long}" in text


@pytest.mark.parametrize("source", [5, 40, 60, 200])
def test_text_fits_eighty_columns(source: int):
    words = [f"word{i}" for i in range(source)]
    lines = alignment_text(
        words, [*TARGET, "Donaudampfschifffahrtsgesellschaft"], diagonal(12, source)
    ).splitlines()
    assert max(map(columns, lines)) <= 80


def test_wide_and_combining_characters_keep_their_columns():
    source = ["猫", "u\u0308ber", "は"]
    target = ["テーブル", "u\u0308ber", "x"]
    lines = alignment_text(source, target, np.eye(3)).splitlines()
    assert lines[:4] == ["           u\u0308", "           b", "           e", "         猫r は"]
    rows = lines[4:7]
    assert [columns(row.split("█")[0]) for row in rows] == [9, 11, 13]


def test_a_token_cannot_drive_the_terminal():
    text = alignment_text(["\x1b[31m"], ["a\nb\u202e"], np.ones((1, 1)))
    assert "\x1b" not in text and "\u202e" not in text
    assert "a�b ██" in text


def test_weights_of_another_size_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="3 target, 2 source"):
        alignment_text(["a", "b"], ["x", "y", "z"], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="3 target, 2 source"):
        draw_alignment(["a", "b"], ["x", "y", "z"], np.zeros((4, 2, 3)), tmp_path / "a.png")


# as pictures


def pixels(path: Path) -> np.ndarray:
    image = pytest.importorskip("matplotlib.image").imread(path)
    assert image.ndim == 3
    return np.asarray(image)[:, :, :3]


@pytest.mark.parametrize("heads", [None, 1, 2, 5])
def test_alignment_is_drawn(tmp_path: Path, heads: int | None):
    weights = diagonal(len(TARGET), len(SOURCE))
    path = tmp_path / "new" / "map.png"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is a warning
        draw_alignment(SOURCE, TARGET, weights if heads is None else np.stack([weights] * heads), path)
    picture = pixels(path)
    assert min(picture.shape[:2]) > 300
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_dark_is_where_the_weight_is(tmp_path: Path):
    draw_alignment(["a", "b"], ["x", "y"], np.eye(2), tmp_path / "map.png")
    picture = pixels(tmp_path / "map.png")
    blue = np.argwhere((picture[:, :, 2] > picture[:, :, 0] + 0.2) & (picture[:, :, 0] < 0.1))
    blue = blue[blue[:, 1] < picture.shape[1] * 0.6]  # without the scale
    (top, left), (bottom, right) = blue.min(0), blue.max(0)
    dark = picture[:, :, 0] < 0.1
    middle_y, middle_x = (top + bottom) // 2, (left + right) // 2
    assert dark[top:middle_y, left:middle_x].mean() > 0.9
    assert dark[middle_y:bottom, middle_x:right].mean() > 0.9
    assert dark[top:middle_y, middle_x + 5 : right].mean() < 0.1


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str, start: bytes):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"map{suffix}"
    draw_alignment(SOURCE, TARGET, diagonal(len(TARGET), len(SOURCE)), path)
    assert path.read_bytes().startswith(start)


def test_an_unknown_suffix_lists_the_known(tmp_path: Path):
    with pytest.raises(UserError, match=r"map\.bmp.*\.png, \.svg, \.pdf"):
        draw_alignment(["a"], ["x"], np.ones((1, 1)), tmp_path / "map.bmp")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_one_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'seq2attn\[plots\]'"):
        draw_alignment(["a"], ["x"], np.ones((1, 1)), tmp_path / "map.png")


def test_bleu_by_length_is_drawn(tmp_path: Path):
    def line(best: float) -> list[LengthBucket]:
        return [
            LengthBucket(5 * i + 1, 5 * i + 5, 30, 5 * i + 3, Score("BLEU", best - i, "")) for i in range(6)
        ]

    draw_bleu_by_length({"with attention": line(30), "without": line(25)}, tmp_path / "length.png")
    assert len(np.unique(pixels(tmp_path / "length.png").reshape(-1, 3), axis=0)) > 50


def write_run(folder: Path, *, bleu: float | None, end: str = "") -> Path:
    records = [
        {"kind": "train", "update": 50, "loss": 5.0, "tokens_per_second": 9000.0, "learning_rate": 0.001},
        {"kind": "train", "update": 100, "loss": 4.0, "tokens_per_second": 9000.0, "learning_rate": 0.001},
        {"kind": "validation", "update": 100, "loss": 4.2, "perplexity": 66.7, "bleu": bleu},
    ]
    folder.mkdir()
    file = folder / "metrics.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records) + end)
    return file


@pytest.mark.parametrize("bleu", [12.5, None])
def test_training_is_drawn(tmp_path: Path, bleu: float | None):
    runs = [
        write_run(tmp_path / "one", bleu=bleu),
        write_run(tmp_path / "two", bleu=bleu, end='{"kind": "tr'),
    ]
    draw_training(runs, tmp_path / "training.png")
    picture = pixels(tmp_path / "training.png")
    assert (picture.shape[1] > 1600) == (bleu is not None)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_a_bad_record_is_named_by_file_and_line(tmp_path: Path):
    file = write_run(tmp_path / "run", bleu=None, end="oops\n")
    with pytest.raises(DataError, match=r"metrics\.jsonl:4: not JSON"):
        draw_training([file], tmp_path / "training.png")
    with pytest.raises(DataError, match=r"none\.jsonl: cannot be read"):
        draw_training([tmp_path / "none.jsonl"], tmp_path / "training.png")

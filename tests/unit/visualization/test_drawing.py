"""Maps as text in any script, and maps and curves as pictures."""

import re
import sys
import unicodedata
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from seq2attn.errors import UserError
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, Score
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.visualization.attention_map import AttentionMap, scale_weights
from seq2attn.visualization.curves import draw_bleu_by_length
from seq2attn.visualization.figure import COLORS
from seq2attn.visualization.heatmap import draw_heatmap
from seq2attn.visualization.text_heatmap import heatmap_text, legend_text

SOURCE = ["▁Die", "kleine", "Katze", "schläft", "für", "$5", "unter", "dem", "$6", "Tisch", "</s>"]
TARGET = ["▁The", "little", "cat", "sleeps", "for", "$5", "under", "the", "$6", "table", "</s>"]


def diagonal(target: int, source: int) -> np.ndarray:
    distance = np.arange(target)[:, None] / target - np.arange(source) / source
    weights = np.exp(-200 * distance**2)
    return weights / weights.sum(1, keepdims=True)


def as_map(source: list[str], target: list[str], weights: np.ndarray) -> AttentionMap:
    """weights [target, source] of one head, or [layers, heads, target, source]"""
    weights = weights[None, None] if weights.ndim == 2 else weights
    layers, heads = (tuple(str(i + 1) for i in range(n)) for n in weights.shape[:2])
    sides = TokenizedText.from_words(target, ""), TokenizedText.from_words(source, "")
    return AttentionMap("cross", *sides, weights.astype(np.float32), layers, heads)


def columns(line: str) -> int:
    wide = {"W": 2, "F": 2}
    visible = [c for c in line if unicodedata.category(c) not in ("Mn", "Me")]
    return sum(wide.get(unicodedata.east_asian_width(c), 1) for c in visible)


def test_text_has_a_row_per_target_token_and_headings_or_numbers_above_columns():
    lines = heatmap_text(SOURCE, TARGET, np.eye(len(TARGET))).splitlines()
    first = lines.index("  ▁The ██")
    rows = lines[first : first + len(TARGET)]
    assert [row.split()[0] for row in rows] == TARGET
    assert [row.index("██") for row in rows] == [7 + 2 * i for i in range(len(TARGET))]
    assert lines[-1] == rows[-1]
    lines = heatmap_text(["ab", "c"], ["x"], np.array([[1.0, 0.1]])).splitlines()
    assert lines[:3] == ["  a", "  b c", "x ██··"]
    long = "Donaudampfschifffahrtsgesellschaft"
    text = heatmap_text(["Die", long], ["x"], np.array([[0.5, 0.5]]))
    assert text.splitlines()[0] == "  1 2"
    assert f"1 Die  2 {long}" in text


@pytest.mark.parametrize(("source", "room"), [(5, 16), (40, 80), (60, 40), (60, 200), (200, 16), (200, 200)])
def test_text_fits_the_terminal(source: int, room: int):
    words = [f"word{i}" for i in range(source)]
    targets = [*TARGET, "Donaudampfschifffahrtsgesellschaft"]
    text = heatmap_text(words, targets, diagonal(12, source), columns=room)
    scaled = scale_weights(diagonal(12, source)[None, None], "row")
    lines = [*text.splitlines(), *legend_text(scaled, room).splitlines()]
    assert max(map(columns, lines)) <= room
    assert heatmap_text(words, ["x"], np.eye(1, source), columns=1) == heatmap_text(
        words, ["x"], np.eye(1, source), columns=16
    )
    margin = max(line.index("…") + 2 for line in lines if "…" in line)
    maps = [line[margin:] for line in lines if line.startswith(f"{'▁The':>{margin - 1}}")]
    assert len(maps) == -(-source // ((room - margin) // (2 if 2 * source <= room - margin else 1)))


def test_the_parts_of_a_long_map_are_maps_of_their_tokens():
    words = [f"{number:02}" for number in range(36)]
    shares = np.random.default_rng(0).random((3, len(words)))
    room = 20  # of which labels take two
    parts = [slice(start, start + room - 2) for start in range(0, len(words), room - 2)]
    maps = [heatmap_text(words[part], "xyz", shares[:, part], columns=room) for part in parts]
    assert heatmap_text(words, "xyz", shares, columns=room).split() == "\n".join(maps).split()


def test_wide_and_combining_characters_keep_their_columns():
    source = ["猫", "u\u0308ber", "は"]
    target = ["テーブル", "u\u0308ber", "x"]
    lines = heatmap_text(source, target, np.eye(3)).splitlines()
    assert lines[:4] == ["           u\u0308", "           b", "           e", "         猫r は"]
    rows = lines[4:7]
    assert [columns(row.split("█")[0]) for row in rows] == [9, 11, 13]


def test_control_characters_are_removed():
    text = heatmap_text(["\x1b[31m"], ["a\nb\u202e"], np.ones((1, 1)))
    assert "\x1b" not in text and "\u202e" not in text
    assert "a�b ██" in text


def test_a_picture_with_control_characters_is_xml(tmp_path: Path):
    pytest.importorskip("matplotlib")
    odd = ["\x1b[31m", "\u202ea", "-->", "<b>"]
    draw_heatmap(as_map(odd, odd, np.eye(4)), tmp_path / "odd.svg", title="\x01 & <i>")
    assert ElementTree.parse(tmp_path / "odd.svg").getroot().tag.endswith("svg")


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="weights are"):
        as_map(["a", "b"], ["x", "y", "z"], np.zeros((1, 4, 2, 3)))


def pixels(path: Path) -> np.ndarray:
    image = pytest.importorskip("matplotlib.image").imread(path)
    assert image.ndim == 3
    return np.asarray(image)[:, :, :3]


def count_colors(picture: np.ndarray) -> int:
    return len(np.unique((255 * picture).astype(int) @ (1 << np.array([16, 8, 0]))))


def test_one_warning_for_all_characters_without_a_font(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    unknown = [chr(0xF0000), chr(0xF0001)]  # for private use
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        draw_heatmap(as_map(unknown, ["x"], np.array([[0.5, 0.5]])), tmp_path / "map.png")
    err = capsys.readouterr().err
    assert err.startswith(f"warning: {tmp_path / 'map.png'}: 2 characters are in no installed font; ")
    assert err.count("\n") == 1 and not caplog.records  # matplotlib logs a line for each font of another weight
    assert pixels(tmp_path / "map.png").size


def test_a_large_picture_has_a_maximum_size(tmp_path: Path):
    pytest.importorskip("matplotlib")
    draw_heatmap(as_map(["w"] * 400, ["x"], np.full((1, 400), 1 / 400)), tmp_path / "map.svg")
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', (tmp_path / "map.svg").read_text(encoding="utf-8"))
    assert size and max(map(float, size.groups())) < 50 * 72


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_the_suffix_selects_the_format(tmp_path: Path, suffix: str, start: bytes):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"map{suffix}"
    weights = np.tile(diagonal(len(TARGET), len(SOURCE)), (1, 2, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is a warning
        draw_heatmap(as_map(SOURCE, TARGET, weights), path)
    assert path.read_bytes().startswith(start)
    if suffix == ".PNG":
        assert min(pixels(path).shape[:2]) > 300 and count_colors(pixels(path)) > 50


def test_a_missing_matplotlib_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'seq2attn\[plots\]'"):
        draw_heatmap(as_map(["a"], ["x"], np.ones((1, 1))), tmp_path / "map.png")


def test_bleu_by_length_is_drawn(tmp_path: Path):
    lines = {
        name: [LengthBucket(n, n + 4, 30, n + 2, Score("BLEU", best - n, ""), "characters") for n in range(1, 30, 5)]
        for name, best in (("with attention", 40), ("without", 35))
    }
    for suffix in ("png", "svg"):
        draw_bleu_by_length(lines, tmp_path / f"length.{suffix}")
    assert count_colors(pixels(tmp_path / "length.png")) > 50
    text = (tmp_path / "length.svg").read_text(encoding="utf-8")
    assert "source length in characters" in text and all(name in text for name in lines)


def test_places_of_a_line_are_lengths_and_scores(tmp_path: Path):
    """The mean length of a bucket, which is neither its number nor its middle, to the right, and BLEU upward."""
    points = {(2.0, 10.0), (4.0, 30.0), (13.5, 25.0), (40.0, 5.0)}
    buckets = [LengthBucket(int(x) - 1, int(x) + 9, 30, x, Score("BLEU", y, "")) for x, y in sorted(points)]
    draw_bleu_by_length({"name": buckets}, tmp_path / "length.svg")
    text = (tmp_path / "length.svg").read_text(encoding="utf-8")
    uses = re.findall(r'<use xlink:href="#\w+" x="([\d.]+)" y="([\d.]+)" style="fill: (#\w+)', text)
    found = [(float(x), -float(y)) for x, y, color in uses if color.upper() == COLORS[0]][: len(points)]
    for drawn, given in zip(zip(*found, strict=True), zip(*sorted(points), strict=True), strict=True):
        steps, expected = np.diff(drawn), np.diff(given)
        assert steps / steps[0] == pytest.approx(expected / expected[0], rel=1e-3) and steps[0] * expected[0] > 0


def test_each_test_set_of_bleu_by_length_has_its_own_counts(tmp_path: Path):
    short, long = (
        [LengthBucket(start, start + 4, count, start + 2, Score("BLEU", 30, "")) for start, count in buckets]
        for buckets in (((1, 132), (6, 305)), ((6, 203), (11, 197)))
    )
    for lines, expected in (
        ({"short a": short, "short b": short}, ["132", "305"]),
        ({"short a": short, "short b": short, "long a": long}, ["132", "305", "short a", "203", "197", "long a"]),
    ):
        draw_bleu_by_length(lines, tmp_path / "length.svg")
        labels = re.findall(r"<!-- (.+) -->", (tmp_path / "length.svg").read_text(encoding="utf-8"))
        histograms = labels[labels.index("sentences") :]
        assert [label for label in histograms if label in lines or re.fullmatch(r"\d{3}", label)] == expected


def test_all_lines_of_bleu_by_length_look_different(tmp_path: Path):
    bucket = LengthBucket(1, 9, 30, 5, Score("BLEU", 30, ""))
    draw_bleu_by_length({str(number): [bucket] for number in range(20)}, tmp_path / "length.svg")
    markers = re.findall(r'<use xlink:href="(#\w+)" [^>]*stroke: (#\w+)', (tmp_path / "length.svg").read_text())
    assert len({(shape, color) for shape, color in markers if color.upper() in COLORS}) == 20

"""Color scales, legends, titles and labels of maps: in a terminal, in pictures and on the page."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionSelection, ColorScale
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.visualization import figure
from seq2attn.visualization.attention import attention_text, draw_attention
from seq2attn.visualization.attention_map import scale_weights
from seq2attn.visualization.figure import font_families
from tests.support.attention_pages import Show, page_data, random_weights

SCALES: tuple[ColorScale, ...] = ("max", "row", "0-1")
WEIGHTS = random_weights()
FAINT = AttentionWeights(
    TokenizedText.from_words(["a", "b", "</s>"], "a b"),
    TokenizedText.from_words(["x", "</s>"], "x"),
    TokenizedText.from_words(["<s>", "x"], "x"),
    np.array([[[[0.08, 0.04, 0.0], [0.1, 0.4, 0.25]]]], np.float32),
    None,
    None,
)


def share_of_scale(weights: np.ndarray, scale: ColorScale) -> np.ndarray:
    full = {"max": weights.max(), "row": weights.max(-1, keepdims=True), "0-1": 1}[scale]
    return np.asarray(weights / full)


@pytest.mark.parametrize(
    ("scale", "rows", "legend"),
    [
        ("max", ["   x ░░··", "</s> ░░██▓▓"], "weight:  · 0.02+  ░ 0.06+  ▒ 0.14+  ▓ 0.24+  █ 0.34+"),
        ("row", ["   x ██▒▒", "</s> ░░██▓▓"], "weight/row max:  · 0.05+  ░ 0.15+  ▒ 0.35+  ▓ 0.6+  █ 0.85+"),
        ("0-1", ["   x ··", "</s> ··▒▒░░"], "weight:  · 0.05+  ░ 0.15+  ▒ 0.35+  ▓ 0.6+  █ 0.85+"),
    ],
)
def test_shades_in_a_terminal_and_their_legend(scale: ColorScale, rows: list[str], legend: str) -> None:
    assert not scale_weights(np.zeros((1, 1, 2, 3)), scale).shares.any()
    lines = attention_text(FAINT, AttentionSelection(color_scale=scale)).splitlines()
    assert [line for line in lines if line.startswith(("   x", "</s>"))] == rows
    assert lines[-1] == legend


@pytest.fixture
def saved_figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    figure = pytest.importorskip("matplotlib.figure").Figure
    figures, savefig = [], figure.savefig

    def save(self: Any, *args: Any, **kwargs: Any) -> None:
        figures.append(self)
        savefig(self, *args, **kwargs)

    monkeypatch.setattr(figure, "savefig", save)
    return figures


@pytest.mark.parametrize("scale", SCALES)
def test_cells_of_a_picture_and_its_legend(saved_figures: list[Any], tmp_path: Path, scale: ColorScale) -> None:
    draw_attention(WEIGHTS, tmp_path / "map.svg", AttentionSelection(layer="all", color_scale=scale))
    (canvas,) = saved_figures
    *maps, bar = canvas.axes
    images = [axes.images[0] for axes in maps]
    shares = np.array([image.norm(image.get_array()) for image in images]).reshape(2, 3, 5, 5)
    assert WEIGHTS.cross_attention is not None
    np.testing.assert_allclose(shares, share_of_scale(WEIGHTS.cross_attention, scale), rtol=1e-5)
    full = float(WEIGHTS.cross_attention.max()) if scale == "max" else 1.0
    np.testing.assert_allclose(bar.get_yticks(), [0, full / 2, full])
    assert [text.get_text() for text in bar.get_yticklabels()] == ["0", f"{full / 2:.2g}", f"{full:.2g}"]
    assert bar.get_ylabel() == ("weight/row max" if scale == "row" else "weight")
    white, dark = images[0].cmap([0.0, 1.0])[:, :3].sum(1)
    assert white > 2.9 and dark < 1


def test_labels_of_a_picture_are_above_each_map(saved_figures: list[Any], tmp_path: Path) -> None:
    draw_attention(WEIGHTS, tmp_path / "map.svg", AttentionSelection(layer="all"), run="runs/mine")
    (canvas,) = saved_figures
    canvas.draw_without_rendering()  # layout for one resolution
    assert canvas.get_suptitle() == "runs/mine\nDie Katze</script>"
    for i, axes in enumerate(canvas.axes[:-1]):
        labels = [text for text in axes.get_xticklabels() if text.get_text()]
        assert [text.get_text() for text in labels] == list(WEIGHTS.source.tokens)
        layer, head = divmod(i, 3)
        assert axes.get_ylabel() == ("" if head else f"layer {layer + 1}")
        tokens = () if head else WEIGHTS.target.tokens
        assert [text.get_text() for text in axes.get_yticklabels()] == list(tokens)
        caption = axes.xaxis.label
        assert caption.get_text() == f"head {head + 1}"
        edges = [
            axes.get_window_extent().y1,
            min(text.get_window_extent().y0 for text in labels),
            max(text.get_window_extent().y1 for text in labels),
            caption.get_window_extent().y0,
            caption.get_window_extent().y1,
            (canvas._suptitle if i < 3 else canvas.axes[i - 3]).get_window_extent().y0,
        ]
        assert edges == sorted(edges)


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_run_name_that_is_not_utf8(tmp_path: Path, suffix: str) -> None:
    draw_attention(FAINT, tmp_path / f"map.{suffix}", run=os.fsdecode(b"runs/M\xfcll"))
    text = (tmp_path / f"map.{suffix}").read_text(encoding="utf-8")
    assert "runs/M�ll" in (text if suffix == "svg" else page_data(text)["explorations"][0]["run"])


def test_long_titles_and_labels_are_cut(saved_figures: list[Any], tmp_path: Path) -> None:
    words = ["Donaudampfschifffahrtsgesellschaft" * 3, *["Schiff"] * 40, "</s>"]
    source, target = (
        TokenizedText.from_words(words, " ".join(words)),
        TokenizedText.from_words(["ship", "</s>"], "ship"),
    )
    weights = np.full((1, 2, 2, len(words)), 1 / len(words), np.float32)
    draw_attention(AttentionWeights(source, target, target, weights, None, None), tmp_path / "map.png", run="runs/mine")
    (canvas,) = saved_figures
    canvas.draw_without_rendering()
    lines = canvas.get_suptitle().split("\n")
    assert lines[0] == "runs/mine" and 1 < len(lines) <= 4
    assert canvas._suptitle.get_window_extent().y0 > canvas.axes[0].xaxis.label.get_window_extent().y1
    assert max(len(text.get_text()) for text in canvas.axes[0].get_xticklabels()) == 40


def test_the_color_bar_beside_long_labels_is_short(saved_figures: list[Any], tmp_path: Path) -> None:
    words = TokenizedText.from_words(["x" * 40, "y", "z", "</s>"], "")
    weights = np.full((3, 4, 4, 4), 0.25, np.float32)
    selection = AttentionSelection(layer="all", head="all")
    draw_attention(AttentionWeights(words, words, words, weights, None, None), tmp_path / "map.svg", selection)
    (canvas,) = saved_figures
    canvas.draw_without_rendering()
    assert 1 < canvas.axes[-1].get_window_extent().height / canvas.dpi < 2.2  # inches


def test_fonts_for_characters_that_the_first_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    fonts = pytest.importorskip("matplotlib.font_manager")
    script = "\U0001d49c"  # mathematical script A
    assert font_families("Größe ▁猫"[:7]) == ["DejaVu Sans"]
    families = font_families(script)
    assert families[0] == "DejaVu Sans" and len(families) == 2
    path = Path(fonts.findfont(families[1]))
    assert fonts.get_font(str(path)).get_char_index(ord(script))
    assert font_families(chr(0xF0000)) == ["DejaVu Sans"]
    assert font_families("猫")[0] == "DejaVu Sans"  # looks into all, with names such as `Last Resort High-Efficiency`
    monkeypatch.setattr(figure, "PREFERRED_FAMILIES", ("STIXGeneral",))
    assert font_families(script) == ["DejaVu Sans", "STIXGeneral"]


@pytest.fixture
def draw(show: Show) -> Show:
    return partial(show, run="runs/<b>mine")


PIXELS = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
SMALL = f"[...document.querySelectorAll('#attention .thumbnails canvas')].map({PIXELS})"


@pytest.mark.parametrize("scale", SCALES)
def test_small_maps_of_the_page_and_its_legend(draw: Show, scale: ColorScale) -> None:
    """The large map has the same shares, in cells of many pixels."""
    page = draw(WEIGHTS, AttentionSelection(color_scale=scale))
    assert WEIGHTS.cross_attention is not None
    shares = np.array(page.get(SMALL)).reshape(2, 4, 5, 5, 4)[:, :3, ..., 3] / 255  # the last one is the mean
    for found, weights in zip(shares.reshape(6, 5, 5), WEIGHTS.cross_attention.reshape(6, 5, 5), strict=True):
        np.testing.assert_allclose(found, share_of_scale(weights, scale), atol=8e-3)
    full = 1.0 if scale != "max" else WEIGHTS.cross_attention[1].mean(0).max()  # of the map that is selected
    legend = page.get("document.querySelector('#attention .scale').textContent")
    assert float(legend.split()[-1]) == pytest.approx(full, abs=6e-3)
    assert legend.startswith("weight / largest of its row" if scale == "row" else "weight 0")


def test_a_run_and_a_sentence_are_text(draw: Show) -> None:
    page = draw(WEIGHTS)
    assert page.get("document.title") == "runs/<b>mine: Die Katze</script>"
    assert page.get("document.querySelector('h1').textContent") == "seq2attn runs/<b>mine"
    assert page.get("document.querySelectorAll('b, main script').length") == 0


@pytest.mark.parametrize(("width", "height"), [(400, 600), (1200, 900), (2560, 1440)])
def test_a_map_fits_each_width(draw: Show, width: int, height: int) -> None:
    page = draw(WEIGHTS, width=width, height=height)
    assert page.get("document.documentElement.scrollWidth") <= width
    assert page.get("document.querySelector('#attention .maps canvas').clientWidth") >= 5 * 19

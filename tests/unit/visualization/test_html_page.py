"""The page of attention: what it holds, and what a browser makes of it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from seq2attn.visualization.attention import AttentionSelection, draw_attention
from seq2attn.visualization.attention_map import AttentionMap
from seq2attn.visualization.html_page import attention_html
from tests.unit.browser import Browser
from tests.unit.visualization.looks import SOURCE, TARGET, looked, page_data

FIRST, SECOND = looked(), looked(seed=1)
WORDS = "[...document.querySelectorAll('#{} .word')].map(w => w.textContent)"
LIT = "[...document.querySelectorAll('#{} .word')].map(w => Number(w.title || NaN))"
CELLS = "[...document.querySelectorAll('#map td[data-at]')].map(td => Number(td.title.split(': ').pop()))"


def test_the_page_holds_all_weights_and_asks_nothing_of_a_network():
    page = attention_html(
        [
            AttentionSelection().select_all(FIRST),
            AttentionSelection("cross", layer=2, head="mean").select_all(SECOND),
        ]
    )
    first, second = page_data(page)["sentences"]
    assert [first["title"], second["title"]] == ["The cat <!--"] * 2
    for found, expected in zip(first["maps"], (FIRST.cross_attention, FIRST.encoder_self_attention), strict=True):
        np.testing.assert_allclose(np.array(found["weights"]) / 1000, expected, atol=6e-4)
        assert found["keys"]["tokens"] == list(SOURCE.tokens)
    (found,) = second["maps"]
    assert (found["layers"], found["heads"]) == (["2"], ["mean"])
    assert page.count("</script>") == 1
    assert not re.search(r"https?:|src=|<link|@import|url\(", page)


@pytest.fixture
def page(chromium: Browser, tmp_path: Path) -> Browser:
    """A page with two sentences, opened from a file without a network."""
    draw_attention([FIRST, SECOND], tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    return chromium


def lit(page: Browser, side: str) -> list[float]:
    """The weights that words are lit up with; NaN for those that are not."""
    values = page.get(LIT.format(side))
    return [np.nan if value is None else value for value in values]


def test_a_word_lights_up_what_it_looks_at_and_what_looks_at_it(page: Browser):
    page.choose("#layer", 0)
    page.choose("#head", 1)
    assert page.get(WORDS.format("keys")) == list(SOURCE.tokens)
    page.mouse("#queries .word", 1)
    np.testing.assert_allclose(lit(page, "keys"), FIRST.cross_attention[0, 1, 1], atol=6e-4)
    assert np.isnan(lit(page, "queries")).all()
    colours = "[...document.querySelectorAll('#keys .word')].map(w => getComputedStyle(w).backgroundColor)"
    strengths = [float(re.findall(r"[\d.]+", colour)[-1]) for colour in page.get(colours)]
    assert np.argsort(strengths)[-1] == np.argmax(FIRST.cross_attention[0, 1, 1])
    best = SOURCE.tokens[int(np.argmax(FIRST.cross_attention[0, 1, 1]))]
    said = page.get("document.getElementById('said').textContent").translate({0x2068: None, 0x2069: None})
    assert said.startswith(f"▁c looks at: {best} ")
    page.mouse("#keys .word", 2)
    np.testing.assert_allclose(lit(page, "queries"), FIRST.cross_attention[0, 1, :, 2], atol=6e-4)
    assert np.isnan(lit(page, "keys")).all()
    page.mouse("#said")
    assert np.isnan(lit(page, "queries") + lit(page, "keys")).all()
    assert {url.split(":")[0] for url in page.asked_for} <= {"file", "about"}


def test_sentence_part_layer_and_head_are_picked(page: Browser):
    np.testing.assert_allclose(page.get(CELLS), FIRST.cross_attention[1].mean(0).ravel(), atol=2e-3)
    page.choose("#sentence", 1)
    np.testing.assert_allclose(page.get(CELLS), SECOND.cross_attention[1].mean(0).ravel(), atol=2e-3)
    page.choose("#part", 1)
    page.choose("#layer", 0)
    page.choose("#head", 2)
    np.testing.assert_allclose(page.get(CELLS), SECOND.encoder_self_attention[0, 2].ravel(), atol=6e-4)
    page.choose("#sentence", 0)  # the rest stays
    np.testing.assert_allclose(page.get(CELLS), FIRST.encoder_self_attention[0, 2].ravel(), atol=6e-4)
    page.mouse("#overview button", 4, click=True)
    np.testing.assert_allclose(page.get(CELLS), FIRST.encoder_self_attention[1, 1].ravel(), atol=6e-4)
    pressed = "[...document.querySelectorAll('#overview button')].map(b => b.ariaPressed === 'true')"
    assert page.get(pressed) == [i == 4 for i in range(6)]


def test_sentences_of_other_models_have_other_maps(chromium: Browser, tmp_path: Path):
    other = looked(1, 1, encoder=False)
    draw_attention([FIRST, other], tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.choose("#part", 1)
    chromium.choose("#sentence", 1)
    assert other.cross_attention is not None
    np.testing.assert_allclose(chromium.get(CELLS), other.cross_attention.ravel(), atol=6e-4)
    hidden = "document.getElementById('{}').parentElement.hidden"
    assert all(chromium.get(hidden.format(name)) for name in ("part", "layer", "head"))


def test_pieces_are_joined_as_python_joins_them(page: Browser):
    page.choose("#head", 2)
    page.mouse("#whole", click=True)
    assert page.get(WORDS.format("keys")) == list(SOURCE.words)
    assert page.get(WORDS.format("queries")) == list(TARGET.words)
    whole = AttentionMap.from_weights(FIRST, "cross").layer(2).head(3).whole_words().weights
    np.testing.assert_allclose(page.get(CELLS), whole.ravel(), atol=3e-3)


def test_the_keyboard_is_enough(page: Browser):
    page.get("document.querySelector('#queries .word').focus()")
    page.press("ArrowRight")
    page.press("ArrowRight")
    expected = FIRST.cross_attention[1].mean(0)
    np.testing.assert_allclose(lit(page, "keys"), expected[2], atol=2e-3)
    page.press("Enter")  # keeps it
    page.get("document.activeElement.blur()")
    np.testing.assert_allclose(lit(page, "keys"), expected[2], atol=2e-3)
    page.get("document.querySelectorAll('#queries .word')[2].focus()")
    page.press("ArrowUp")
    np.testing.assert_allclose(lit(page, "queries"), expected[:, 0], atol=2e-3)
    page.press("ArrowDown")
    page.press("Escape")
    page.get("document.activeElement.blur()")
    assert np.isnan(lit(page, "keys")).all()


def test_a_page_may_begin_with_whole_words(chromium: Browser, tmp_path: Path):
    draw_attention(FIRST, tmp_path / "page.html", AttentionSelection(whole_words=True))
    chromium.open(tmp_path / "page.html")
    assert chromium.get(WORDS.format("keys")) == list(SOURCE.words)
    chromium.mouse("#whole", click=True)
    assert chromium.get(WORDS.format("keys")) == list(SOURCE.tokens)


def test_words_are_dark_on_light_and_light_on_dark(chromium: Browser, tmp_path: Path):
    draw_attention(FIRST, tmp_path / "page.html")
    seen = []
    for dark in (False, True):
        chromium.open(tmp_path / "page.html", dark=dark)
        style = "(s => [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).reduce((a, b) => a + Number(b), 0)))"
        seen.append(chromium.get(f"{style}(getComputedStyle(document.body))"))
    assert chromium.get("document.getElementById('sentence').parentElement.hidden")
    (ink, paper), (dark_ink, dark_paper) = seen
    assert paper - ink > 500 and dark_ink - dark_paper > 500


def test_a_map_of_many_words_and_heads_fits_the_screen(chromium: Browser, tmp_path: Path):
    random = np.random.default_rng(0)
    many = AttentionMap.from_weights(FIRST, "encoder")
    side = type(SOURCE).from_words([f"word{i}" for i in range(60)])
    weights = random.dirichlet([0.1] * 60, size=(8, 8, 60)).astype(np.float32)
    names = tuple(str(i + 1) for i in range(8))
    page = attention_html([[type(many)("encoder", side, side, weights, names, names)]])
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    chromium.open(tmp_path / "page.html", width=1280)
    assert chromium.get("document.getElementById('map').getBoundingClientRect().right") <= 1280
    assert chromium.get("document.documentElement.scrollWidth") <= 1280
    letters = "[...document.querySelectorAll('#map th')].map(th => parseFloat(getComputedStyle(th).fontSize))"
    assert min(chromium.get(letters)) >= 10
    assert chromium.get("document.querySelectorAll('#overview canvas').length") == 64


def test_text_from_the_right_begins_at_the_right(chromium: Browser, tmp_path: Path):
    side = type(SOURCE).from_words(["שלום", "עולם", "</s>"])
    one = AttentionMap("encoder", side, side, np.full((1, 1, 3, 3), 1 / 3, np.float32), ("1",), ("1",))
    (tmp_path / "page.html").write_text(attention_html([[one]]), encoding="utf-8")
    chromium.open(tmp_path / "page.html")
    left = "[...document.querySelectorAll('#keys .word')].map(w => w.getBoundingClientRect().left)"
    first, second, end = chromium.get(left)
    assert first > second > end
    chromium.get("document.querySelector('#keys .word').focus()")
    chromium.press("ArrowLeft")
    assert chromium.get("document.activeElement.textContent") == "עולם"
    chromium.press("ArrowRight")
    assert chromium.get("document.activeElement.textContent") == "שלום"

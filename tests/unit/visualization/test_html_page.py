"""The attention page: its data, and its behaviour in a browser."""

import re

import numpy as np
import pytest

from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionSelection
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.visualization.attention import select_all_maps
from seq2attn.visualization.attention_map import AttentionMap
from seq2attn.visualization.html_page import attention_html
from tests.support.attention_pages import SOURCE, TARGET, Show, alphas, page_data, random_weights
from tests.support.browser import Browser

FIRST, SECOND = random_weights(), random_weights(seed=1)
TOKENS = "[...document.querySelectorAll('#map [data-side={}]')].map(th => th.textContent)"
CELLS = "[...document.querySelectorAll('#map td[data-at]')].map(td => Number(td.title.split(': ').pop()))"


def test_the_page_has_all_weights_and_needs_no_network():
    selections = AttentionSelection(), AttentionSelection("cross", layer=2, head="mean")
    page = attention_html(
        [select_all_maps(weights, one) for one, weights in zip(selections, (FIRST, SECOND), strict=True)]
    )
    first, second = page_data(page)["sentences"]
    assert [first["title"], second["title"]] == ["The cat <!--"] * 2
    for data, expected in zip(first["maps"], (FIRST.cross_attention, FIRST.encoder_self_attention), strict=True):
        with_mean = np.concatenate([expected, expected.mean(1, keepdims=True)], 1)
        np.testing.assert_allclose(np.array(data["weights"]) / 1000, with_mean, atol=6e-4)
        assert data["keys"]["tokens"] == list(SOURCE.tokens)
    (data,) = second["maps"]
    assert (data["layers"], data["heads"]) == (["2"], ["mean"])
    assert page.count("</script>") == 2
    assert not re.search(r"https?:|src=|<link|@import|url\(", page)


@pytest.fixture
def page(show: Show) -> Browser:
    return show([FIRST, SECOND])


def status(page: Browser) -> str:
    """The status line, without marks of direction."""
    text: str = page.get("document.getElementById('status').textContent")
    return text.translate({0x2068: None, 0x2069: None})


def test_a_token_under_the_mouse_shows_its_weights(page: Browser):
    page.choose("#layer", 0)
    page.choose("#head", 1)
    assert page.get(TOKENS.format("keys")) == list(SOURCE.tokens)
    assert page.get(TOKENS.format("queries")) == list(TARGET.tokens)
    weights = FIRST.cross_attention[0, 1]
    page.mouse("#map [data-side=queries]", 1)
    assert status(page).startswith(f"▁c attends to: {SOURCE.tokens[int(np.argmax(weights[1]))]} ")
    lit = "[...document.querySelectorAll('#map [data-side={}]')].map(th => getComputedStyle(th).backgroundColor)"
    assert np.argmax(alphas(page.get(lit.format("keys")))) == np.argmax(weights[1])
    assert max(alphas(page.get(lit.format("queries")))) == 0
    page.mouse("#map [data-side=keys]", 2)
    best = TARGET.tokens[int(np.argmax(weights[:, 2]))]
    assert status(page).startswith(f"{SOURCE.tokens[2]} is attended to by: {best} ")
    title = page.get("document.querySelector(\"#map td[data-at='1 2']\").title")
    assert title == f"\u2068▁c\u2069 → \u2068{SOURCE.tokens[2]}\u2069: {weights[1, 2]:.3f}"
    page.mouse("#map td[data-at='1 2']")
    assert status(page).startswith("▁c attends to: ")
    marked = "[...document.querySelectorAll('#map th.here')].map(th => th.dataset.side + th.dataset.i)"
    assert page.get(marked) == ["keys2", "queries1"]
    page.mouse("#status")
    assert status(page).startswith("Hover over") and page.get(marked) == []
    colors = "[...document.querySelectorAll('#map td[data-at]')].map(td => getComputedStyle(td).backgroundColor)"
    assert np.argmax(alphas(page.get(colors))) == np.argmax(weights)
    assert {url.split(":")[0] for url in page.requested_urls} <= {"file", "about"}


def test_selection_of_sentence_kind_layer_and_head(page: Browser):
    np.testing.assert_allclose(page.get(CELLS), FIRST.cross_attention[1].mean(0).ravel(), atol=2e-3)
    page.choose("#sentence", 1)
    np.testing.assert_allclose(page.get(CELLS), SECOND.cross_attention[1].mean(0).ravel(), atol=2e-3)
    page.choose("#part", 1)
    page.choose("#layer", 0)
    page.choose("#head", 2)
    np.testing.assert_allclose(page.get(CELLS), SECOND.encoder_self_attention[0, 2].ravel(), atol=6e-4)
    page.choose("#sentence", 0)  # the other settings stay
    np.testing.assert_allclose(page.get(CELLS), FIRST.encoder_self_attention[0, 2].ravel(), atol=6e-4)
    page.mouse("#overview button", 4, click=True)
    np.testing.assert_allclose(page.get(CELLS), FIRST.encoder_self_attention[1, 0].ravel(), atol=6e-4)
    pressed = "[...document.querySelectorAll('#overview button')].map(b => b.ariaPressed === 'true')"
    assert page.get(pressed) == [i == 4 for i in range(8)]


def test_sentences_with_fewer_maps(show: Show):
    other = random_weights(1, 1, encoder=False)
    page = show([FIRST, other])
    page.choose("#part", 1)
    page.choose("#sentence", 1)
    assert other.cross_attention is not None
    np.testing.assert_allclose(page.get(CELLS), other.cross_attention.ravel(), atol=6e-4)
    hidden = "document.getElementById('{}').parentElement.hidden"
    assert all(page.get(hidden.format(name)) for name in ("part", "layer", "head"))


def test_whole_words_equal_those_of_python(show: Show):
    page = show([FIRST, SECOND], AttentionSelection(whole_words=True))
    page.choose("#head", 2)
    assert page.get(TOKENS.format("keys")) == list(SOURCE.words)
    assert page.get(TOKENS.format("queries")) == list(TARGET.words)
    whole = AttentionMap.from_weights(FIRST, "cross").layer(2).head(3).whole_words().weights
    np.testing.assert_allclose(page.get(CELLS), whole.ravel(), atol=6e-4)


def test_light_and_dark_mode(show: Show):
    colors = []
    for dark in (False, True):
        page = show(FIRST, dark=dark)
        style = "(s => [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).reduce((a, b) => a + Number(b), 0)))"
        colors.append(page.get(f"{style}(getComputedStyle(document.body))"))
    assert page.get("document.getElementById('sentence').parentElement.hidden")
    (ink, paper), (dark_ink, dark_paper) = colors
    assert paper - ink > 500 and dark_ink - dark_paper > 500


def test_a_map_of_many_words_and_heads_fits_the_screen(show: Show):
    side = TokenizedText.from_words([f"word{i}" for i in range(60)], "")
    weights = np.random.default_rng(0).dirichlet([0.1] * 60, size=(8, 8, 60)).astype(np.float32)
    page = show(AttentionWeights(side, side, side, None, weights, None), width=1280)
    assert page.get("document.getElementById('map').getBoundingClientRect().right") <= 1280
    assert page.get("document.documentElement.scrollWidth") <= 1280
    letters = "[...document.querySelectorAll('#map th')].map(th => parseFloat(getComputedStyle(th).fontSize))"
    assert min(page.get(letters)) >= 10
    assert page.get("document.querySelectorAll('#overview canvas').length") == 72

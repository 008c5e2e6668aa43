"""The attention page: its data, and its behaviour in a browser."""

import re
from pathlib import Path

import numpy as np
import pytest

from seq2attn.inference.translation import Translation
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionSelection
from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.visualization.attention import draw_attention, select_all_maps
from seq2attn.visualization.attention_map import AttentionMap
from seq2attn.visualization.page import attention_page
from tests.support.attention_pages import CELLS, SOURCE, Show, page_data, random_weights
from tests.support.browser import Browser

FIRST, SECOND = random_weights(), random_weights(seed=1)
MENU = "#attention .controls select"


def test_the_page_has_all_weights_and_needs_no_network():
    selections = AttentionSelection(), AttentionSelection("cross", layer=2, head="mean")
    pairs = zip(selections, (FIRST, SECOND), strict=True)
    page = attention_page([(weights, select_all_maps(weights, one)) for one, weights in pairs], "runs/mine", "max")
    first, second = page_data(page)["explorations"]
    assert [one["text"] for one in (first, second)] == ["Die Katze</script>"] * 2
    assert [one["hypotheses"][0]["text"] for one in (first, second)] == ["The cat <!--"] * 2
    for kind, expected in (("cross", FIRST.cross_attention), ("encoder", FIRST.encoder_self_attention)):
        np.testing.assert_allclose(np.array(first["attention"][kind]["weights"]) / 1000, expected, atol=6e-4)
        assert first["attention"][kind]["keys"]["tokens"] == list(SOURCE.tokens)
    (data,) = second["attention"].values()
    assert (data["layers"], data["heads"]) == (["2"], ["mean"])
    assert page.count("</script>") == 3
    assert not re.search(r"https?:|src=|<link rel=.stylesheet|@import|url\(", page)


@pytest.fixture
def page(show: Show) -> Browser:
    return show([FIRST, SECOND])


def test_a_notebook_shows_the_page_of_a_translation(chromium: Browser, tmp_path: Path):
    translation = Translation("the <b>", 0.0, 0.0, (), (), attention_weights=FIRST)
    for shown, begin in ((draw_attention(FIRST), ""), (translation, "<p>the &lt;b&gt;</p>")):
        assert shown._repr_html_().startswith(f"{begin}<iframe srcdoc=")
        (tmp_path / "cell.html").write_text(shown._repr_html_(), encoding="utf-8")
        chromium.open(tmp_path / "cell.html")
        frame = "document.querySelector('iframe').contentDocument"
        chromium.wait(f"{frame}.querySelectorAll('#attention .thumbnails canvas').length > 0")  # once it is unpacked
        assert chromium.get(f"{frame}.querySelectorAll('#attention .thumbnails canvas').length") == 8
        chromium.get(f"{frame}.querySelectorAll('#attention .thumbnails button')[2].click()")
    assert "iframe" not in Translation("text", 0.0, 0.0, (), ())._repr_html_()


def click(page: Browser, name: str) -> None:
    buttons = "[...document.querySelectorAll('#attention .choice button')]"
    page.get(f"{buttons}.find(button => button.textContent === {name!r}).click()")


def test_selection_of_sentence_kind_layer_and_head(page: Browser):
    np.testing.assert_allclose(page.get(CELLS), FIRST.cross_attention[1].mean(0), atol=2e-3)
    page.choose("#choice select", 1)
    np.testing.assert_allclose(page.get(CELLS), SECOND.cross_attention[1].mean(0), atol=2e-3)
    click(page, "encoder")
    page.choose(MENU, 0)
    page.choose(f"{MENU}:not(label:first-of-type select)", 2)
    np.testing.assert_allclose(page.get(CELLS), SECOND.encoder_self_attention[0, 2], atol=1e-3)
    page.choose("#choice select", 0)  # the other settings stay
    np.testing.assert_allclose(page.get(CELLS), FIRST.encoder_self_attention[0, 2], atol=1e-3)
    page.mouse("#attention .thumbnails button", 4, click=True)
    np.testing.assert_allclose(page.get(CELLS), FIRST.encoder_self_attention[1, 0], atol=1e-3)
    pressed = "[...document.querySelectorAll('#attention .thumbnails button')].map(b => b.ariaPressed === 'true')"
    assert page.get(pressed) == [i == 4 for i in range(8)]
    assert {url.split(":")[0] for url in page.requested_urls} <= {"file", "data"}


def test_sentences_with_fewer_maps(show: Show):
    other = random_weights(1, 1, encoder=False)
    page = show([FIRST, other])
    click(page, "encoder")
    page.choose("#choice select", 1)
    assert other.cross_attention is not None
    np.testing.assert_allclose(page.get(CELLS), other.cross_attention[0, 0], atol=1e-3)
    assert page.get(f"document.querySelectorAll('{MENU}').length") == 0


def test_whole_words_equal_those_of_python(show: Show):
    whole = AttentionMap.from_weights(FIRST, "cross").layer(2).head("mean").whole_words().weights
    page = show([FIRST, SECOND], AttentionSelection(whole_words=True))
    np.testing.assert_allclose(page.get(CELLS), whole[0, 0], atol=2e-3)
    page = show([FIRST, SECOND])
    click(page, "words")
    np.testing.assert_allclose(page.get(CELLS), whole[0, 0], atol=2e-3)


def test_a_word_lights_up_those_that_it_attends_to(page: Browser):
    weights = FIRST.cross_attention[1].mean(0)
    page.mouse("#sentence .line:nth-child(2) button", 1)
    style = ".map(button => button.style.getPropertyValue('--share'))"
    shares = f"[...document.querySelectorAll('#sentence .line:first-child button')]{style}"
    np.testing.assert_allclose([float(share) for share in page.get(shares)], 100 * weights[1], atol=1)
    page.mouse("#sentence .line:first-child button", 2)
    shares = shares.replace("first-child", "nth-child(2)")
    np.testing.assert_allclose([float(share) for share in page.get(shares)], 100 * weights[:, 2], atol=1)


def test_light_and_dark_mode(show: Show):
    colors = []
    for dark in (False, True):
        page = show(FIRST, dark=dark)
        style = "(s => [s.color, s.backgroundColor].map(c => c.match(/\\d+/g).reduce((a, b) => a + Number(b), 0)))"
        colors.append(page.get(f"{style}(getComputedStyle(document.body))"))
    assert page.get("document.getElementById('choice').hidden")
    (ink, paper), (dark_ink, dark_paper) = colors
    assert paper - ink > 500 and dark_ink - dark_paper > 500


@pytest.mark.parametrize("words", [60, 200])
def test_a_map_of_many_words_and_heads_fits_the_screen(show: Show, words: int):
    side = TokenizedText.from_words([f"word{i}" for i in range(words)], "")
    weights = np.random.default_rng(0).dirichlet([0.1] * words, size=(6, 8, words)).astype(np.float32)
    page = show(AttentionWeights(side, side, side, None, weights, None), width=1280)
    assert page.get("document.querySelector('#attention .maps canvas').getBoundingClientRect().right") <= 1280
    assert page.get("document.documentElement.scrollWidth") <= 1280
    assert page.get("document.querySelectorAll('#attention .thumbnails canvas').length") == 6 * 9
    small = "[...document.querySelectorAll('.thumbnails canvas')].map(e => e.clientHeight * devicePixelRatio)"
    assert min(page.get(small)) >= words  # no row of a small map is lost


def test_the_text_is_the_same_for_every_kind_of_attention_and_for_equal_lines(show: Show):
    page = show([FIRST, FIRST], AttentionSelection("encoder"))
    lines = "[...document.querySelectorAll('#sentence .tokens')].map(e => e.querySelectorAll('button').length)"
    assert page.get(lines) == [len(FIRST.source.tokens), len(FIRST.target.tokens)]
    for side in (0, 1):
        page.get(f"document.querySelectorAll('#sentence .tokens')[{side}].querySelector('button').click()")
        assert page.get("document.getElementById('reasons').hidden")

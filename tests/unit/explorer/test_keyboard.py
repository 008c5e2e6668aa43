"""All views of the explorer's page by keyboard alone, for each kind of model, at three widths, in both themes."""

import itertools
from pathlib import Path

import pytest

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.sentence_table import measure_sentences
from seq2attn.visualization.page import script_json
from tests.support.browser import Browser
from tests.support.explorer_pages import explorer, open_live, right_to_left_explorer, texts, type_text
from tests.support.marks import covering

MODELS = ["rnn", "transformer", "hard", "local", "right-to-left"]
RIGHT_TO_LEFT = "<2he> הכלב רץ word"


def count(browser: Browser, selector: str) -> int:
    found: int = browser.get(f"document.querySelectorAll({selector!r}).length")
    return found


@pytest.mark.parametrize(
    ("name", "width", "dark"), covering(itertools.product(MODELS, [400, 900, 1400], [False, True]))
)
def test_all_views_by_keyboard(chromium: Browser, tmp_path: Path, name: str, width: int, dark: bool) -> None:
    one = right_to_left_explorer() if name == "right-to-left" else explorer(name)
    text = RIGHT_TO_LEFT if name == "right-to-left" else "two five one"
    first = one.record(Question(text, reference="word one"))
    second = one.record(Question(text, beam=1)) | {"run": "greedy"}
    (row,) = measure_sentences(one.translator, [text], [["word one"]])
    ExplorerPage([first, second], {"name": "test", "rows": [row | {"sentence": 0}]}).save(tmp_path / "page.html")
    chromium.requested_urls.clear()
    chromium.errors.clear()
    chromium.open(tmp_path / "page.html", width=width, height=700, dark=dark)

    def enter(selector: str) -> None:
        chromium.tab_to(selector)
        chromium.press("Enter")

    enter("#table th button")
    enter("#table tbody button")
    enter("#sentence .line:nth-child(2) button")
    assert len(texts(chromium, ".effects tbody tr")) == 3 and count(chromium, "#sentence .here") == 1
    chromium.tab_to("#tree canvas")
    chromium.press("Home", "ArrowRight", "ArrowDown", "Enter")
    assert "by the model" in texts(chromium, "#tree .status")[0]
    assert texts(chromium, "#considered p")[0] == "at the beginning"
    enter("#considered tbody button")
    assert "in a live page" in texts(chromium, "#message")[0]
    enter("#questions button:first-child")
    enter("#attention .choice[aria-label=unit] button[aria-pressed=false]")
    chromium.tab_to("#attention .scroll canvas")
    chromium.press("ArrowDown", "ArrowRight")
    assert "→" in texts(chromium, "#attention .status")[0]
    if name == "transformer":
        enter("#attention .thumbnails button[aria-pressed=false]")
        assert chromium.get("document.querySelector('#attention select').value") == "0"
        enter("#attention .choice button[aria-pressed=false]")
    enter("#questions button:nth-child(3)")
    assert texts(chromium, "#reasons b")[1] == "greedy " and count(chromium, "#reasons canvas") == 2
    enter("#questions button:nth-child(4)")
    assert count(chromium, "#reasons tbody tr") == 2
    enter("#sentence .list button[aria-pressed=false]")
    enter("#questions button:first-child")
    assert "of the best translation" in texts(chromium, "#attention h2")[0]
    chromium.tab_to("#choice select")
    chromium.press("ArrowDown")
    assert texts(chromium, "#runs") == ["greedy"]
    enter("#tabs button[aria-pressed=false]")
    assert chromium.get("!document.getElementById('table').hidden && document.body.scrollWidth <= innerWidth")
    assert chromium.errors == [] and {url.split(":")[0] for url in chromium.requested_urls} <= {"file", "data"}


def test_a_live_page_by_keyboard(chromium: Browser, tmp_path: Path) -> None:
    """Translate another sentence, force a word and take it back, and ask what mattered against another word."""
    one = explorer("transformer")
    forced = one.explore(Question("three", prefix=(5,)))
    answers = {"explore": {text: one.explore(Question(text)) for text in ("two", "three")}}
    ids = answers["explore"]["three"]["hypotheses"][0]["ids"]
    answers["importance"] = {"three": one.importance(Question("three"), ids, 0, 5)}
    open_live(chromium, tmp_path / "page.html", answers)
    chromium.errors.clear()
    chromium.tab_to("#text")
    type_text(chromium, "#text", "three")
    chromium.press("Enter")
    chromium.wait("document.querySelector('#sentence .tokens').textContent === 'three</s>'")
    chromium.tab_to("#considered .why")
    chromium.press("Enter")
    chromium.wait("document.querySelector('.effects') !== null")
    chromium.get(f"found.explore.three = {script_json(forced)}; null")
    chromium.tab_to("#considered tbody button")
    chromium.press("Enter")
    chromium.wait("document.querySelector('.forced') !== null")
    chromium.get(f"found.explore.three = {script_json(answers['explore']['three'])}; null")
    chromium.tab_to(".forced button")
    chromium.press("Enter")
    chromium.wait("document.querySelector('.forced') === null")
    chromium.tab_to("#questions button:nth-child(3)")
    chromium.press("Enter")
    chromium.tab_to("#reasons .controls button:nth-of-type(2)")
    chromium.press("Enter")
    chromium.wait("document.querySelectorAll('#reasons canvas').length === 2")
    assert chromium.errors == []

"""One screen: a sentence of fifteen words, with all that the search did, is in view without scrolling."""

from pathlib import Path
from typing import Any

import pytest

from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.browser import Browser
from tests.support.explorer_pages import click, open_live, right_to_left_explorer, texts
from tests.support.models import model
from tests.support.searches import spread_logits

SENTENCE = "Sophie weiß nicht warum Paul morgen im alten Bahnhof deine neue lange Geschichte schreiben soll"
SCROLLED = """[...document.querySelectorAll('body, body *')]
  .filter(e => /auto|scroll/.test(getComputedStyle(e).overflow))
  .filter(e => e.scrollHeight > e.clientHeight || e.scrollWidth > e.clientWidth)
  .map(e => `${e.id || e.className} in ${e.parentElement.id}`)"""


def explored(sentence: str) -> dict[str, Any]:
    """A Transformer's exploration, with a beam of 5 and translations of 15 words."""
    tokenizer = WordTokenizerConfig().train(sentence.split())
    net = spread_logits(model("transformer", "transformer", "multi-head", words=len(tokenizer.vocabulary)))
    search = BeamConfig(beam_size=5, lengths=LengthsConfig(min_length=15, max_length=15))
    explorer = Explorer("before", Translator.from_model(net, tokenizer, tokenizer, search))
    return explorer.record(Question(sentence, reference=sentence))


@pytest.fixture(scope="module")
def exploration() -> dict[str, Any]:
    return explored(SENTENCE)


@pytest.fixture
def page(exploration: dict[str, Any], tmp_path: Path) -> Path:
    """Two runs with the same translation."""
    ExplorerPage([exploration, {**exploration, "run": "after"}]).save(tmp_path / "page.html")
    return tmp_path / "page.html"


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (1440, 900), (1920, 1080)])
def test_nothing_scrolls(chromium: Browser, page: Path, width: int, height: int) -> None:
    chromium.open(page, width=width, height=height)
    questions = texts(chromium, "#questions button")
    assert questions == ["attention", "what mattered", "what if", "whose fault"]
    chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelectorAll('button')[9].click()")
    for question in questions:
        click(chromium, "questions", question)
        assert chromium.get("document.scrollingElement.scrollHeight <= innerHeight")
        assert chromium.get(SCROLLED) == [], question


def test_nothing_scrolls_in_a_live_page(chromium: Browser, exploration: dict[str, Any], tmp_path: Path) -> None:
    """With the controls of a live page, and two runs beside each other."""
    open_live(chromium, tmp_path / "page.html", {"explore": {SENTENCE: exploration}}, ["before", "after"])
    chromium.call("Emulation.setDeviceMetricsOverride", width=1366, height=768, deviceScaleFactor=1, mobile=False)
    click(chromium, "runs", "compare")
    chromium.wait("document.querySelectorAll('#reasons canvas').length === 2")
    chromium.get("dispatchEvent(new Event('resize'))")
    for question in ["what if", "whose fault", "attention"]:
        click(chromium, "questions", question)
        assert chromium.get(SCROLLED) == [], question


def test_all_steps_and_cells_are_in_view_and_readable(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=1366, height=768)
    maps = "[...document.querySelectorAll('#tree canvas, #attention .maps canvas')]"
    sizes = f"{maps}.map(e => [e.clientWidth, e.clientHeight])"
    (tree, _), (columns, rows) = chromium.get(sizes)
    assert 17 * 46 < tree < 1366  # the start, 15 words and the end
    assert min(columns, rows) > 16 * 10
    chromium.open(page, width=1920, height=1080)
    assert chromium.get(sizes)[1][1] > rows  # there is more room


def test_a_phone_scrolls_from_view_to_view(chromium: Browser, page: Path) -> None:
    chromium.open(page, width=390, height=844)
    assert chromium.get(
        "document.scrollingElement.scrollHeight > innerHeight && document.body.scrollWidth <= innerWidth"
    )
    tops = chromium.get(
        "[...document.querySelectorAll('section:not([hidden])')].map(e => e.getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) and len(tops) == 4


def test_a_question_without_an_answer_is_not_offered(
    chromium: Browser, exploration: dict[str, Any], tmp_path: Path
) -> None:
    without = {key: value for key, value in exploration.items() if key not in ("importance", "diagnosis")}
    for found, questions in ((exploration, ["attention", "what mattered", "whose fault"]), (without, [])):
        ExplorerPage([found]).save(tmp_path / "page.html")
        chromium.open(tmp_path / "page.html")
        assert texts(chromium, "#questions button") == questions


@pytest.mark.parametrize("width", [390, 1366])
def test_long_words_are_cut_with_the_whole_in_their_title(chromium: Browser, tmp_path: Path, width: int) -> None:
    """Each word of more than 100 letters, in the sentence, tree, words considered, maps and tables."""
    long = [f"{word}{'x' * 100}" for word in SENTENCE.split()]
    found = explored(" ".join(long))
    ExplorerPage([found, {**found, "run": "after"}]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=width, height=768)
    chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelectorAll('button')[9].click()")
    for question in ["attention", "what if", "whose fault", "what mattered"]:
        click(chromium, "questions", question)
        assert chromium.get("document.body.scrollWidth <= innerWidth"), question
    cut = "[...document.querySelectorAll('.tokens button, #considered button, .effects th span')]"
    cut = f"{cut}.filter(e => e.textContent.length > 100)"
    assert chromium.get(f"{cut}.length") > 15 + 15 + 10 + 15
    assert chromium.get(f"{cut}.filter(e => e.offsetWidth > 180 || !e.title.includes(e.textContent)).length") == 0
    for view in ("#tree", "#considered", "#questions"):
        assert chromium.get(f"(e => e.scrollWidth <= e.clientWidth)(document.querySelector('{view}'))"), view


def test_a_live_page_fits_a_narrow_phone(chromium: Browser, tmp_path: Path) -> None:
    """With what the rules of the search make of a word, and the button beside it."""
    text = "<2he> word"
    open_live(chromium, tmp_path / "page.html", {"explore": {text: right_to_left_explorer().explore(Question(text))}})
    chromium.call("Emulation.setDeviceMetricsOverride", width=360, height=780, deviceScaleFactor=1, mobile=True)
    chromium.wait("document.documentElement.clientWidth === 360")
    assert chromium.get("document.documentElement.scrollWidth") == 360
    assert {"a special token", "why not?"} < {*texts(chromium, "#considered td, #considered button")}

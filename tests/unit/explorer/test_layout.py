"""One screen: a sentence of fifteen words, with all that the search did, is in view without scrolling."""

from pathlib import Path
from typing import Any

import pytest

from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage, record
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.support.browser import Browser
from tests.support.explorer_pages import click, texts
from tests.support.models import model
from tests.support.searches import spread_logits

SENTENCE = "Sophie weiß nicht warum Paul morgen im alten Bahnhof deine neue lange Geschichte schreiben soll"
SCROLLED = """[...document.querySelectorAll('body, body *')]
  .filter(e => /auto|scroll/.test(getComputedStyle(e).overflow))
  .filter(e => e.scrollHeight > e.clientHeight || e.scrollWidth > e.clientWidth)
  .map(e => `${e.id || e.className} in ${e.parentElement.id}`)"""


@pytest.fixture(scope="module")
def exploration() -> dict[str, Any]:
    """A Transformer's, with a beam of 5 and translations of 15 words."""
    tokenizer = WordTokenizerConfig().train(SENTENCE.split())
    net = spread_logits(model("transformer", "transformer", "multi-head", words=len(tokenizer.vocabulary)))
    search = BeamConfig(beam_size=5, lengths=LengthsConfig(min_length=15, max_length=15))
    explorer = Explorer("before", Translator.from_model(net, tokenizer, tokenizer, search))
    return record(explorer, Question(SENTENCE, reference=SENTENCE))


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

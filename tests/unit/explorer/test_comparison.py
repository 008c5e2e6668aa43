"""Explorations beside others in the explorer's page, and links."""

import re
from pathlib import Path

from fastapi.testclient import TestClient

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.server import build_app
from tests.support.browser import Browser
from tests.support.explorer_pages import TEXT, click, explorer, open_live, texts


def test_two_runs_are_compared_for_each_sentence(chromium: Browser, tmp_path: Path) -> None:
    """Each run with the one before, the first with the next; a link to a node that is not there selects none."""
    names = ["transformer", "local"] * 2
    found = [
        explorer(name).explore(Question(text)) for name, text in zip(names, ["two"] * 2 + ["six"] * 2, strict=True)
    ]
    ExplorerPage(found).save(tmp_path / "page.html")
    chromium.open_url(f"{(tmp_path / 'page.html').as_uri()}#sentence=0&state=%7B%22node%22%3A9999%7D")
    click(chromium, "questions", "what if")
    for number, shown in enumerate(["transformer local ", "local transformer "] * 2):
        chromium.choose("#choice select", number)
        assert "".join(texts(chromium, "#reasons b")) == shown
        bars = "[...document.querySelectorAll('#reasons canvas')].length"
        assert chromium.get(bars) == 2


def test_a_comparison_is_kept_in_a_saved_page(chromium: Browser, tmp_path: Path) -> None:
    """Of another source; its map has the same scale of colors."""
    client = TestClient(build_app([explorer("transformer")]), base_url="http://127.0.0.1")
    saved = client.post("/v1/page", json={"questions": [{"text": "two"}, {"text": "six"}]})
    (tmp_path / "page.html").write_text(saved.text, encoding="utf-8")
    chromium.open(tmp_path / "page.html")
    click(chromium, "questions", "what if")
    assert texts(chromium, "#reasons mark")[0] == "six"
    assert chromium.get("document.querySelectorAll('#reasons canvas').length") == 2


def test_a_masked_word_tells_the_sentences_of_a_saved_page_apart(chromium: Browser, tmp_path: Path) -> None:
    found = [explorer("transformer").explore(Question("two six one", masked=masked)) for masked in ((), (0,), (1,))]
    ExplorerPage(found).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    names = [re.sub(r"[\u2068\u2069]", "", name) for name in texts(chromium, "#choice option")]
    assert names == [f"transformer: {text}" for text in ["two six one", "<unk> six one", "two <unk> one"]]
    chromium.choose("#choice select", 2)
    assert chromium.get("document.title") == "transformer: two <unk> one"


def test_a_link_that_is_cut_says_so(chromium: Browser, tmp_path: Path) -> None:
    ExplorerPage([explorer("transformer").explore(Question("two"))]).save(tmp_path / "page.html")
    chromium.open_url(f"{(tmp_path / 'page.html').as_uri()}#sentence=0&state=%7B%22node")
    assert "The link is cut" in texts(chromium, "#message")[0] and texts(chromium, "#sentence .tokens")


def test_a_link_restores_the_page(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ExplorerPage([explorer(name).record(Question(TEXT)) for name in ("transformer", "local")]).save(page)
    chromium.open(page)
    chromium.choose("#choice select", 1)
    click(chromium, "attention", "words")
    click(chromium, "attention", "each row")
    chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelectorAll('button')[2].click()")
    pressed = "[...document.querySelectorAll('[aria-pressed=true], #choice option:checked')].map(e => e.textContent)"
    click(chromium, "questions", "attention")
    click(chromium, "questions", "what mattered")
    before = chromium.get(pressed), texts(chromium, ".effects")
    assert before[1] and "words" in before[0]
    fragment = chromium.get("location.hash")
    page.rename(tmp_path / "other.html")  # another document, so that the fragment is all that is left
    chromium.open_url(f"{(tmp_path / 'other.html').as_uri()}{fragment}")
    assert texts(chromium, ".effects") == before[1]
    click(chromium, "questions", "attention")
    click(chromium, "questions", "what mattered")
    assert chromium.get(pressed) == before[0]


def test_the_end_of_the_source_is_no_word_to_change(chromium: Browser, tmp_path: Path) -> None:
    """A click on it chooses the first word, which the menu shows and the buttons change."""
    found = {text: explorer("transformer").explore(Question(text)) for text in ("two six", "six")}
    open_live(chromium, tmp_path / "page.html", {"explore": found})
    chromium.get("[...document.querySelectorAll('#sentence .tokens:first-of-type .tag')][0].click()")
    assert chromium.get("document.querySelector('#reasons select').selectedOptions[0].text") == "two"
    click(chromium, "reasons", "delete")
    chromium.wait("document.querySelectorAll('#reasons canvas').length === 2")


def test_buttons_of_words_have_names_of_their_own(chromium: Browser, tmp_path: Path) -> None:
    """And no number is a negative zero."""
    one = explorer("transformer").explore(Question("two six"))
    open_live(chromium, tmp_path / "page.html", {"explore": {"two six": one}})
    names = chromium.get("[...document.querySelectorAll('#considered .why')].map(e => e.ariaLabel)")
    assert len(names) == len(set(names)) == len(texts(chromium, "#considered tbody tr"))
    call = "import('explorer/dom.js').then(m => [-0.004, -0.006, 0, null].map(value => m.fixed(value)))"
    response = chromium.call("Runtime.evaluate", expression=call, returnByValue=True, awaitPromise=True)
    assert response["result"]["value"] == ["0.00", "-0.01", "0.00", "–"]

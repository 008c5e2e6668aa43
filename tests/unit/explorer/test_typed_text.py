"""What is typed in the explorer's page stays until it is asked or another sentence is shown."""

from pathlib import Path

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.sentence_table import measure_sentences
from tests.support.browser import Browser
from tests.support.explorer_pages import NAMES, click, explorer, open_live, texts, type_text


def value(browser: Browser, selector: str) -> str:
    found: str = browser.get(f"document.querySelector({selector!r}).value")
    return found


def test_typed_text_stays_when_views_are_drawn_anew(chromium: Browser, tmp_path: Path) -> None:
    one = explorer("transformer")
    open_live(chromium, tmp_path / "page.html", {"explore": {text: one.explore(Question(text)) for text in NAMES[:2]}})
    assert value(chromium, "#beam") == "3"
    click(chromium, "questions", "what if")
    typed = {"#text": "two", "#beam": "2", "#reasons input": "four"}
    for selector, text in typed.items():
        type_text(chromium, selector, text)
    click(chromium, "attention", "words")
    assert {selector: value(chromium, selector) for selector in typed} == typed
    click(chromium, "questions", "whose fault")
    type_text(chromium, "#reasons input", "six")
    chromium.get("dispatchEvent(new Event('resize'))")
    assert value(chromium, "#reasons input") == "six"
    type_text(chromium, "#beam", "")
    click(chromium, "header", "translate")
    chromium.wait("document.querySelector('#sentence .tokens').textContent === 'two</s>'")
    assert value(chromium, "#text") == "two" and chromium.get("document.getElementById('beam').placeholder") == "3"
    click(chromium, "questions", "whose fault")
    assert value(chromium, "#reasons input") == ""  # the other was of the sentence before
    click(chromium, "questions", "what if")
    assert value(chromium, "#reasons input") == "four"


def test_a_click_after_typing_a_filter_is_not_lost(chromium: Browser, tmp_path: Path) -> None:
    """The filter holds at the next drawing, or at once by Enter or its button."""
    one = explorer("transformer")
    rows = list(measure_sentences(one.translator, NAMES, [NAMES]))
    for number, row in enumerate(rows):
        row["sentence"] = number
    page = ExplorerPage([one.explore(Question(row["source"])) for row in rows], {"name": "test", "rows": rows})
    page.save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    first = texts(chromium, "#table tbody button")[0]
    type_text(chromium, "#table input", "seven")
    chromium.mouse("#table tbody button", click=True)
    assert texts(chromium, "#sentence .tokens")[0] == f"{first}</s>"
    click(chromium, "tabs", "test")
    assert value(chromium, "#table input") == "seven"
    assert len(texts(chromium, "#table tbody tr")) == sum("seven" in f"{row['source']} {row['text']}" for row in rows)


def test_a_word_that_the_text_lacks_is_not_changed(chromium: Browser, tmp_path: Path) -> None:
    """The text would be written anew in the words of the model."""
    text = "two  other six"
    open_live(chromium, tmp_path / "page.html", {"explore": {text: explorer("transformer").explore(Question(text))}})
    click(chromium, "sentence", "<unk>")
    chromium.get("isHeld = true")
    for name in ("change", "delete"):
        click(chromium, "reasons", name)
        assert "has no \u2068<unk>\u2069" in texts(chromium, "#message")[0] and chromium.get("held.length") == 0
    click(chromium, "reasons", "mask")
    chromium.wait("held.length === 1")

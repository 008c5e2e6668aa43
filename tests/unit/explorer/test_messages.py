"""Messages of the explorer's page: each stays as long as it holds."""

from pathlib import Path

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from tests.support.browser import Browser
from tests.support.explorer_pages import click, explorer, texts


def test_a_message_ends_with_the_next_step(chromium: Browser, tmp_path: Path) -> None:
    ExplorerPage([explorer("transformer").explore(Question("two"))]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.get("document.querySelector('#considered tbody button:enabled').click()")
    assert "in a live page" in texts(chromium, "#message")[0]
    click(chromium, "attention", "words")
    assert texts(chromium, "#message") == [""]


def test_notes_of_the_second_exploration_are_shown_beside_it(chromium: Browser, tmp_path: Path) -> None:
    found = [{**explorer(name).explore(Question("two")), "notes": [f"note of {name}"]} for name in ("local", "hard")]
    ExplorerPage(found).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    click(chromium, "reasons", "what if")
    assert texts(chromium, "#message") == ["note of local"] and texts(chromium, "#reasons .differ") == ["note of hard"]

"""Names of runs with markup, quotes, control and bidirectional characters are text, wherever the page shows them."""

from dataclasses import replace
from pathlib import Path

import pytest

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.visualization.page import render_explorer
from tests.support.browser import Browser
from tests.support.explorer_pages import click, explorer, texts

NAMES = [
    "</script><script>window.broken = 1</script>",
    "\"'`<img src=x onerror='broken = 1'>",
    "a\u202eb\u2066c & &lt;",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text(chromium: Browser, tmp_path: Path, name: str) -> None:
    one = explorer("transformer")
    found = [replace(one, name=each).record(Question("two")) for each in (name, "other")]
    ExplorerPage(found, {"name": name, "rows": []}).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    assert texts(chromium, "#tabs button")[1] == name
    click(chromium, "tabs", "sentence")
    assert texts(chromium, "#runs") == [name] and texts(chromium, "#choice option") == [name, "other"]
    assert chromium.get("document.title") == " ".join(f"{name}: two".split())
    click(chromium, "questions", "what if")
    assert texts(chromium, "#reasons b") == [f"{name} ", "other "]
    page = render_explorer({"live": True, "runs": [name, "other"]})
    (tmp_path / "live.html").write_text(page, encoding="utf-8")
    chromium.open(tmp_path / "live.html")
    assert texts(chromium, "#runs option") == [name, "other"]
    assert chromium.get("window.broken === undefined && document.querySelector('main img') === null")


def test_names_beside_texts_do_not_reorder_them(chromium: Browser, tmp_path: Path) -> None:
    """Characters that would change the direction of the rest are shown as their numbers."""
    one = replace(explorer("transformer"), name="a\u202eb\u2066c")
    ExplorerPage([one.explore(Question(text)) for text in ("two", "six")]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    names = ["\u2068a‹202e›b‹2066›c\u2069: \u2068two\u2069", "\u2068a‹202e›b‹2066›c\u2069: \u2068six\u2069"]
    assert texts(chromium, "#choice option") == names

"""Where the keyboard leads in plots and maps, where the focus is after a view is closed, and what is marked there."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.sentence_table import measure_sentences
from tests.support.browser import Browser
from tests.support.explorer_pages import NAMES, explorer, texts


def open_table(browser: Browser, path: Path, **size: int) -> list[dict[str, Any]]:
    """Open a page with a table. Returns its rows."""
    one = explorer("transformer")
    rows = list(measure_sentences(one.translator, NAMES[:3], [NAMES[:3]]))
    rows = [row | {"sentence": number, "chrf": 10.0 * number} for number, row in enumerate(rows)]
    ExplorerPage([one.explore(Question(row["source"])) for row in rows], {"name": "test", "rows": rows}).save(path)
    browser.open(path, **size)
    return rows


def test_points_are_reached_by_keyboard(chromium: Browser, tmp_path: Path) -> None:
    """And the focus is on the tab, not lost, after one is opened."""
    rows = open_table(chromium, tmp_path / "page.html")
    chromium.tab_to("#table canvas")
    chromium.press("ArrowRight")
    assert texts(chromium, "#table .status") == [rows[0]["source"]]
    first = chromium.get("document.querySelector('.pointer').offsetLeft")
    chromium.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert texts(chromium, "#table .status") == [rows[2]["source"]]
    assert chromium.get("document.querySelector('.pointer').offsetLeft") > first
    chromium.press("ArrowLeft", "Enter")
    assert texts(chromium, "#sentence .tokens")[0] == f"{rows[1]['source']}</s>"
    assert chromium.get("document.activeElement.textContent") == "sentence"


def test_a_table_is_readable_on_a_phone(chromium: Browser, tmp_path: Path) -> None:
    """Its words are whole, and the plot is in view."""
    open_table(chromium, tmp_path / "page.html", width=390, height=844)
    buttons = "[...document.querySelectorAll('#table table button')]"
    assert chromium.get(f"{buttons}.filter(e => e.scrollHeight > e.clientHeight + 1).map(e => e.textContent)") == []
    assert chromium.get("document.querySelector('#table canvas').getBoundingClientRect().right < innerWidth")


def test_columns_of_a_map_are_reached_by_keyboard(chromium: Browser, tmp_path: Path) -> None:
    ExplorerPage([explorer("transformer").record(Question("two " * 50))]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=390, height=844)
    chromium.tab_to("#attention .scroll canvas")
    chromium.press("ArrowDown", "ArrowUp")
    assert "is attended to" in texts(chromium, "#attention .status")[0]
    chromium.press("Enter")  # only a row is a word to ask about
    assert chromium.get("document.activeElement.matches('#attention canvas')")
    chromium.press("ArrowDown", "ArrowLeft")
    assert "→" not in texts(chromium, "#attention .status")[0]
    chromium.press(*["ArrowRight"] * 51)
    box = "document.querySelector('#attention .scroll')"
    assert "→ \u2068</s>" in texts(chromium, "#attention .status")[0]
    assert chromium.get(f"{box}.scrollLeft + {box}.clientWidth >= {box}.scrollWidth - 20")


def test_a_dropped_candidate_marks_no_word_of_the_translation(chromium: Browser, tmp_path: Path) -> None:
    found = explorer("transformer").explore(Question("two"))
    ExplorerPage([found]).save(tmp_path / "page.html")
    tree = found["tree"]
    dropped = tree["fate"].index("beam")
    kept, path = found["hypotheses"][0]["leaf"], list[int]()
    while kept > 0:
        path, kept = [kept, *path], tree["parent"][kept]
    for node, count in ((dropped, 0), (path[0], 1)):
        state = json.dumps({"node": node, "word": tree["step"][node] - 1, "reason": "attention"})
        chromium.open_url("about:blank")
        chromium.open_url(f"{(tmp_path / 'page.html').as_uri()}#{urlencode({'sentence': 0, 'state': state})}")
        assert len(texts(chromium, "#sentence .here")) == count

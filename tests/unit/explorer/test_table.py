"""The table of a test set in the explorer's page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from seq2attn.explorer import sentence_table
from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.sentence_table import measure_sentences
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from tests.support.browser import Browser
from tests.support.explorer_pages import NAMES, click, explorer, texts, type_text


def test_a_table_is_sorted_and_filtered_by_all_measures(chromium: Browser, tmp_path: Path) -> None:
    lines, references = [f"two {word}" for word in NAMES] * 30, [f"one {word}" for word in NAMES] * 30
    one = explorer("transformer")
    rows = list(measure_sentences(one.translator, lines, [references]))
    rows[3]["sentence"] = 0
    ExplorerPage([one.explore(Question(lines[3]))], {"name": "test", "rows": rows}).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    count = "document.querySelectorAll('#table tbody tr').length"
    assert len(texts(chromium, "#table tbody tr")) == 200
    more = "[...document.querySelectorAll('#table button')].find(e => e.textContent === 'more')"
    chromium.get(f"{more}.focus()")
    chromium.get(f"{more}.click()")
    assert chromium.get("document.activeElement.matches('#table input')")  # as the button is hidden now
    assert len(texts(chromium, "#table tbody tr")) == len(rows) and not chromium.get("location.hash.includes('order')")
    measures = [name for name in rows[0] if name not in ("source", "text", "reference", "sentence")]
    assert len(texts(chromium, "#table th")) == len(measures) + 3
    for number, name in enumerate(measures):
        values = sorted(row[name] for row in rows)
        for is_down in (False, True):
            if number or is_down:
                chromium.get(f"document.querySelectorAll('#table th button')[{number}].click()")
            shown = [float(cell) for cell in texts(chromium, f"#table td:nth-child({number + 1})")]
            assert shown == pytest.approx(values[::-1] if is_down else values, abs=0.006)
        middle = values[len(values) // 2]
        for sign, holds in {"<": float.__lt__, ">=": float.__ge__}.items():
            type_text(chromium, "#table input", f"TWO {name} {sign} {middle} s")
            click(chromium, "table", "filter")
            expected = [
                row
                for row in rows
                if holds(float(row[name]), float(middle)) and "s" in f"{row['source']}{row['text']}{row['reference']}"
            ]
            assert chromium.get(count) == len(expected)
        type_text(chromium, "#table input", "")
        click(chromium, "table", "filter")
    rows[5]["chrf"] = None  # a line without a reference, which comes last in both orders
    ExplorerPage([one.explore(Question(lines[3]))], {"name": "test", "rows": rows}).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.get(f"{more}.click()")
    for _ in range(2):
        chromium.get("document.querySelectorAll('#table th button')[0].click()")
        assert texts(chromium, "#table td:nth-child(1)")[-1] == "–"
    click(chromium, "table", lines[3])
    assert '"tab":"sentence"' in unquote(
        chromium.get("location.hash")
    )  # a link leads to the sentence, not to the table
    assert texts(chromium, "#sentence .tokens")[0] == f"{lines[3].replace(' ', '')}</s>"


def test_the_attention_of_all_lines_is_never_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each line has the measures that it has alone."""
    sizes = list[int]()

    def count(model: Seq2Seq, pairs: Sequence[Any]) -> Any:
        sizes.append(len(pairs))
        return cross_attention_weights(model, pairs)

    monkeypatch.setattr(sentence_table, "cross_attention_weights", count)
    translator = explorer("transformer").translator
    lines = [f"two {word}" for word in NAMES] * 30
    rows = list(measure_sentences(translator, lines))
    assert sum(sizes) == len(lines) and max(sizes) < 100
    for row, line in zip(rows[60:70], lines[60:70], strict=True):
        assert [row] == list(measure_sentences(translator, [line]))


def test_a_menu_leads_from_the_table_to_a_sentence(chromium: Browser, tmp_path: Path) -> None:
    """And a row to its own exploration, also where another line has the same source."""
    one = explorer("transformer")
    rows = list(measure_sentences(one.translator, ["two six"] * 2, [["two", "three"]]))
    found = [
        one.explore(Question("two")),
        *(one.explore(Question(row["source"], reference=row["reference"])) for row in rows),
    ]
    for number, row in enumerate(rows, start=1):
        row["sentence"] = number
    ExplorerPage(found, {"name": "test", "rows": rows}).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.choose("#choice select", 0)
    assert texts(chromium, "section:not([hidden]) .tokens")[0] == "two</s>"
    for number, reference in enumerate(["two", "three"]):
        click(chromium, "tabs", "test")
        chromium.get(f"document.querySelectorAll('#table tbody button')[{number}].click()")
        click(chromium, "questions", "whose fault")
        assert texts(chromium, "#reasons tbody tr:nth-child(2) td:last-child") == [f"{reference} </s> "]


OUTSIDE = """[...document.querySelectorAll('.lines th, .lines td')].filter(cell => {
  const { left, right } = cell.getBoundingClientRect();
  return left < 0 || right > innerWidth || cell.scrollWidth > cell.clientWidth;
}).map(cell => cell.textContent)"""
"""The cells that are not wholly in view, or cut."""
BOTTOM, TOP = "Math.max(...{}.map(cell => cell.bottom))", "Math.min(...{}.map(cell => cell.top))"


def test_texts_come_before_the_measures_on_a_phone(chromium: Browser, tmp_path: Path) -> None:
    """And all of a line is in view without scrolling to the right."""
    text = " ".join(NAMES)
    one = explorer("transformer")
    rows = list(measure_sentences(one.translator, [text] * 2, [[f"{text} {text}"] * 2]))
    ExplorerPage([one.explore(Question(text))], {"name": "test", "rows": rows}).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=390, height=844)
    assert chromium.get(OUTSIDE) == []
    for line in range(3):  # the first has the names
        cells = f"[...document.querySelectorAll('.lines tr')[{line}].cells]"
        boxes = f"{cells}.slice({{}}).map(cell => cell.getBoundingClientRect())"
        assert chromium.get(f"{BOTTOM.format(boxes.format(-3))} <= {TOP.format(boxes.format('0, -3'))}")
    assert chromium.get("document.body.scrollWidth <= innerWidth")

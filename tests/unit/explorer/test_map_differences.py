"""Two maps side by side: cells that differ are marked, counted in words, and told by keyboard."""

import copy
import re
from pathlib import Path

import numpy as np
import pytest

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from tests.support.browser import Browser
from tests.support.explorer_pages import click, explorer, texts

MARKED = """[...document.querySelectorAll('#reasons canvas')].map(canvas => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += data[i] === 179 && data[i + 1] === 89 && data[i + 2] === 0;
  return count;
})"""
"""Pixels in the color of marks, of each map."""
STEP = """(number, key) => {
  const canvas = document.querySelectorAll('#reasons canvas')[number];
  canvas.dispatchEvent(new KeyboardEvent('keydown', { key }));
  return canvas.title === document.querySelector('#reasons .status').textContent && canvas.title;
}"""


def test_cells_that_differ_are_marked(chromium: Browser, tmp_path: Path) -> None:
    first = explorer("transformer").explore(Question("two one seven"))
    for head in first["attention"]["cross"]["weights"][-1]:
        head[0][0] = 200
    second = copy.deepcopy(first)
    weights = second["attention"]["cross"]["weights"][-1]
    for head in weights:  # 0.25 more for the first word of the second row, and 0.09 for the second
        head[1][0] += 250
        head[1][1] += 90
        head[0][0] = 300  # 0.1 more, which is less in binary numbers
    for pair, count in (([first, first], 0), ([first, second], 2)):
        ExplorerPage(pair).save(tmp_path / "page.html")
        chromium.open(tmp_path / "page.html")
        click(chromium, "questions", "what if")
        marked = chromium.get(MARKED)
        assert [number > 0 for number in marked] == [count > 0] * 2
        note = texts(chromium, "#reasons .faint")[1]
        assert "differ by 0.1 or more" in note and f"({count})" in note
    assert marked[1] > marked[0]  # a line, and a dashed one where there is less
    before = np.array(first["attention"]["cross"]["weights"][-1]).mean(0)[1] / 1000
    for side, (change, map_name) in enumerate((("less", "second"), ("more", "first"))):
        for key in ("ArrowDown", "ArrowDown"):
            told = chromium.get(f"({STEP})({side}, '{key}')")
        weight, difference = map(float, re.findall(r"\d\.\d+", told)[:2])
        assert weight == pytest.approx(before[0] + 0.25 * side, abs=0.001) and difference == 0.25
        assert f"{change} than in the {map_name} map" in told


def test_words_of_one_map_alone_are_marked(chromium: Browser, tmp_path: Path) -> None:
    """The names of its rows and columns; its cells have no counterpart."""
    found = [explorer("transformer").explore(Question(text)) for text in ("two one", "two six one")]
    found[1] |= {key: found[0][key] for key in ("text", "hypotheses")}
    cross = found[0]["attention"]["cross"]
    extended = [[[[*row[:1], 0, *row[1:]] for row in head] for head in layer] for layer in cross["weights"]]
    found[1]["attention"]["cross"] |= {"queries": cross["queries"], "weights": extended, "windows": None}
    ExplorerPage(found).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    click(chromium, "questions", "what if")
    first, second = chromium.get(MARKED)
    assert first == 0 < second and texts(chromium, "#reasons mark") == ["six"]

"""The bars below a map: the attention that each source token gets in all, or that it got before a step."""

import re
from pathlib import Path

import numpy as np
import pytest

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from tests.support.browser import Browser
from tests.support.explorer_pages import explorer, texts

HEIGHT = 26
"""Of the bars, in pixels, at the bottom of the canvas."""
FULL = f"""(() => {{
  const canvas = document.querySelector('#attention .maps canvas');
  const {{ data }} = canvas.getContext('2d').getImageData(0, canvas.height - {HEIGHT}, canvas.width, {HEIGHT});
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += data[i] === 8 && data[i + 1] === 81 && data[i + 2] === 156;
  return count;
}})()"""
"""Pixels of the bars in the full color."""


def test_what_was_covered_before_a_step(chromium: Browser, tmp_path: Path) -> None:
    """From row to row by keyboard, in the map of the mean of the heads."""
    found = explorer("rnn").explore(Question("two one seven"))
    weights = np.array(found["attention"]["cross"]["weights"][-1]).mean(0) / 1000
    ExplorerPage([found]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=1400, height=900)
    chromium.get("document.querySelector('#attention .maps canvas').focus()")
    assert chromium.get(FULL) == 0  # no step is chosen
    areas = list[int]()
    for row in range(len(weights)):
        chromium.press("ArrowDown")
        (told,) = re.findall(r"had (\d\.\d+) before", texts(chromium, "#attention .status")[0])
        assert float(told) == pytest.approx(weights[:row, 0].sum(), abs=0.006)
        areas.append(chromium.get(FULL))
    assert areas[0] == 0
    steps = np.diff(areas)
    assert steps == pytest.approx(steps.mean(), rel=0.35)  # each row adds weights with the sum 1, here in whole pixels

"""The tree of a long search: the part in view is drawn, sharp on any screen and within the limits of browsers."""

from dataclasses import replace
from pathlib import Path

from seq2attn.explorer.explore import Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from tests.support.browser import Browser
from tests.support.explorer_pages import explorer, texts

STEPS, COLUMN, ROW, RATIO = 120, 92, 14, 3
SIZE = "(e => [e.width, e.height, e.clientWidth, e.clientHeight])(document.querySelector('#tree canvas'))"
HAS_INK = """(e => e.getContext('2d').getImageData(e.width / 2, 0, e.width / 2, e.height).data.some(Boolean))(
  document.querySelector('#tree canvas'))"""
"""Whether anything is drawn in the right half."""
SCROLL = """new Promise(resolve => {
  const box = document.querySelector('#tree .scroll');
  box.scrollTo(box.scrollWidth, 0);
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(box.scrollLeft)));
})"""
LIMITS = """import('explorer/dom.js').then(m => [[40000, 9], [20000, 10000]].map(size => {
  const { width, height } = m.canvasOf(document.createElement('canvas'), ...size).canvas;
  return [width, height];
}))"""


def test_the_part_in_view_is_drawn(chromium: Browser, tmp_path: Path) -> None:
    one = explorer("transformer")
    lengths = LengthsConfig(min_length=STEPS, max_length=STEPS, max_length_ratio=None)
    one = replace(one, translator=replace(one.translator, search=BeamConfig(beam_size=5, lengths=lengths)))
    found = one.explore(Question("two five"))
    ExplorerPage([found]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.call("Emulation.setDeviceMetricsOverride", width=1200, height=800, deviceScaleFactor=RATIO, mobile=False)
    chromium.wait(f"devicePixelRatio === {RATIO}")
    chromium.get("dispatchEvent(new Event('resize'))")
    width, height, shown_width, shown_height = chromium.get(SIZE)
    assert 0 < shown_width < 1200 < STEPS * COLUMN and [width, height] == [shown_width * RATIO, shown_height * RATIO]
    assert chromium.settled(SCROLL) > STEPS * COLUMN - 1200 and chromium.get(HAS_INK)
    tree, box = found["tree"], chromium.get("document.querySelector('#tree canvas').getBoundingClientRect().toJSON()")
    at_end = [node for node, step in enumerate(tree["step"]) if step == STEPS + 1]
    best = max(at_end, key=lambda node: tree["total"][node])
    x, y = box["right"] - COLUMN / 2, box["top"] + ROW
    chromium.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    token = found["tokens"][tree["token"][best]]
    status = texts(chromium, "#tree .status")[0]
    assert token in status and f"log-probability {tree['total'][best]:.2f}," in status


def test_a_canvas_is_within_the_limits_of_browsers(chromium: Browser, tmp_path: Path) -> None:
    """Of a side, and of all pixels."""
    ExplorerPage([explorer("transformer").explore(Question("two"))]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    long, large = chromium.settled(LIMITS)
    assert long == [32_767, 7]
    assert 0.99 * 2**24 < large[0] * large[1] <= 2**24 and abs(large[0] - 2 * large[1]) < 2


def test_narrow_columns_leave_room_for_the_scroll_bar(chromium: Browser, tmp_path: Path) -> None:
    """Of the rows: else the columns, which fit without it, would scroll too."""
    one, lengths = explorer("transformer"), LengthsConfig(min_length=18, max_length=18, max_length_ratio=None)
    one = replace(one, translator=replace(one.translator, search=BeamConfig(beam_size=20, lengths=lengths)))
    ExplorerPage([one.explore(Question("two five"))]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    sizes = "(e => [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth])"
    below, beside = chromium.get(f"{sizes}(document.querySelector('#tree .scroll'))")
    assert below > 0 == beside

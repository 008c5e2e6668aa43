"""The page of attention: what it holds, and what a browser makes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from seq2attn.drawing.page import Drawing, attention_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = "--headless --no-sandbox --disable-gpu --disable-background-networking --virtual-time-budget=3000"
SOURCE, TARGET = ["▁Die", "▁Katze", "</script>"], ["▁The", "▁cat", "<!--", "</s>"]


def drawing(layers: int = 2, heads: int = 2) -> Drawing:
    weights = np.random.default_rng(0).dirichlet([0.3] * len(SOURCE), size=(layers, heads, len(TARGET)))
    return Drawing(SOURCE, TARGET, weights.astype(np.float32))


def test_the_page_holds_all_weights_and_asks_nothing_of_a_network():
    page = attention_page([drawing(), drawing(1, 1)])
    (data,) = re.findall(r"const drawings = (.*);$", page, re.MULTILINE)
    first, second = json.loads(data)
    assert (first["source"], first["target"]) == (SOURCE, TARGET)
    np.testing.assert_allclose(first["weights"], drawing().weights, atol=6e-4)
    assert np.shape(second["weights"]) == (1, 1, len(TARGET), len(SOURCE))
    assert page.count("</script>") == 1
    assert not re.search(r"https?:|src=|<link", page)


def test_weights_of_another_size_are_refused():
    with pytest.raises(ValueError, match="weights are"):
        attention_page([Drawing(SOURCE, TARGET[:2], drawing().weights)])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_lights_up_what_is_pointed_at(tmp_path):
    one = drawing()
    acts = """
      const layer = document.getElementById("layer"), head = document.getElementById("head");
      layer.value = "0"; layer.dispatchEvent(new Event("change"));
      head.value = "1"; head.dispatchEvent(new Event("change"));
      const words = id => [...document.querySelectorAll(`#${id} .word`)];
      words("target")[1].dispatchEvent(new Event("mouseenter"));
      const seen = words("source").map(w => [w.title, w.style.background]);
      words("target")[1].dispatchEvent(new Event("mouseleave"));
      const after = words("source").map(w => [w.title, w.style.background]);
      const cells = document.querySelectorAll("#map td").length;
      document.title = JSON.stringify({seen, after, cells, words: words("source").map(w => w.textContent)});
    """
    page = attention_page([one]).replace("</body>", f"<script>{acts}</script></body>")
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [
        str(CHROMIUM),
        *FLAGS.split(),
        f"--user-data-dir={tmp_path / 'user'}",
        "--dump-dom",
        path.as_uri(),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    title = re.search(r"<title>(.*?)</title>", dom)
    assert title is not None
    found = json.loads(title[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert found["words"] == SOURCE
    assert found["cells"] == len(SOURCE) * len(TARGET)
    np.testing.assert_allclose([float(w) for w, _ in found["seen"]], one.weights[0, 1, 1], atol=6e-4)
    assert len({colour for _, colour in found["seen"]}) > 1
    assert found["after"] == [["", ""]] * len(SOURCE)

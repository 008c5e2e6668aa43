"""The output of a cell in the HTML file of a notebook, as nbconvert writes it, and without scripts and frames."""

import re
from pathlib import Path

from tests.support.browser import Browser
from tests.support.explorer_pages import TEXT, explorer, texts

NOTEBOOK = (
    '<!DOCTYPE html><html><meta charset="utf-8"><body class="jp-Notebook"><main><div class="jp-OutputArea-output">'
    '<div class="jp-RenderedHTMLCommon jp-RenderedHTML" data-mime-type="text/html">{}</div></div></main></body></html>'
)


def test_the_page_lives_on_in_a_converted_notebook(chromium: Browser, tmp_path: Path) -> None:
    page = explorer("transformer").translator.explore(TEXT)
    (tmp_path / "notebook.html").write_text(NOTEBOOK.format(page._repr_html_()), encoding="utf-8")
    chromium.errors.clear()
    chromium.open(tmp_path / "notebook.html")
    frame = "document.querySelector('iframe').contentDocument"
    chromium.wait(f"{frame}.querySelector('#sentence .tokens') !== null")
    chromium.get(f"{frame}.querySelectorAll('#sentence .tokens')[1].querySelector('button').click()")
    assert chromium.get(f"{frame}.querySelectorAll('.effects tbody tr').length") == 3
    assert chromium.get(f"[...{frame}.querySelectorAll('section:not([hidden]) canvas')].every(e => e.width > 0)")
    assert chromium.errors == []


def test_the_n_best_list_and_a_picture_remain_without_scripts_and_frames(chromium: Browser, tmp_path: Path) -> None:
    page = explorer("transformer").translator.explore(TEXT)
    (found,) = page.explorations
    remaining = re.sub("<(iframe|script).*?</\\1>", "", page._repr_html_(), flags=re.DOTALL)
    (tmp_path / "notebook.html").write_text(NOTEBOOK.format(remaining), encoding="utf-8")
    chromium.open(tmp_path / "notebook.html")
    chromium.tab_to("summary")
    chromium.press("Enter")
    assert texts(chromium, "details td:first-child") == [one["text"] for one in found["hypotheses"]]
    cross = found["attention"]["cross"]
    assert texts(chromium, "details svg text") == [*cross["queries"]["tokens"], *cross["keys"]["tokens"]]
    assert chromium.get("document.querySelector('svg').getBoundingClientRect().height > 0")
    assert chromium.get("document.querySelector('b') === null")  # which the sentence has as text

"""The scores of the n-best list: what they are called, and whether a search is judged by them."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.static_view import static_html
from seq2attn.search.search_config import BeamConfig, LengthsConfig, SampleConfig, SearchConfig
from tests.support.browser import Browser
from tests.support.explorer_pages import TEXT, explorer, texts

LENGTHS = LengthsConfig(max_length=6)


@pytest.mark.parametrize(
    ("search", "name", "is_judged"),
    [
        (BeamConfig(beam_size=3, lengths=LENGTHS), "score", True),
        (SampleConfig(num_samples=3, lengths=LENGTHS), "score", False),
        (SampleConfig(num_samples=3, lengths=LENGTHS, mbr=True), "expected chrF", False),
    ],
)
def test_the_score_has_its_name(
    chromium: Browser, tmp_path: Path, search: SearchConfig, name: str, is_judged: bool
) -> None:
    one = Explorer("", replace(explorer("local").translator, search=search))
    found = one.record(Question(TEXT, reference="one two"))
    expected = one.translator.translate(TEXT)
    assert [each["score"] for each in found["hypotheses"]] == [
        pytest.approx(each.score, abs=1e-3) for each in (expected, *expected.alternatives)
    ]
    assert (found["diagnosis"] is not None) == is_judged
    ExplorerPage([found]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    assert texts(chromium, "#sentence .list th")[-1] == name
    table = ElementTree.fromstring(f"<p>{static_html(found)}</p>")
    assert [cell.text for cell in table.iter("th")][-1] == name


@pytest.mark.parametrize(("count", "text"), [(1, "1 sample"), (3, "3 samples")])
def test_the_samples_are_counted(count: int, text: str) -> None:
    search = SampleConfig(num_samples=count, lengths=LENGTHS)
    one = Explorer("", replace(explorer("local").translator, search=search))
    assert one.explore(Question(TEXT))["search"]["description"] == text

"""The page of `compare` in a browser has the tables of its text."""

from pathlib import Path

import pytest

from seq2attn.evaluation.compare_report import (
    FrequencyBucket,
    RunComparison,
    SentenceDifference,
    SetComparison,
    comparison_html,
    comparison_text,
    seed_spread,
)
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, Score
from seq2attn.metrics.significance import PairedScore
from tests.support.browser import Browser

RUNS = "first", "second <b>"
SCORES = {
    "BLEU": dict(zip(RUNS, [PairedScore(0.5, "sig", 0.25, None), PairedScore(0.75, "sig", 0.5, None)], strict=True)),
    "chrF2": dict(zip(RUNS, [PairedScore(30, "sig", 1.5, None), PairedScore(40, "sig", None, 0.001)], strict=True)),
}
BLEU = {run: Score("BLEU", value, "sig") for run, value in zip(RUNS, (12.25, 13.5), strict=True)}
LENGTHS = {run: [LengthBucket(*ends, 1234, 3.5, BLEU[run]) for ends in ((1, 5), (6, 10))] for run in RUNS}
FREQUENCIES = [
    FrequencyBucket(*ends, 4321, dict(zip(RUNS, (7.5, 8.5), strict=True))) for ends in ((0, 0), (1, 4), (5, None))
]
EXAMPLE = SentenceDifference(
    7,
    "Das Haus",
    "The house",
    dict(zip(RUNS, (11.5, 22.5), strict=True)),
    dict(zip(RUNS, ([("The ", True), ("house", True)], [("A ", False), ("house", True)]), strict=True)),
)
SET = SetComparison("news", 2468, "n of N lines", {}, SCORES, LENGTHS, FREQUENCIES, [EXAMPLE])
TABLES = "[...document.querySelectorAll('table')].map(t => [...t.rows].map(r => [...r.cells].map(c => c.textContent)))"


def test_the_spread_over_seeds() -> None:
    """Mean, and the deviation of a sample."""
    first, *others = seed_spread(RunComparison(RUNS, "bootstrap", (RUNS,), (SET,)))
    assert first == ("news", "BLEU", "first, second <b>", 0.625, pytest.approx(0.125 * 2**0.5)) and len(others) == 1


def test_the_page_has_the_tables_of_the_text(chromium: Browser, tmp_path: Path) -> None:
    comparison = RunComparison(RUNS, "bootstrap", (), (SET,))
    (tmp_path / "page.html").write_text(comparison_html(comparison), "utf-8")
    chromium.open(tmp_path / "page.html")
    scores, lengths, frequencies, example = chromium.get(TABLES)
    text = comparison_text(comparison, markdown=True)
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip().replace("(", "").replace(")", "") for cell in row] for row in rows]
    for row in [*scores[1:], *lengths[1:], *frequencies[1:]]:
        assert row in cells
    assert example[0] == ["line 7", "", "chrF"] and example[-1] == ["second <b>", "A house", "22.5"]
    assert chromium.get("[...document.querySelectorAll('.other')].map(one => one.textContent)") == ["A"]
    notes = chromium.get("document.querySelector('#notes').textContent")
    assert "compares one seed of each run" in notes and "n of N lines" in notes

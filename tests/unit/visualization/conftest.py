"""Random attention weights, and pages of them in a browser."""

from pathlib import Path

import pytest

from seq2attn.visualization.attention import draw_attention
from tests.support.attention_pages import Show
from tests.support.browser import Browser


@pytest.fixture
def show(chromium: Browser, tmp_path: Path) -> Show:
    """The page of one sentence or of several."""

    def show(weights, *selection, run="", **options) -> Browser:
        draw_attention(weights, tmp_path / "page.html", *selection, run=run)
        chromium.requested_urls.clear()
        chromium.open(tmp_path / "page.html", **options)
        return chromium

    return show

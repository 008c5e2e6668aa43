"""An imported model in the explorer: a Marian model with SentencePiece, and with tags of languages."""

from pathlib import Path
from typing import Any

import pytest

import seq2attn
from seq2attn.explorer.page import ExplorerPage
from seq2attn.options.runs import ImportOptions
from tests.support.browser import Browser
from tests.support.explorer_pages import click, texts
from tests.support.marian import SOURCE, make_marian


@pytest.mark.parametrize(
    ("made", "tag"), [({}, None), ({"tags": [">>fra<<", ">>eng<<"]}, "fra")], ids=["Marian", "Marian with tags"]
)
def test_an_imported_model(chromium: Browser, tmp_path: Path, made: dict[str, Any], tag: str | None) -> None:
    make_marian(tmp_path / "hf", **made)
    (tmp_path / "lines").write_text(SOURCE[0], encoding="utf-8")
    options = ImportOptions(punctuation=False, target_language=tag)
    seq2attn.import_model(tmp_path / "hf", tmp_path / "run", options, verify_with=tmp_path / "lines")
    translator = seq2attn.load(tmp_path / "run")
    page = translator.explore(SOURCE[0])
    assert isinstance(page, ExplorerPage)
    (found,) = page.explorations
    assert found["hypotheses"][0]["text"] == translator.translate(SOURCE[0]).text
    shapes = {kind: (len(one["layers"]), len(one["heads"])) for kind, one in found["attention"].items()}
    assert shapes == {"cross": (2, 4), "encoder": (2, 2), "decoder": (2, 4)}
    page.save(tmp_path / "page.html")
    chromium.errors.clear()
    chromium.open(tmp_path / "page.html")
    words = ["Das", "rote", "Haus", "ist", "alt", "."]
    assert texts(chromium, "#sentence .tokens:first-of-type .tag") == ([">>fra<<"] if tag else []) + ["</s>"] * 2
    click(chromium, "attention", "words")
    chromium.get("document.querySelector('#attention .scroll canvas').focus()")
    label = "document.querySelector('#attention .scroll canvas').ariaLabel"
    assert f"{len(found['source']['words'])} columns" in chromium.get(label)
    assert [word for word in found["source"]["words"] if word[0] not in "<>"] == words
    chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelector('button').click()")
    assert len(texts(chromium, ".effects tbody tr")) == 3 and chromium.errors == []

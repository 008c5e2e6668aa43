"""The pictures of docs/explorer.md, by Chromium: `PYTHONPATH=. python scripts/explorer_pictures.py RUN OTHER_RUN`.

RUN is that of `bash scripts/demo.sh`, OTHER_RUN another model of the phrasebook, such as runs/attention/12-transformer.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from explorer_speed import serve

import seq2attn
from seq2attn.explorer.explore import Explorer
from tests.support.browser import Browser, browser

SENTENCE = "Die Mutter hat dem Kind gestern ein neues Buch gegeben."
REFERENCE = "Yesterday, the mother gave a new book to the child."
FOLDER = Path(__file__).parents[1] / "docs"
SIZE = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
OTHER_RUN = {"run": 1}
GAVE = 2
"""The place of the word of the translation that the pictures ask about."""


@dataclass(frozen=True)
class Picture:
    """A part of the page, as a link restores it."""

    name: str
    selector: str
    state: dict[str, Any] = field(default_factory=dict)  # what is selected
    asked: dict[str, Any] = field(default_factory=dict)  # beside the sentence
    second: dict[str, Any] | None = None  # what is asked besides, and compared


PICTURES = (
    Picture("explorer", "body", {"word": GAVE, "reason": "what mattered"}),
    Picture("explorer/sentence", "#sentence", {"word": GAVE}),
    Picture("explorer/tree", "#tree"),
    Picture("explorer/considered", "#considered", {"word": GAVE}),
    Picture("explorer/attention", "#attention", {"reason": "attention", "words": True}),
    Picture("explorer/mattered", "#panel", {"word": GAVE, "reason": "what mattered"}),
    Picture("explorer/what-if", "#panel", {"reason": "what if"}, second={"text": SENTENCE.replace("Kind", "Arzt")}),
    Picture("explorer/reference", "#panel", {"reason": "whose fault"}, {"reference": REFERENCE}),
    Picture("explorer/runs", "#panel", {"reason": "what if"}, second=OTHER_RUN),
)


def main() -> None:
    """Write all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs=2, type=Path, metavar="RUN")
    runs = parser.parse_args().runs
    (FOLDER / "explorer").mkdir(exist_ok=True)
    explorers = [Explorer(run.name, seq2attn.load(run)) for run in runs]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        browser(Path(folder)) as page,
        page.online(),
    ):
        page.call("Emulation.setDeviceMetricsOverride", **SIZE)
        for picture in PICTURES:
            with serve(explorers if picture.second == OTHER_RUN else explorers[:1]) as address:
                question = json.dumps([picture.asked, picture.second])
                link = {"text": SENTENCE, "question": question, "state": json.dumps(picture.state)}
                page.open_url(f"{address}#{urlencode(link)}")
                page.wait("document.body.ariaBusy === 'false' && document.querySelector('#tree canvas') !== null")
                save(page, picture.name, picture.selector)
        file = Path(folder) / "table.html"
        command = [
            sys.executable,
            "-m",
            "seq2attn",
            "explore",
            runs[0],
            "--test-set",
            "unseen",
            "--worst",
            "12",
            "-o",
            file,
        ]
        subprocess.run(command, check=True)
        page.open(file, width=SIZE["width"], height=SIZE["height"])
        save(page, "explorer/table", "#table")


def save(page: Browser, name: str, selector: str) -> None:
    """Write a picture of a part of the page."""
    box = page.get(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
    clip = {name: box[name] for name in ("x", "y", "width", "height")} | {"scale": 1}
    data = page.call("Page.captureScreenshot", format="png", clip=clip)["data"]
    path = FOLDER / f"{name}.png"
    path.write_bytes(base64.b64decode(data))
    print(path)


if __name__ == "__main__":
    main()

"""Times of the explorer in a real browser, and sizes of its files: `PYTHONPATH=. explorer_speed.py RUN "SENTENCE"`.

The page of a local server is opened in Chromium: the time to its first paint. Then the sentence is asked with a beam of
5, and four times in a row with a beam of 20: the time from the key Enter until the tree is drawn. Each is the median of
five, after one that does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn

import seq2attn
from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.explorer.server import HOST, build_app
from tests.support.browser import Browser, browser

TIMES = 6
DRAWN = """new Promise(resolve => {
  let start;
  addEventListener("keydown", event => (start = event.timeStamp), { once: true });
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start))); // after it is painted
  }).observe(document.getElementById("tree"), { childList: true });
})"""


def main() -> None:
    """Print a line for the first paint, and lines for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("sentence", help="a sentence of about fifteen words")
    arguments = parser.parse_args()
    explorer = Explorer("", seq2attn.load(arguments.run))
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        browser(Path(folder)) as page,
        page.online(),
        serve([explorer]) as address,
    ):
        print(f"first paint: {median(first_paint(page, address) for _ in range(TIMES)):.2f} s")
        for times, beam in ((1, 5), (4, 20)):
            question = Question(" ".join([arguments.sentence] * times), beam=beam)
            seconds = median(key_to_tree(page, question) for _ in range(TIMES))
            words, nodes = len(question.text.split()), len(explorer.explore(question)["tree"]["step"])
            print(f"{words} words, beam {beam}: {seconds:.2f} s from key to tree, {nodes:,} candidates")
            saved = ExplorerPage([explorer.record(question)] * 10).to_html()
            print(f"page of ten such sentences: {len(saved.encode()) / 1000:,.0f} kB")


def median(seconds: Iterator[float]) -> float:
    """The median without the first, which is slower."""
    return statistics.median([*seconds][1:])


@contextmanager
def serve(explorers: Sequence[Explorer]) -> Iterator[str]:
    """The address of a server."""
    server = uvicorn.Server(uvicorn.Config(build_app(explorers), HOST, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://{HOST}:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def first_paint(page: Browser, address: str) -> float:
    """Seconds from the request to the first paint of a page with content."""
    page.open_url("about:blank")
    page.open_url(address)
    page.wait("performance.getEntriesByName('first-contentful-paint').length > 0")
    milliseconds: float = page.get("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return milliseconds / 1000


def key_to_tree(page: Browser, question: Question) -> float:
    """Seconds from the key Enter in the field of the sentence until the tree of its search is on the screen."""
    for name, value in (("beam", question.beam), ("text", question.text)):
        page.get(
            f"(field => {{ field.value = {json.dumps(value)}; field.focus(); }})(document.getElementById('{name}'))"
        )
    page.get(f"window.drawn = {DRAWN}; null")
    page.press("Enter")
    milliseconds: float = page.settled("window.drawn")
    return milliseconds / 1000


if __name__ == "__main__":
    main()

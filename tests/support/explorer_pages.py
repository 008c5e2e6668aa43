"""Models to explore, and what tests do with the explorer's page in a browser."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from seq2attn.explorer.explore import Explorer
from seq2attn.explorer.server import build_app
from seq2attn.inference.translator import Translator
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from seq2attn.visualization.page import render_explorer, script_json
from tests.support.browser import Browser
from tests.support.models import model
from tests.support.searches import spread_logits

NAMES = ["one", "two", "three", "four", "five", "six", "seven"]
TEXT = "two </script><b> one seven"
RIGHT_TO_LEFT = ["הכלב", "רץ", "كلب", "你好", "x\u202ey", "word"]
MODELS = {
    "rnn": ("bahdanau-gru", "additive", "global"),
    "transformer": ("transformer", "multi-head", "global"),
    "local": ("luong", "general", "local-p"),
    "hard": ("luong", "general", "hard-gumbel"),
    "monotonic": ("luong", "general", "monotonic"),
    "none": ("fixed-gru", "additive", "global"),
}


def explorer(name: str) -> Explorer:
    decoder, score, align = MODELS[name]
    tokenizer = WordTokenizerConfig().train(NAMES)
    net = spread_logits(model("transformer" if name == "transformer" else "gru", decoder, score, align))
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=6))
    return Explorer(name, Translator.from_model(net, tokenizer, tokenizer, search))


def right_to_left_explorer() -> Explorer:
    """An explorer of text from right to left, Chinese text, and a tag."""
    tokenizer = WordTokenizerConfig(pre_tokenizer="whitespace").train(RIGHT_TO_LEFT).with_tags(("<2he>",))
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=6))
    net = spread_logits(model("transformer", "transformer", "multi-head"))
    return Explorer("right-to-left", Translator.from_model(net, tokenizer, tokenizer, search))


@contextmanager
def serve(*explorers: Explorer) -> Iterator[str]:
    """The address of a server of live pages."""
    server = uvicorn.Server(uvicorn.Config(build_app(explorers), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def texts(browser: Browser, selector: str) -> list[str]:
    """The text of all elements."""
    found: list[str] = browser.get(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")
    return found


def click(browser: Browser, section: str, name: str) -> None:
    """Click the button with this text."""
    buttons = f"[...document.querySelectorAll('#{section} button, {section} > form > button')]"
    browser.get(f"{buttons}.find(button => button.textContent === {name!r}).click()")


KERNEL = """
const held = [];
const reply = ({ id, kind, body }) => {
  const answer = found[kind][body.text];
  postMessage(answer ? { id, answer } : { id, error: `no answer to ${body.text}` });
};
addEventListener("message", event => {
  if (!event.data.kind) return; // an answer
  event.stopImmediatePropagation(); // the page, which waits for the answer, is the same window
  window.isHeld ? held.push(event.data) : reply(event.data);
});
"""


def open_live(browser: Browser, path: Path, found: dict[str, dict[str, Any]], runs: Sequence[str] = ("",)) -> None:
    """Open a live page whose own window answers, from `found[kind][text]`; it begins with the first text.

    The page's `held` has the questions that come while its `isHeld` is true; `reply(question)` answers one.
    """
    text = next(iter(found["explore"]))
    page = render_explorer({"live": "notebook", "runs": runs, "text": text})
    script = f"<script>const found = {script_json(found)};\n{KERNEL}</script>"
    path.write_text(page.replace("<head>", f"<head>{script}", 1), encoding="utf-8")
    browser.open(path)
    browser.wait("document.querySelector('#sentence .tokens') !== null")


def type_text(browser: Browser, selector: str, text: str) -> None:
    """Type a text in place of that of a field, which keeps the focus."""
    browser.get(f"document.querySelector({selector!r}).select()")
    browser.call("Input.insertText", text=text)

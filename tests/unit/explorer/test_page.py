"""The explorer's page in a browser: recorded pages of several models, all views, by keyboard, at three widths."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2attn.evaluation.head_selection import AttentionHead, Step
from seq2attn.explorer.explore import MAX_SHORT, Question
from seq2attn.explorer.page import ExplorerPage
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from seq2attn.tokenizers.tokenized_text import pool_to_words
from seq2attn.visualization.page import script_json
from tests.support.attention_pages import page_data
from tests.support.browser import Browser
from tests.support.explorer_pages import MODELS, TEXT, click, explorer, right_to_left_explorer, serve, texts

VIEWS = ["sentence", "tree", "considered", "attention"]


def save(folder: Path, *names: str) -> tuple[Path, list[dict[str, Any]]]:
    """A page of one exploration of each model, and their content."""
    explorations = [explorer(name).record(Question(TEXT, reference="one two")) for name in names]
    ExplorerPage(explorations).save(folder / "page.html")
    return folder / "page.html", explorations


@pytest.mark.parametrize("width", [400, 900, 1400])
@pytest.mark.parametrize("name", MODELS)
def test_all_views_of_a_model(chromium: Browser, tmp_path: Path, name: str, width: int) -> None:
    page, (found,) = save(tmp_path, name)
    chromium.requested_urls.clear()
    chromium.open(page, width=width, dark=width == 900)
    assert chromium.get("[...document.querySelectorAll('section:not([hidden])')].map(e => e.id)") == VIEWS
    assert texts(chromium, "#sentence .list button") == [one["text"] for one in found["hypotheses"]]
    assert not {url.split(":")[0] for url in chromium.requested_urls} - {"file", "data"}
    assert chromium.get("document.querySelector('main b') === null && document.body.scrollWidth <= innerWidth")
    if name == "none":
        assert "no attention" in texts(chromium, "#attention")[0]
    else:
        assert chromium.get("document.querySelectorAll('#attention canvas').length") > 0
    chromium.mouse("#sentence .tokens:nth-of-type(1) button", 0, click=True)
    chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelectorAll('button')[1].click()")
    place = found["importance"][1]
    assert texts(chromium, ".effects thead th")[1:] == [*place["words"]]
    shown = texts(chromium, ".effects tbody tr:first-child .number")
    assert [float(value) for value in shown] == pytest.approx(place["left_out"], abs=0.006)
    words = found["considered"][str(found["tree"]["parent"].index(-1))]
    assert len(texts(chromium, "#considered tbody tr")) == len(words)
    chromium.get("[...document.querySelectorAll('#questions button')].at(-1).click()")
    assert "failed" in texts(chromium, "#reasons p")[0]


def test_the_tree_tells_why_each_candidate_was_dropped(chromium: Browser, tmp_path: Path) -> None:
    """By keyboard alone: from the first node to each level, and along it."""
    page, (found,) = save(tmp_path, "transformer")
    chromium.open(page)
    chromium.get("document.querySelector('#tree canvas').focus()")
    chromium.press("Home")
    assert "empty translation" in texts(chromium, "#tree .status")[0]
    chromium.press("ArrowRight")
    tree, seen = found["tree"], []
    for _ in range(tree["step"].count(1)):
        seen.append(texts(chromium, "#tree .status")[0])
        chromium.press("ArrowDown")
    assert len({*seen}) == tree["step"].count(1)
    dropped = [text for text in seen if "out of the beam" in text]
    assert len(dropped) == sum(
        fate == "beam" and step == 1 for fate, step in zip(tree["fate"], tree["step"], strict=True)
    )
    assert all("the last place went to" in text for text in dropped)
    chromium.press("Enter")
    assert texts(chromium, "#considered p")[0] == "at the beginning"


def test_a_slider_chooses_among_checkpoints(chromium: Browser, tmp_path: Path) -> None:
    names = ["update 10", "update 20", "update 30"]
    checkpoints = [replace(explorer("transformer"), name=name).explore(Question(TEXT)) for name in names]
    ExplorerPage(checkpoints).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.choose("#choice input[type=range]", 2)
    assert (
        texts(chromium, "#runs") == ["update 30"]
        and chromium.get("document.querySelector('#choice select').value") == "2"
    )
    checkpoints[1]["text"] = "another sentence"
    ExplorerPage(checkpoints).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    assert chromium.get("document.querySelector('#choice input')") is None


@pytest.mark.parametrize("step", ["output", "input"])
def test_a_word_lights_up_its_source_by_the_selected_head(chromium: Browser, tmp_path: Path, step: Step) -> None:
    one = replace(explorer("transformer"), alignment_head=AttentionHead(1, 2, step)).explore(Question(TEXT))
    ExplorerPage([one]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    weights = np.array(one["attention"]["cross"]["weights"][0][1]) / 10
    (rows,) = one["attention"]["alignment"]["weights"][0]
    assert np.array(rows)[:-1] / 10 == pytest.approx(weights[:-1] if step == "output" else weights[1:])
    chromium.mouse("#sentence .line:nth-child(2) button", 0)
    style = ".map(button => Number(button.style.getPropertyValue('--share')))"
    shares = f"[...document.querySelectorAll('#sentence .line:first-child button')]{style}"
    assert chromium.get(shares) == pytest.approx(weights[0 if step == "output" else 1], abs=1)
    chromium.mouse("#sentence .line:first-child button", 0)
    column = weights[:, 0] if step == "output" else [*weights[1:, 0], 0]
    assert chromium.get(shares.replace("first-child", "nth-child(2)")) == pytest.approx(column, abs=1)
    chromium.mouse("#tree h2", 0)  # elsewhere
    assert not any(chromium.get(shares.replace("first-child", "nth-child(2)")) + chromium.get(shares))


def test_each_hypothesis_lights_up_its_source(chromium: Browser, tmp_path: Path) -> None:
    one = explorer("transformer").explore(Question(TEXT))
    ExplorerPage([one]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    style = ".map(button => Number(button.style.getPropertyValue('--share')))"
    shares = f"[...document.querySelectorAll('#sentence .line:first-child button')]{style}"
    best = (np.mean(one["attention"]["cross"]["weights"][-1], 0) / 10).tolist()
    rows = [best, *(hypothesis["alignment"] for hypothesis in one["hypotheses"][1:])]
    assert len(rows) == 3
    for number, weights in enumerate(rows):
        chromium.get(f"document.querySelectorAll('#sentence .list button')[{number}].click()")
        for place, row in enumerate(weights):
            chromium.mouse("#sentence .line:nth-child(2) button", place)
            assert chromium.get(shares) == pytest.approx(row, abs=1)
        chromium.mouse("#sentence .line:first-child button", 1)
        column = pytest.approx([row[1] for row in weights], abs=1)
        assert chromium.get(shares.replace("first-child", "nth-child(2)")) == column


def test_notes_are_those_of_the_sentence(chromium: Browser, tmp_path: Path) -> None:
    found = [explorer("transformer").explore(Question(text)) for text in ("two unheard", "two", "three")]
    assert [bool(one["notes"]) for one in found] == [True, False, False]
    ExplorerPage(found).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    message = "document.getElementById('message').textContent"
    shown = [chromium.get(message)]
    for number in (1, 0):
        chromium.choose("#choice select", number)
        shown.append(chromium.get(message))
    assert shown == [found[0]["notes"][0], "", found[0]["notes"][0]]


@pytest.mark.parametrize("width", [400, 1280])
def test_right_to_left_text_and_tags(chromium: Browser, tmp_path: Path, width: int) -> None:
    """Tokens stay separate, a line has the direction of its first letter, and tags are marked."""
    found = right_to_left_explorer().record(Question("<2he> הכלב רץ word"))
    ExplorerPage([found]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=width)
    assert texts(chromium, "#sentence .tokens .tag") == ["<2he>", "</s>", "</s>"]
    assert "x‹202e›y" in texts(chromium, "#considered tbody button")
    direction = "getComputedStyle(document.querySelector('#sentence .tokens')).direction"
    assert chromium.get(direction) == "rtl"
    places = "[...document.querySelectorAll('#sentence .tokens')[0].children].map(e => e.getBoundingClientRect().x)"
    assert chromium.get(places) == sorted(chromium.get(places), reverse=True)  # from right to left
    assert chromium.get("document.body.scrollWidth <= innerWidth")


def test_reasons_are_recorded_of_short_sentences() -> None:
    one = explorer("transformer")
    for tokens, is_short in ((MAX_SHORT - 1, True), (MAX_SHORT, False)):  # without EOS
        search = BeamConfig(beam_size=2, lengths=LengthsConfig(min_length=tokens, max_length=tokens))
        found = replace(one, translator=replace(one.translator, search=search)).record(Question(TEXT))
        assert len(found["hypotheses"][0]["ids"]) == tokens
        assert ("importance" in found) == is_short


def test_pooled_weights_are_those_of_python(chromium: Browser, tmp_path: Path) -> None:
    """Words of the page against `pool_to_words`."""
    page, _ = save(tmp_path, "transformer")
    chromium.open(page)
    rng = np.random.default_rng(0)
    weights, queries, keys = rng.random((4, 5)), (0, 0, 1, 2), (0, 1, 1, 1, 2)
    sides = [json.dumps({"words": ["a", "b", "c"], "word_ids": ids}) for ids in (queries, keys)]
    call = f"import('explorer/data.js').then(m => m.byWord({json.dumps(weights.tolist())}, {', '.join(sides)}))"
    response = chromium.call("Runtime.evaluate", expression=call, returnByValue=True, awaitPromise=True)
    expected = pool_to_words(weights.astype(np.float32), (queries, 3), (keys, 3))
    assert np.array(response["result"]["value"]) == pytest.approx(expected, abs=1e-6)


NOTEBOOK = """
const url = URL.createObjectURL(new Blob([data.esm], { type: "text/javascript" }));
const { default: widget } = await import(url);
const receivers = new Set();
window.sent = [];
window.answer = ({ id }) => receivers.forEach(receive => receive({ ...data.answer, id }));
const model = {
  get: name => data[name],
  on: (_, receive) => receivers.add(receive),
  off: (_, receive) => receivers.delete(receive),
  send: question => question.body.text === "two five" && sent.push(question),
};
window.close = [0, 1].map(() => widget.render({ model, el: document.body }));
"""


def test_a_notebook_answers_by_messages(chromium: Browser, tmp_path: Path) -> None:
    """The module of the widget in a page that stands for a notebook, with two views and an answer of the kernel."""
    widget = explorer("local").translator.explore("two five", live=True)
    answer = widget.answer({"id": 1, "kind": "explore", "body": {"text": "two five"}})
    data = script_json({"esm": widget._esm, "page": widget.page, "answer": answer})
    page = tmp_path / "notebook.html"
    page.write_text(f"<body><script type=module>const data = {data};\n{NOTEBOOK}</script>", encoding="utf-8")
    chromium.open(page)
    chromium.wait("window.sent?.length === 2")
    answered = "[...document.querySelectorAll('iframe')].map(e => e.contentDocument.querySelector('.tokens') !== null)"
    for number, is_answered in enumerate(([True, False], [True, True])):  # the views as they asked
        chromium.get(f"answer(sent[{number}])")
        chromium.wait(f"{answered}.filter(Boolean).length === {sum(is_answered)}")
    frame = "document.querySelector('iframe').contentDocument"
    chromium.get(f"{frame}.querySelectorAll('#sentence .list button')[1].click()")
    assert "maximum length" in chromium.get(f"{frame}.getElementById('message').textContent")  # and no error
    chromium.get("close.forEach(end => end()); document.body.replaceChildren(); answer(sent[0])")


def test_the_server_answers_what_the_page_asks(chromium: Browser, tmp_path: Path) -> None:
    """Translate, force a word, change the source, give a reference: in the browser, against a running server."""
    with serve(explorer("local"), explorer("hard")) as address, chromium.online():
        check_live_page(chromium, f"{address}/#text=two+five")


KEEP = "URL.createObjectURL = blob => blob.text().then(text => (window.saved = text)) && 'data:,'"
"""A script that keeps what is saved, in place of a download."""


def check_live_page(chromium: Browser, address: str) -> None:
    chromium.requested_urls.clear()
    chromium.open_url(address)
    chromium.wait("document.querySelectorAll('#considered tbody tr').length > 0")
    chromium.get("document.getElementById('text').value = 'three one'")
    click(chromium, "header", "translate")
    chromium.wait("document.querySelector('#sentence .tokens').textContent === 'threeone</s>'")
    word = texts(chromium, "#considered tbody button:not(.why)")[2]
    click(chromium, "considered", word)
    chromium.wait("document.querySelector('.forced') !== null")
    assert texts(chromium, "#sentence .line:nth-child(2) button")[0] == word
    click(chromium, "runs", "compare")  # whose vocabulary may have other numbers
    chromium.wait("document.querySelectorAll('#reasons b').length === 2")
    free = explorer("hard").explore(Question("three one"))["hypotheses"][0]["text"]
    assert f"hard {free} " in texts(chromium, "#reasons p")
    click(chromium, "sentence", f"{word} ×")
    chromium.wait("document.querySelector('.forced') === null")
    chromium.get("document.querySelectorAll('#considered .why:not([hidden])')[1].click()")
    chromium.wait("document.querySelector('.effects') !== null")
    assert "probable" in texts(chromium, "#reasons p")[0]
    click(chromium, "questions", "what if")
    click(chromium, "reasons", "delete")
    chromium.wait("document.querySelectorAll('#reasons canvas').length === 2")
    click(chromium, "runs", "compare")
    both = "[...document.querySelectorAll('#reasons b')].map(e => e.textContent).join('') === 'local hard '"
    chromium.wait(both)
    chromium.get(KEEP)
    chromium.get("document.getElementById('save').click()")
    chromium.wait("window.saved !== undefined")
    saved = page_data(chromium.get("saved"))
    asked = Question("three one")
    assert saved["explorations"] == json.loads(json.dumps([explorer(name).record(asked) for name in ("local", "hard")]))
    link = chromium.get("location.href")
    chromium.open_url("about:blank")
    chromium.open_url(link)
    chromium.wait(both)
    assert texts(chromium, "#sentence .tokens")[0] == "threeone</s>"
    click(chromium, "questions", "whose fault")
    chromium.get("document.querySelector('#reasons input').value = 'six'")
    click(chromium, "reasons", "compare")
    chromium.wait("document.querySelector('#reasons mark') !== null")
    chromium.get("document.getElementById('text').value = 'two four'")
    click(chromium, "header", "translate")
    chromium.wait("document.querySelector('#sentence .tokens').textContent === 'twofour</s>'")
    chromium.wait("document.querySelector('#reasons mark') === null")  # the reference was of the other sentence
    chromium.get("document.querySelectorAll('#sentence .list button')[1].click()")
    link = chromium.get("location.href")
    chromium.open_url("about:blank")
    chromium.open_url(link)
    chromium.wait("document.querySelectorAll('#sentence .list button')[1]?.ariaPressed === 'true'")
    chromium.get("document.getElementById('text').value = ' '")
    click(chromium, "header", "translate")
    chromium.wait("document.getElementById('message').textContent === 'there is no text to translate'")
    assert {url.split("#")[0].rsplit("/", 1)[0] for url in chromium.requested_urls if not url.startswith("data")} <= {
        address.split("/#")[0],
        f"{address.split('/#')[0]}/v1",
    }

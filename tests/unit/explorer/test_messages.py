"""Messages of the explorer's page: each stays as long as it holds."""

import math
from dataclasses import replace
from pathlib import Path

import torch

from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage
from tests.support.browser import Browser
from tests.support.explorer_pages import click, explorer, open_live, right_to_left_explorer, serve, texts, type_text


def test_a_message_ends_with_the_next_step(chromium: Browser, tmp_path: Path) -> None:
    ExplorerPage([explorer("transformer").explore(Question("two"))]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    chromium.get("document.querySelector('#considered tbody button:enabled').click()")
    assert "in a live page" in texts(chromium, "#message")[0]
    click(chromium, "attention", "words")
    assert texts(chromium, "#message") == [""]


def test_notes_of_the_second_exploration_are_shown_beside_it(chromium: Browser, tmp_path: Path) -> None:
    found = [{**explorer(name).explore(Question("two")), "notes": [f"note of {name}"]} for name in ("local", "hard")]
    ExplorerPage(found).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    click(chromium, "questions", "what if")
    assert texts(chromium, "#message") == ["note of local"] and texts(chromium, "#reasons .differ") == ["note of hard"]


def test_a_page_that_cannot_be_saved_says_why(chromium: Browser) -> None:
    """And without a translation there is nothing to save."""
    one = explorer("transformer")
    is_disabled = "document.getElementById('save').disabled"
    with serve(one) as address, chromium.online():
        chromium.open_url(address)
        assert chromium.get(is_disabled)
        type_text(chromium, "#text", "two")
        click(chromium, "header", "translate")
        chromium.wait(f"!{is_disabled} && document.querySelector('#sentence .tokens') !== null")
        with torch.no_grad():
            one.translator.model.output_projection.weight.fill_(math.nan)
        chromium.mouse("#save", click=True)
        chromium.wait("document.getElementById('message').textContent.includes('no finite')")
        assert not chromium.get(is_disabled)


def test_the_page_is_busy_until_the_last_answer(chromium: Browser, tmp_path: Path) -> None:
    one = explorer("transformer").explore(Question("two"))
    open_live(chromium, tmp_path / "page.html", {"explore": {"two": one}, "importance": {}})
    chromium.get("isHeld = true")
    click(chromium, "header", "translate")
    chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelector('button').click()")
    chromium.wait("held.length === 2")
    for is_busy in ("true", "false"):
        chromium.get("reply(held.pop())")
        chromium.wait(f"document.body.ariaBusy === '{is_busy}' && held.length === {int(is_busy == 'true')}")


def test_an_ensemble_says_what_it_does_not_have(chromium: Browser, tmp_path: Path) -> None:
    one = explorer("transformer").translator
    found = Explorer("", replace(one, members=one.members * 2)).record(Question("two"))
    ExplorerPage([found]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html")
    assert texts(chromium, "#attention p") == ["An ensemble has no attention to draw."]
    click(chromium, "questions", "what mattered")
    assert "not for an ensemble" in texts(chromium, "#reasons p")[0]
    assert texts(chromium, "#sentence .list button") and texts(chromium, "#considered tbody tr")


def test_a_message_is_in_view_on_a_phone(chromium: Browser, tmp_path: Path) -> None:
    """Also from a button far below."""
    ExplorerPage([explorer("transformer").explore(Question("two"))]).save(tmp_path / "page.html")
    chromium.open(tmp_path / "page.html", width=390, height=500)
    chromium.mouse("#considered tbody tr:last-child button:enabled", click=True)
    assert chromium.get("scrollY > 100") and "in a live page" in texts(chromium, "#message")[0]
    top, bottom = chromium.get("(r => [r.top, r.bottom])(document.getElementById('message').getBoundingClientRect())")
    assert 0 <= top < bottom < 500


def test_measures_disagree_by_what_the_page_shows(chromium: Browser, tmp_path: Path) -> None:
    found = explorer("transformer").record(Question("two six"))
    effects = {"words": ["two", "six"], "value": -1.0, "left_out": [0.501, 0.503], "attention": [0.7, 0.3]}
    for gradient, text in (([0.7, 0.6], "All measures have the same"), ([0.6, 0.7], "They disagree")):
        found["importance"] = {0: effects | {"gradient": gradient}}
        ExplorerPage([found]).save(tmp_path / "page.html")
        chromium.open(tmp_path / "page.html")
        chromium.get("document.querySelectorAll('#sentence .tokens')[1].querySelector('button').click()")
        assert text in texts(chromium, "#reasons p")[1]


def test_a_server_that_ended_is_to_be_started_again(chromium: Browser) -> None:
    """At the same port, where the page and its links find it."""
    message = "document.getElementById('message')"
    with chromium.online():
        with serve(explorer("transformer")) as address:
            chromium.open_url(f"{address}/#text=two")
            chromium.wait("document.querySelector('#sentence .tokens') !== null")
        for name in ("translate", "save"):
            chromium.get(f"{message}.textContent = ''")
            click(chromium, "header", name) if name == "translate" else chromium.mouse("#save", click=True)
            chromium.wait(f"{message}.textContent !== ''")
            said = f"The server does not answer; start it again: seq2attn explore RUN --port {address.split(':')[-1]}"
            assert texts(chromium, "#message") == [said]


def test_a_link_whose_question_fails_shows_no_other_answer(chromium: Browser) -> None:
    """Else *save* would ask for what is not shown."""
    shown = "document.querySelectorAll('main > :not([hidden]), #save:enabled').length"
    with serve(explorer("transformer"), explorer("local")) as address, chromium.online():
        chromium.open_url(f"{address}/#text=two")
        chromium.wait(f"{shown} > 1")
        click(chromium, "runs", "compare")
        chromium.wait("document.querySelector('#reasons mark, #reasons b') !== null")
        chromium.get("location.hash = 'text=+'")
        chromium.wait("document.getElementById('message').textContent === 'there is no text to translate'")
        assert chromium.get(shown) == 0
        type_text(chromium, "#text", "two four")
        click(chromium, "header", "translate")
        chromium.wait("document.querySelector('#sentence .tokens')?.textContent === 'twofour</s>'")
        assert chromium.get(shown) > 1


def test_a_special_token_is_not_asked_about(chromium: Browser, tmp_path: Path) -> None:
    """It is no token of a translation, so that there is no answer."""
    text = "<2he> word"
    open_live(chromium, tmp_path / "page.html", {"explore": {text: right_to_left_explorer().explore(Question(text))}})
    special, asked = ":has(button:disabled)", ".why:not([hidden])"
    assert "<s>" in texts(chromium, f"#considered tr{special} button:disabled")
    assert not texts(chromium, f"#considered tr{special} {asked}") and texts(chromium, f"#considered {asked}")

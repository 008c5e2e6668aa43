"""The server of `seq2attn explore`, and the kernel of a notebook, which answer the page."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import comm
import pytest
from comm.base_comm import BaseComm
from fastapi.testclient import TestClient

import seq2attn
from seq2attn.errors import UserError
from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.server import build_app
from seq2attn.inference.engines.native import NativeEngine
from tests.support.attention_pages import page_data
from tests.support.commands import Invoke
from tests.support.untrained_runs import TRANSFORMER_CONFIG, change_weights, untrained_run

TEXT = "a few words"
NO_TEXT = "a question should be an object that has `text`, the sentence to explore"
NO_JSON = "a body should be JSON: a question, or for a page an object with `questions`"


class OtherEngine(NativeEngine):
    """An engine whose search cannot be recorded."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A Transformer whose hypotheses do not tie."""
    run = untrained_run(tmp_path, TRANSFORMER_CONFIG)
    change_weights(run, lambda model: model.output_projection.weight.mul_(9.0))
    return run.folder


def test_answers_of_the_server(run: Path) -> None:
    app = build_app([Explorer("ours", seq2attn.load(run))])
    assert TestClient(app, base_url="http://other.example").get("/").status_code == 400
    client = TestClient(app, base_url="http://127.0.0.1:8000")

    def ask(kind: str = "explore", code: int = 200, **body: Any) -> Any:
        answer = client.post(f"/v1/{kind}", json=body)
        assert answer.status_code == code
        return answer.json()

    found = ask(text=TEXT)
    ids = found["hypotheses"][0]["ids"]
    assert ask("importance", text=TEXT, target=ids, place=0)["words"] == TEXT.split()
    against = ask("importance", text=TEXT, target=ids, place=0, other=5)
    explorer = Explorer("ours", seq2attn.load(run))
    assert against == json.loads(json.dumps(explorer.importance(Question(TEXT), ids, 0, 5)))
    assert (
        ask(text=TEXT, beam=2)["search"]["size"] == 2 and ask(text=TEXT, masked=[0])["source"]["tokens"][0] == "<unk>"
    )
    assert "none at 99" in ask("importance", 422, text=TEXT, target=ids, place=99)["error"]
    assert ask(code=422, text=" ") == {"error": "there is no text to translate"}
    assert ask(code=422, text=TEXT, run=1) == {"error": "there is no run 1"}
    assert ask(code=422, text=TEXT, beam=0)["error"].startswith("`beam`: ")
    assert "below 13" in ask(code=422, text=TEXT, prefix=[13])["error"]
    expected = "the text has 25,000 characters; ask about a part of at most 20,000"
    assert ask(code=422, text="word " * 5000)["error"] == expected
    assert "there is no question" in ask("other", 422, text=TEXT)["error"]
    unknown = ask(text="☃ of 漢字")
    assert any("does not know" in note for note in unknown["notes"])
    assert any("only the first part" in note for note in ask(text="few words. " * 900)["notes"])
    saved = page_data(client.post("/v1/page", json={"questions": [{"text": TEXT}, {"text": "words"}]}).text)
    expected = [explorer.record(Question(text)) for text in (TEXT, "words")]
    assert saved == json.loads(json.dumps({"explorations": expected, "compared": True}))


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("explore", "{}", NO_TEXT),
        ("importance", '{"place": 1}', NO_TEXT),
        ("explore", '["few"]', NO_TEXT),
        ("explore", '"few"', NO_TEXT),
        ("explore", "null", NO_TEXT),
        ("record", '{"text": "few", "words": 1}', "`words`: Unexpected keyword argument"),
        ("explore", '{"text": 5}', "`text`: Input should be a valid string"),
        ("explore", "{few", NO_JSON),
        ("explore", "", NO_JSON),
        ("page", '{"few": 1}', NO_JSON),
        ("page", '{"questions": "few"}', NO_JSON),
        ("page", '{"questions": [["few"]]}', NO_TEXT),
    ],
)
def test_a_body_that_is_no_question(run: Path, path: str, body: str, message: str) -> None:
    client = TestClient(build_app([Explorer("ours", seq2attn.load(run))]), base_url="http://127.0.0.1:8000")
    answer = client.post(f"/v1/{path}", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (422, {"error": message})


def test_a_notebook_is_answered_by_the_kernel(run: Path) -> None:
    translator = seq2attn.load(run)
    widget = translator.explore(TEXT, live=True)
    assert page_data(widget.page)["text"] == TEXT
    (expected,) = translator.explore(TEXT).explorations
    answer = widget.answer({"id": 3, "kind": "explore", "body": {"text": TEXT}})
    assert answer["id"] == 3 and answer["answer"]["hypotheses"] == expected["hypotheses"]
    for body in ({"text": " "}, {"text": TEXT, "beam": 0}, {"words": TEXT}):
        assert widget.answer({"id": 4, "kind": "explore", "body": body})["error"]

    def error(**changes: Any) -> Any:
        return widget.answer({"id": 5, "kind": "explore", "body": {"text": TEXT}} | changes)["error"]

    assert error(body=TEXT) == NO_TEXT
    assert error(body={"text": TEXT, "beam": 0}) == "`beam`: Input should be greater than or equal to 1"
    assert error(kind=[]) and "no question" in error(kind="why")
    assert isinstance(translator.engine, NativeEngine)
    widget = replace(translator, engine=OtherEngine(**vars(translator.engine))).explore(TEXT, live=True)
    assert error().endswith("use `engine=native`")


class Wire(BaseComm):
    """A line of the Jupyter protocol, which keeps what the kernel sends."""

    sent: ClassVar[list[Any]] = []

    def publish_msg(self, msg_type: str, data: Any = None, *_: Any, **__: Any) -> None:
        self.sent.append(data)


def test_a_live_page_is_a_widget_of_the_protocol_of_notebooks(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions of the page come as messages to anywidget, and their answers leave as such."""
    monkeypatch.setattr(comm, "create_comm", Wire)
    monkeypatch.setattr(Wire, "sent", [])
    widget = seq2attn.load(run).explore(TEXT, live=True)
    (opened,) = (each for each in Wire.sent if "_esm" in each["state"])  # the other is of its layout
    assert opened["state"]["_model_module"] == "anywidget" and "render" in opened["state"]["_esm"]
    assert page_data(opened["state"]["page"]) == {"live": "notebook", "runs": [""], "text": TEXT}
    question = {"id": [0.5, 1], "kind": "explore", "body": {"text": "words", "beam": 2}}
    widget.comm.handle_msg({"content": {"data": {"method": "custom", "content": question}}, "buffers": []})
    answer = Wire.sent[-1]["content"]
    assert answer["id"] == [0.5, 1] and answer["answer"]["text"] == "words"
    json.dumps(answer)  # as the kernel does
    assert page_data(seq2attn.load(run).explore(live=True).page)["text"] == ""
    with pytest.raises(UserError, match="begins with one sentence, not 2"):
        seq2attn.load(run).explore(TEXT, TEXT, live=True)


@pytest.fixture
def server(run: Path) -> Iterator[str]:
    """The address of a server of two runs, whose text has a byte that is not UTF-8."""
    text = os.fsdecode(b"a few \xff words")
    command = [sys.executable, "-m", "seq2attn", "explore", str(run), str(run), text, "--no-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = process.stderr.readline().split()[0]
    try:
        yield address
    finally:
        process.terminate()
        process.wait()


def test_a_port_in_use_is_an_error(invoke: Invoke, run: Path, server: str) -> None:
    (port,) = re.findall(r":(\d+)/", server)
    for _ in range(100):
        try:
            assert "importmap" in urllib.request.urlopen(server).read().decode()
            break
        except OSError:
            time.sleep(0.1)
    assert f"port {port}" in invoke("explore", run, "--no-browser", "--port", port, code=2).err

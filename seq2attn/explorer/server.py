"""The local server of the explorer: the page at `/`, and answers to its questions below `/v1`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from seq2attn.errors import UserError
from seq2attn.explorer.explore import Explorer, Json, Question
from seq2attn.visualization.page import render_explorer

HOST = "127.0.0.1"
MAX_TEXT = 20_000
"""Characters of a text."""


class QuestionBody(BaseModel):
    """A question about a sentence; `target`, `place` and `other` ask what mattered for a token of its translation."""

    model_config = ConfigDict(extra="forbid")

    run: int = Field(0, ge=0)
    text: str = Field("", max_length=MAX_TEXT)
    prefix: tuple[int, ...] = ()
    masked: tuple[int, ...] = ()
    beam: int | None = Field(None, ge=1, le=1000)
    reference: str | None = Field(None, max_length=MAX_TEXT)
    target: tuple[int, ...] = ()
    place: int = 0
    other: int | None = None


class PageBody(BaseModel):
    """Explorations to be saved as a page."""

    explorations: list[dict[str, Any]]


class Answers:
    """Answers of several explorers, one question at a time."""

    def __init__(self, explorers: Sequence[Explorer]) -> None:
        self._explorers, self._lock = explorers, threading.Lock()
        self._kinds: Mapping[str, Callable[[Explorer, QuestionBody], Json]] = {
            "explore": lambda explorer, body: explorer.explore(_question(body)),
            "importance": lambda explorer, body: explorer.importance(
                _question(body), body.target, body.place, body.other
            ),
        }

    def answer(self, kind: str, body: QuestionBody) -> Json:
        """The answer to a question. Raises UserError for one that has none."""
        if body.run >= len(self._explorers):
            raise UserError(f"there is no run {body.run}")
        if kind not in self._kinds:
            raise UserError(f"there is no question `{kind}`; ask {' or '.join(self._kinds)}")
        with self._lock:  # a model on two cores is not faster for two at once
            return self._kinds[kind](self._explorers[body.run], body)


def _question(body: QuestionBody) -> Question:
    return Question(body.text, body.prefix, body.masked, body.beam, body.reference)


def build_app(explorers: Sequence[Explorer], table: Json | None = None) -> FastAPI:
    """The application of a server; `table` has the measures of a test set."""
    app, answers = FastAPI(title="seq2attn explorer", docs_url=None, redoc_url=None), Answers(explorers)
    # Another web site must not reach the server by a name of its own that leads here.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    page = render_explorer({"live": True, "runs": [one.name for one in explorers], "table": table})

    @app.get("/", response_class=HTMLResponse)
    def index() -> str:
        return page

    @app.post("/v1/page", response_class=HTMLResponse)
    def save(body: PageBody) -> str:
        return render_explorer({"explorations": body.explorations})

    @app.post("/v1/{kind}")
    def answer(kind: str, body: QuestionBody) -> Json:
        return answers.answer(kind, body)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error).replace("``", "`")}, status_code=422)

    @app.exception_handler(RequestValidationError)
    def explain(request: Request, error: RequestValidationError) -> JSONResponse:
        mistakes = (f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
        return JSONResponse({"error": "; ".join(mistakes)}, status_code=422)

    return app

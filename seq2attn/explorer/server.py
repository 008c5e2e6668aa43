"""The local server of the explorer: the page at `/`, and answers to its questions below `/v1`."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse

from seq2attn.errors import UserError
from seq2attn.explorer.answers import Answers
from seq2attn.explorer.explore import Explorer, Json
from seq2attn.visualization.page import render_explorer

HOST = "127.0.0.1"


def build_app(explorers: Sequence[Explorer], table: Json | None = None) -> FastAPI:
    """The application of a server; `table` has the measures of a test set."""
    app, answers = FastAPI(openapi_url=None), Answers(explorers)
    # Another web site must not reach the server by a name of its own that leads here.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    page = render_explorer({"live": True, "runs": [one.name for one in explorers], "table": table})

    @app.get("/", response_class=HTMLResponse)
    def index() -> str:
        return page

    @app.post("/v1/page", response_class=HTMLResponse)
    def save(questions: Annotated[list[Any], Body(embed=True)]) -> str:
        explorations = [answers.answer("record", question) for question in questions]
        return render_explorer({"explorations": explorations, "compared": True})

    @app.post("/v1/{kind}")
    def answer(kind: str, body: Annotated[Any, Body()]) -> Json:
        return answers.answer(kind, body)

    @app.exception_handler(UserError)
    def refuse(request: Request, error: UserError) -> JSONResponse:
        return JSONResponse({"error": str(error).replace("``", "`")}, status_code=422)

    @app.exception_handler(RequestValidationError)
    def refuse_body(request: Request, error: RequestValidationError) -> JSONResponse:
        return refuse(request, UserError("a body should be JSON: a question, or for a page an object with `questions`"))

    return app

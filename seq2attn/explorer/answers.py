"""Answers to the questions of the explorer's page, from a server or a notebook."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from seq2attn.errors import UserError
from seq2attn.explorer.explore import Explorer, Json, Question

MAX_TEXT = 20_000
"""Characters of a text."""


class QuestionBody(BaseModel):
    """A question about a sentence; `target`, `place` and `other` ask what mattered for a token of its translation."""

    model_config = ConfigDict(extra="forbid")

    run: int = Field(0, ge=0)
    text: str = Field("", max_length=MAX_TEXT)
    prefix: tuple[int, ...] = Field((), max_length=1024)
    masked: tuple[int, ...] = ()
    beam: int | None = Field(None, ge=1, le=1000)
    reference: str | None = Field(None, max_length=MAX_TEXT)
    target: tuple[int, ...] = ()
    place: int = 0
    other: int | None = None


def list_mistakes(mistakes: Iterable[Mapping[str, Any]]) -> str:
    """The errors of pydantic about a question, in words."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in mistakes)


class Answers:
    """Answers of several explorers, one question at a time."""

    def __init__(self, explorers: Sequence[Explorer]) -> None:
        self._explorers, self._lock = explorers, threading.Lock()

    def answer(self, kind: str, body: QuestionBody) -> Json:
        """The answer to a question. Raises UserError for one that has none."""
        if body.run >= len(self._explorers):
            raise UserError(f"there is no run {body.run}")
        explorer = self._explorers[body.run]
        question = Question(body.text, body.prefix, body.masked, body.beam, body.reference)
        with self._lock:  # a model on two cores is not faster for two at once
            match kind:
                case "explore":
                    return explorer.explore(question)
                case "importance":
                    return explorer.importance(question, body.target, body.place, body.other)
        raise UserError(f"there is no question `{kind}`; ask explore or importance")

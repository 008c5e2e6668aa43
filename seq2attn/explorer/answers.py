"""Answers to the questions of the explorer's page, from a server or a notebook."""

import threading
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from seq2attn.errors import UserError
from seq2attn.explorer.explore import MAX_TEXT, Explorer, Json, Question


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class QuestionBody(Question):
    """A question about a sentence; `target`, `place` and `other` ask what mattered for a token of its translation."""

    run: Annotated[int, Field(ge=0)] = 0
    target: tuple[int, ...] = ()
    place: int = 0
    other: int | None = None


class Answers:
    """Answers of several explorers, one question at a time."""

    def __init__(self, explorers: Sequence[Explorer]) -> None:
        self._explorers, self._lock = explorers, threading.Lock()

    def answer(self, kind: str, body: Any) -> Json:
        """The answer to a question, as JSON has it. Raises UserError for one that has none."""
        if not isinstance(body, dict) or "text" not in body:
            raise UserError("a question should be an object that has `text`, the sentence to explore")
        try:
            question = TypeAdapter(QuestionBody).validate_python(body)
        except ValidationError as error:
            mistakes = [f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors()]
            raise UserError("; ".join(mistakes)) from None
        if len(question.text) > MAX_TEXT:
            raise UserError(f"the text has {len(question.text):,} characters; ask about a part of at most {MAX_TEXT:,}")
        if question.run >= len(self._explorers):
            raise UserError(f"there is no run {question.run}")
        explorer = self._explorers[question.run]
        with self._lock:  # a model on two cores is not faster for two at once
            match kind:
                case "explore":
                    return explorer.explore(question)
                case "record":
                    return explorer.record(question)
                case "importance":
                    return explorer.importance(question, question.target, question.place, question.other)
        raise UserError(f"there is no question `{kind}`; ask explore, record or importance")

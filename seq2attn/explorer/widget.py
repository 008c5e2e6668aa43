"""The explorer's page in a notebook, answered by the kernel."""

from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from seq2attn.errors import UserError
from seq2attn.explorer.answers import Answers
from seq2attn.explorer.explore import Explorer
from seq2attn.visualization.page import render_explorer


class ExplorerWidget(anywidget.AnyWidget):
    """A frame with the page, whose questions are messages to the kernel."""

    _esm = (files("seq2attn.visualization") / "page/widget.mjs").read_text(encoding="utf-8")
    page = traitlets.Unicode().tag(sync=True)

    def __init__(self, explorer: Explorer, text: str = "") -> None:
        super().__init__(page=render_explorer({"live": "notebook", "runs": [explorer.name], "text": text}))
        self._answers = Answers([explorer])
        self.on_msg(lambda _, message, buffers: self.send(self.answer(message)))

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message of the page, or an error."""
        try:
            found = self._answers.answer(message["kind"], message["body"])
        except UserError as error:
            return {"id": message["id"], "error": str(error).replace("``", "`")}
        except Exception as error:  # else the page would wait for an answer
            return {"id": message["id"], "error": f"{type(error).__name__}: {error}"}
        return {"id": message["id"], "answer": found}

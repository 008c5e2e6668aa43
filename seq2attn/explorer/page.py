"""Explorer pages as files and in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seq2attn.errors import UserError
from seq2attn.explorer.explore import Explorer, Json, Question
from seq2attn.explorer.static_view import static_html
from seq2attn.inference.translator import Translator
from seq2attn.io.outputs import text_output
from seq2attn.visualization.page import HTMLPage, render_explorer

if TYPE_CHECKING:
    from seq2attn.explorer.widget import ExplorerWidget


@dataclass(frozen=True, repr=False)
class ExplorerPage:
    """Recorded explorations; a notebook shows them as a page."""

    explorations: Sequence[Json]
    table: Json | None = None  # measures of the lines of a test set

    def __repr__(self) -> str:
        texts = ", ".join(repr(one["hypotheses"][0]["text"]) for one in self.explorations)
        return f"ExplorerPage({texts})"

    def to_html(self) -> str:
        """The page, which needs no server and no network."""
        return render_explorer({"explorations": [*self.explorations], "table": self.table})

    def save(self, path: Path | str) -> None:
        """Write the page to a file. Raises UserError if it cannot be written."""
        with text_output(Path(path), "explore") as file:
            file.write(self.to_html())

    def _repr_html_(self) -> str:
        """The page in a frame, and what remains where frames are removed."""
        static = "".join(map(static_html, self.explorations))
        return f"{HTMLPage(self.to_html())._repr_html_()}<details><summary>without scripts</summary>{static}</details>"


def explore(translator: Translator, *texts: str, live: bool = False) -> ExplorerPage | ExplorerWidget:
    """The explorer's page of some sentences, as the last line of a cell of a notebook, or to be saved.

    A `live` page is answered by the kernel of the notebook; it begins with one sentence, or none. Raises UserError for
    more, and without the extra `notebook`.
    """
    explorer = Explorer("", translator)
    if not live:
        return ExplorerPage([explorer.record(Question(text)) for text in texts])
    if len(texts) > 1:
        raise UserError(f"a live page begins with one sentence, not {len(texts)}")
    try:
        from seq2attn.explorer.widget import ExplorerWidget
    except ImportError as error:
        raise UserError(f"{error.name} is not installed; pip install 'seq2attn[notebook]'") from None
    return ExplorerWidget(explorer, *texts)

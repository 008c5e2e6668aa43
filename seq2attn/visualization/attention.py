"""Where a model weights, drawn in the form that one wants: as text, as a picture, or as a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seq2attn.errors import UserError
from seq2attn.io.files import output
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.visualization.attention_map import MEAN, AttentionKind, AttentionMap
from seq2attn.visualization.color_scale import DEFAULT_COLOR_SCALE, ColorScale, scale_weights
from seq2attn.visualization.figure import check_picture
from seq2attn.visualization.heatmap import draw_heatmap
from seq2attn.visualization.html_page import attention_html
from seq2attn.visualization.text_heatmap import COLUMNS, heatmap_text, legend_text

PAGE = ".html"


@dataclass(frozen=True)
class AttentionSelection:
    """What is to be seen of a model's attention. What is left open depends on the form that it is drawn in."""

    kind: AttentionKind | None = None  # open: cross; on a page all that there is
    layer: str | int | None = None  # a number from 1 on, "top" or "all"; open: the top; on a page all
    head: str | int | None = None  # a number from 1 on, "mean" or "all"; open: all; in text their mean
    whole_words: bool = False  # sub-words joined; on a page to begin with
    color_scale: ColorScale = DEFAULT_COLOR_SCALE  # on a page to begin with

    def select(
        self,
        weights: AttentionWeights,
        kind: AttentionKind = "cross",
        *,
        layer: str = "top",
        head: str = "all",
    ) -> AttentionMap:
        """What is chosen; of what is left open what is given here.

        Raises UserError when there is no such attention.
        """
        one = AttentionMap.from_weights(weights, self.kind or kind)
        one = one.layer(layer if self.layer is None else self.layer)
        one = one.head(head if self.head is None else self.head)
        return one.whole_words() if self.whole_words else one

    def select_all(self, weights: AttentionWeights) -> list[AttentionMap]:
        """What a page shows of one sentence, in its pieces. Raises UserError when there is no such attention."""
        found: list[AttentionKind] = [] if weights.cross_attention is None else ["cross"]
        if weights.encoder_self_attention is not None:
            found.append("encoder")
        kinds = [self.kind] if self.kind else found or list[AttentionKind](("cross",))
        pieces = replace(self, whole_words=False)
        return [pieces.select(weights, kind, layer="all", head="all") for kind in kinds]


DEFAULT_SELECTION = AttentionSelection()


def attention_text(
    weights: AttentionWeights, choice: AttentionSelection = DEFAULT_SELECTION, *, columns: int = COLUMNS
) -> str:
    """Maps in shades of Unicode, for a terminal so many columns wide.

    Raises UserError when there is no such attention.
    """
    one = choice.select(weights, head="mean")
    titled = len(one.layers) * len(one.heads) > 1 or one.heads == (MEAN,)
    scaled, blocks = scale_weights(one.weights, choice.color_scale), []
    for layer, heads in enumerate(scaled.shares):
        for head, shares in enumerate(heads):
            text = heatmap_text(one.keys.tokens, one.queries.tokens, shares, columns=columns)
            blocks.append(f"{one.name(layer, head)}\n{text}" if titled else text)
    return "\n".join([*blocks, legend_text(scaled, columns)])


def draw_attention(
    weights: AttentionWeights | Sequence[AttentionWeights],
    path: Path | str,
    choice: AttentionSelection = DEFAULT_SELECTION,
    *,
    run: Path | str = "",
) -> None:
    """A picture of one sentence (.png, .svg, .pdf), or a page (.html) of one or several; `run` stands in the title.

    Raises UserError when there is no such attention, or `path` is none of these.
    """
    several = [weights] if isinstance(weights, AttentionWeights) else list(weights)
    path, run_name = Path(path), os.fsencode(run).decode(errors="replace")  # a name need not be UTF-8
    if is_page(path):
        page = attention_html(
            [choice.select_all(one) for one in several],
            run=run_name,
            whole_words=choice.whole_words,
            color_scale=choice.color_scale,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with output(path) as file:
            file.write(page.encode())
        return
    check_picture(path, others=(PAGE,))
    if len(several) != 1:
        raise UserError(f"{path}: a picture is of one sentence, not of {len(several)}; a page (.html) has room for all")
    one = choice.select(several[0])
    title = f"{run_name}\n{one.texts[1]}"
    draw_heatmap(one, path, color_scale=choice.color_scale, title=title)


def is_page(path: Path) -> bool:
    """Whether `path` is to be a page, of many sentences, rather than a picture of one."""
    return path.suffix.lower() == PAGE

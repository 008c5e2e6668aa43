"""Attention weights as text, as a picture, or as an interactive page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2attn.errors import UserError
from seq2attn.io.outputs import output
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.visualization.attention_map import (
    DEFAULT_COLOR_SCALE,
    LEGENDS,
    MEAN,
    AttentionKind,
    AttentionMap,
    ColorScale,
    scale_weights,
)
from seq2attn.visualization.figure import DRAWING, check_picture
from seq2attn.visualization.heatmap import draw_heatmap
from seq2attn.visualization.html_page import attention_html
from seq2attn.visualization.text_heatmap import COLUMNS, heatmap_text, legend_text

PAGE = ".html"
NO_WEIGHTS = "there is no attention to draw: the sentences are empty, or were translated without `attention=True`"


@dataclass(frozen=True)
class AttentionSelection:
    """The part of the attention weights to show. Defaults (None) depend on the output format."""

    kind: AttentionKind | None = None  # None: cross; on a page all kinds
    layer: str | int | None = None  # from 1, "top" or "all"; None: top; on a page all
    head: str | int | None = None  # from 1, "mean" or "all"; None: all; in text mean
    whole_words: bool = False  # pool subword tokens
    color_scale: ColorScale = DEFAULT_COLOR_SCALE

    def __post_init__(self) -> None:
        """Check the color scale. Raises UserError."""
        if self.color_scale not in LEGENDS:
            raise UserError(f"there is no color scale `{self.color_scale}`; use {', '.join(LEGENDS)}")

    def select(
        self, weights: AttentionWeights, kind: AttentionKind = "cross", *, layer: str = "top", head: str = "all"
    ) -> AttentionMap:
        """The selected map; the parameters are defaults for settings that are None.

        Raises UserError when there is no such attention.
        """
        attention = AttentionMap.from_weights(weights, self.kind or kind)
        attention = attention.layer(layer if self.layer is None else self.layer)
        attention = attention.head(head if self.head is None else self.head)
        return attention.whole_words() if self.whole_words else attention.letters()

    def select_all(self, weights: AttentionWeights) -> list[AttentionMap]:
        """The maps of one sentence for a page. Raises UserError if there is no such attention."""
        kinds: list[AttentionKind] = [self.kind or "cross"]
        if self.kind is None and weights.encoder_self_attention is not None:
            kinds = ["encoder"] if weights.cross_attention is None else ["cross", "encoder"]
        return [self.select(weights, kind, layer="all", head="all") for kind in kinds]


DEFAULT_SELECTION = AttentionSelection()


def attention_text(
    weights: AttentionWeights | None, selection: AttentionSelection = DEFAULT_SELECTION, *, columns: int = COLUMNS
) -> str:
    """Maps in Unicode shades, for a terminal of this number of columns.

    Raises UserError when there is no such attention.
    """
    if weights is None:
        raise UserError(NO_WEIGHTS)
    attention = selection.select(weights, head="mean")
    has_titles = len(attention.layers) * len(attention.heads) > 1 or attention.heads == (MEAN,)
    scaled, blocks = scale_weights(attention.weights, selection.color_scale), []
    for layer, heads in enumerate(scaled.shares):
        for head, shares in enumerate(heads):
            text = heatmap_text(attention.keys.tokens, attention.queries.tokens, shares, columns=columns)
            blocks.append(f"{attention.name(layer, head)}\n{text}" if has_titles else text)
    return "\n".join([*blocks, legend_text(scaled, columns)])


def draw_attention(
    weights: AttentionWeights | Sequence[AttentionWeights | None] | None,
    path: Path | str,
    selection: AttentionSelection = DEFAULT_SELECTION,
    *,
    run: Path | str = "",
) -> None:
    """A picture of one sentence (.png, .svg, .pdf), or a page (.html) of one or several; `run` is in the title.

    None, as of an empty line, is left out. Raises UserError when there is no such attention or no sentence, for a
    picture of several sentences, or when `path` has another suffix.
    """
    given = [weights] if weights is None or isinstance(weights, AttentionWeights) else weights
    sentences = [one for one in given if one is not None]
    if not sentences:
        raise UserError(NO_WEIGHTS)
    path, run_name = Path(path), os.fsencode(run).decode(errors="replace")  # a name need not be UTF-8
    if is_page(path):
        maps = [selection.select_all(sentence) for sentence in sentences]
        page = attention_html(maps, run=run_name, color_scale=selection.color_scale)
        path.parent.mkdir(parents=True, exist_ok=True)
        with output(path, DRAWING) as file:
            file.write(page.encode())
        return
    check_picture(path, others=(PAGE,))
    if len(sentences) != 1:
        raise UserError(f"{path}: a picture shows one sentence, not {len(sentences)}; use a page (.html) for several")
    attention = selection.select(sentences[0])
    title = f"{run_name}\n{attention.keys.text}"
    draw_heatmap(attention, path, color_scale=selection.color_scale, title=title)


def is_page(path: Path) -> bool:
    """True for the path of a page, which can show several sentences."""
    return path.suffix.lower() == PAGE

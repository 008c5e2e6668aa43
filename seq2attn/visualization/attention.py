"""Attention weights as text, as a picture, or as an interactive page."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seq2attn.errors import UserError
from seq2attn.io.outputs import output
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionKind, AttentionSelection
from seq2attn.visualization.attention_map import KIND_NAMES, MEAN, AttentionMap, scale_weights
from seq2attn.visualization.figure import DRAWING, check_picture
from seq2attn.visualization.heatmap import draw_heatmap
from seq2attn.visualization.page import HTMLPage, attention_page
from seq2attn.visualization.text_heatmap import COLUMNS, heatmap_text, legend_text

PAGE = ".html"
NO_WEIGHTS = "there is no attention to draw: the sentences are empty, or were translated without `attention=True`"
DEFAULT_SELECTION = AttentionSelection()


def select_map(
    weights: AttentionWeights,
    selection: AttentionSelection = DEFAULT_SELECTION,
    kind: AttentionKind = "cross",
    *,
    layer: str = "top",
    head: str = "all",
) -> AttentionMap:
    """The selected map; `kind`, `layer` and `head` are defaults for settings that are None.

    Raises UserError when there is no such attention.
    """
    attention = AttentionMap.from_weights(weights, selection.kind or kind)
    attention = attention.layer(layer if selection.layer is None else selection.layer)
    attention = attention.head(head if selection.head is None else selection.head)
    return attention.whole_words() if selection.whole_words else attention.letters()


def select_all_maps(weights: AttentionWeights, selection: AttentionSelection = DEFAULT_SELECTION) -> list[AttentionMap]:
    """The selected maps of one sentence for a page. Raises UserError if there is no such attention."""
    kinds: list[AttentionKind] = [selection.kind or "cross"]
    if selection.kind is None:
        kinds = [kind for kind in KIND_NAMES if weights.by_kind(kind)[2] is not None] or kinds
    return [select_map(weights, selection, kind, layer="all", head="all") for kind in kinds]


def attention_text(
    weights: AttentionWeights | None, selection: AttentionSelection = DEFAULT_SELECTION, *, columns: int = COLUMNS
) -> str:
    """Maps in Unicode shades, for a terminal of this number of columns.

    Raises UserError when there is no such attention.
    """
    if weights is None:
        raise UserError(NO_WEIGHTS)
    attention = select_map(weights, selection, head="mean")
    has_titles = len(attention.layers) * len(attention.heads) > 1 or attention.heads == (MEAN,)
    scaled = scale_weights(attention.weights, selection.color_scale)
    lines = []
    for layer, head in np.ndindex(scaled.values.shape[:2]):
        lines += [attention.name(layer, head)] * has_titles
        shares = scaled.shares[layer, head]
        lines.append(heatmap_text(attention.keys.tokens, attention.queries.tokens, shares, columns=columns))
    return "\n".join([*lines, legend_text(scaled, columns)])


def draw_attention(
    weights: AttentionWeights | Sequence[AttentionWeights | None] | None,
    path: Path | str | None = None,
    selection: AttentionSelection = DEFAULT_SELECTION,
    *,
    run: Path | str = "",
) -> HTMLPage | None:
    """A picture of one sentence (.png, .svg, .pdf), or a page (.html) of one or several; `run` is in the title.

    Without a path, the page is returned, which a notebook shows. None, as of an empty line, is left out. Raises
    UserError when there is no such attention or no sentence, for a picture of several sentences, or when `path` has
    another suffix or is in a folder that does not exist.
    """
    given = [weights] if weights is None or isinstance(weights, AttentionWeights) else weights
    sentences = [sentence for sentence in given if sentence is not None]
    if not sentences:
        raise UserError(NO_WEIGHTS)
    run_name = os.fsencode(run).decode(errors="replace")  # a name need not be UTF-8
    if path is None:
        return draw_page(sentences, selection, run_name)
    path = Path(path)
    if is_page(path):
        with output(path, DRAWING) as file:
            file.write(draw_page(sentences, selection, run_name).html.encode())
        return None
    check_picture(path, others=(PAGE,))
    if len(sentences) != 1:
        raise UserError(f"{path}: a picture shows one sentence, not {len(sentences)}; use a page (.html) for several")
    attention = select_map(sentences[0], selection)
    title = f"{run_name}\n{attention.keys.text}"
    draw_heatmap(attention, path, color_scale=selection.color_scale, title=title)
    return None


def draw_page(
    sentences: Sequence[AttentionWeights], selection: AttentionSelection = DEFAULT_SELECTION, run: str = ""
) -> HTMLPage:
    """The page of one or several sentences. Raises UserError when there is no such attention."""
    shown = [(sentence, select_all_maps(sentence, selection)) for sentence in sentences]
    return HTMLPage(attention_page(shown, run, selection.color_scale))


def is_page(path: Path) -> bool:
    """True for the path of a page, which can show several sentences."""
    return path.suffix.lower() == PAGE

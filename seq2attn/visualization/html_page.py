"""Attention as a page to play with: one HTML file that needs no network, for any number of sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from seq2attn.visualization.attention_map import AttentionMap
from seq2attn.visualization.color_scale import DEFAULT_COLOR_SCALE, LEGENDS, ColorScale

MAX_TITLE_LENGTH = 80


def attention_html(
    sentences: Sequence[Sequence[AttentionMap]],
    *,
    run: str = "",
    whole_words: bool = False,
    color_scale: ColorScale = DEFAULT_COLOR_SCALE,
) -> str:
    """The page: point at a word to light up those it goes with; pick sentence, layer, head, and pieces or words.

    Each sentence has one or several maps, in their pieces; with `whole_words` the page begins with these joined.
    """
    data = {
        "run": run,
        "whole": whole_words,
        "scale": color_scale,
        "legends": LEGENDS,
        "sentences": [
            {
                "title": _shorten(maps[0].texts[0]),
                "source": maps[0].texts[1],
                "maps": list(map(_content, maps)),
            }
            for maps in sentences
        ],
    }
    # Inside a script element only `</` and `<!` could end or change it.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = files("seq2attn.visualization").joinpath("page.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/null", text)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TITLE_LENGTH else text[: MAX_TITLE_LENGTH - 1] + "…"


def _content(one: AttentionMap) -> dict[str, Any]:
    sides = [
        {"name": name, "tokens": side.tokens, "words": side.words, "wordOf": side.word_ids}
        for name, side in zip(one.side_names, (one.queries, one.keys), strict=True)
    ]
    return {
        "queries": sides[0],
        "keys": sides[1],
        "layers": one.layers,
        "heads": one.heads,
        # Thousandths: shorter than decimals, and most of them are one digit.
        "weights": np.round(one.weights.astype(float) * 1000).astype(int).tolist(),
    }

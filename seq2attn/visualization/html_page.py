"""Interactive pages: one HTML file without network access, for any number of sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from seq2attn.io.terminal import shorten
from seq2attn.options import ColorScale
from seq2attn.visualization.attention_map import DEFAULT_COLOR_SCALE, LEGENDS, MEAN, AttentionMap

MAX_TITLE_LENGTH = 80


def render_page(package: str, page: str, data: Mapping[str, Any]) -> str:
    """A page of a package, after a common head that defines the JavaScript constant `data`."""
    # Within a script element only `</` and `<!` are special.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    head = files("seq2attn.visualization").joinpath("head.html").read_text(encoding="utf-8")
    return head.replace("/*DATA*/null", text) + files(package).joinpath(page).read_text(encoding="utf-8")


def attention_html(
    sentences: Sequence[Sequence[AttentionMap]], *, run: str = "", color_scale: ColorScale = DEFAULT_COLOR_SCALE
) -> str:
    """The attention page: maps of one or several sentences, with menus for sentence, layer and head."""
    data = {
        "run": run,
        "scale": color_scale,
        "legend": LEGENDS[color_scale],
        "sentences": [
            {
                "title": shorten(maps[0].queries.text, MAX_TITLE_LENGTH),
                "source": maps[0].keys.text,
                "maps": list(map(_content, maps)),
            }
            for maps in sentences
        ],
    }
    return render_page("seq2attn.visualization", "attention.html", data)


def _content(attention: AttentionMap) -> dict[str, Any]:
    weights = attention.weights
    heads = attention.heads
    if len(heads) > 1:
        weights = np.concatenate([weights, weights.mean(1, keepdims=True)], 1)
        heads = (*heads, MEAN)
    return {
        "queries": {
            "name": "translation" if attention.kind == "cross" else "source",
            "tokens": attention.queries.tokens,
        },
        "keys": {"name": "source", "tokens": attention.keys.tokens},
        "layers": attention.layers,
        "heads": heads,
        # Thousandths are shorter than decimals.
        "weights": np.round(weights.astype(float) * 1000).astype(int).tolist(),
    }

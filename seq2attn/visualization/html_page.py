"""Interactive pages: one HTML file without network access, for any number of sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from seq2attn.tokenizers.tokenized_text import TokenizedText
from seq2attn.visualization.attention_map import DEFAULT_COLOR_SCALE, LEGENDS, AttentionMap, ColorScale

MAX_TITLE_LENGTH = 80


def render_page(package: str, data: Mapping[str, Any]) -> str:
    """The `page.html` of a package, after a common head that defines the JavaScript constant `data`."""
    # Within a script element only `</` and `<!` are special.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    head = files("seq2attn.visualization").joinpath("head.html").read_text(encoding="utf-8")
    return head.replace("/*DATA*/null", text) + files(package).joinpath("page.html").read_text(encoding="utf-8")


def attention_html(
    sentences: Sequence[Sequence[AttentionMap]],
    *,
    run: str = "",
    whole_words: bool = False,
    color_scale: ColorScale = DEFAULT_COLOR_SCALE,
) -> str:
    """The attention page: weights from and to the token under the mouse, with menus for sentence, layer and head.

    `sentences`: the maps of each sentence, with subword tokens. With `whole_words` the page starts with whole words.
    """
    data = {
        "run": run,
        "whole": whole_words,
        "scale": color_scale,
        "legends": LEGENDS,
        "sentences": [
            {"title": _shorten(maps[0].texts[0]), "source": maps[0].texts[1], "maps": list(map(_content, maps))}
            for maps in sentences
        ],
    }
    return render_page("seq2attn.visualization", data)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TITLE_LENGTH else text[: MAX_TITLE_LENGTH - 1] + "…"


def _content(attention: AttentionMap) -> dict[str, Any]:
    query_name, key_name = attention.side_names
    return {
        "queries": _side(query_name, attention.queries),
        "keys": _side(key_name, attention.keys),
        "layers": attention.layers,
        "heads": attention.heads,
        # Thousandths are shorter than decimals.
        "weights": np.round(attention.weights.astype(float) * 1000).astype(int).tolist(),
    }


def _side(name: str, text: TokenizedText) -> dict[str, Any]:
    return {"name": name, "tokens": text.tokens, "words": text.words, "wordIds": text.word_ids}

"""An exploration as plain HTML and SVG, for places that remove scripts and frames from notebooks."""

from html import escape
from typing import Any

import numpy as np

CELL, LABEL = 16, 90
"""Sides of a cell and of the labels, in pixels."""


def static_html(exploration: dict[str, Any]) -> str:
    """The n-best list as a table, and the mean cross-attention of the top layer as a picture."""
    rows = "".join(
        f"<tr><td>{escape(one['text'])}</td><td>{one['log_prob']:.3f}</td><td>{one['score']:.3f}</td></tr>"
        for one in exploration["hypotheses"]
    )
    score = exploration["search"]["score"]
    head = f"<tr><th>{escape(exploration['text'])}</th><th>log-probability</th><th>{score}</th></tr>"
    attention = (exploration["attention"] or {}).get("cross")
    return f"<table>{head}{rows}</table>{'' if attention is None else _svg(attention)}"


def _svg(attention: dict[str, Any]) -> str:
    """The mean of the heads of the top layer: rows of target tokens, columns of source tokens."""
    weights = np.mean(attention["weights"][-1], 0) / 1000
    queries, keys = attention["queries"]["tokens"], attention["keys"]["tokens"]
    parts = [
        f'<text x="{LABEL - 4}" y="{LABEL + CELL * row + 12}" text-anchor="end">{escape(token)}</text>'
        for row, token in enumerate(queries)
    ]
    for column, token in enumerate(keys):
        x = LABEL + CELL * column + 12
        parts.append(f'<text transform="translate({x} {LABEL - 4}) rotate(-90)">{escape(token)}</text>')
    parts += [
        f'<rect x="{LABEL + CELL * column}" y="{LABEL + CELL * row}" width="{CELL - 1}" height="{CELL - 1}"'
        f' fill="#08519c" fill-opacity="{weight:.2f}"/>'
        for (row, column), weight in np.ndenumerate(weights)
        if weight >= 0.01
    ]
    size = f'width="{LABEL + CELL * len(keys)}" height="{LABEL + CELL * len(queries)}"'
    style = 'font-size="11" font-family="sans-serif" fill="currentColor"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>'

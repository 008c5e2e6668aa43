"""Attention as a page to play with: one HTML file that needs no network, for any number of sentences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Drawing:
    """One sentence and where its translation looked."""

    source: Sequence[str]
    target: Sequence[str]
    weights: NDArray[np.float32]  # [layers, heads, target, source]


def attention_page(drawings: Sequence[Drawing]) -> str:
    """The page: point at a word on either side to light up those it goes with; pick sentence, layer and head.

    Raises ValueError if the sizes of a drawing do not fit.
    """
    for drawing in drawings:
        expected = (len(drawing.target), len(drawing.source))
        if drawing.weights.ndim != 4 or drawing.weights.shape[2:] != expected:
            raise ValueError(f"weights are {drawing.weights.shape}, not [layers, heads, {expected}]")
    data = [
        {
            "source": list(drawing.source),
            "target": list(drawing.target),
            "weights": np.round(drawing.weights.astype(float), 3).tolist(),
        }
        for drawing in drawings
    ]
    # Inside a script element only `</` and `<!` could end or change it.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = files("seq2attn.drawing").joinpath("page.html").read_text(encoding="utf-8")
    return template.replace("/*DRAWINGS*/[]", text)

"""Pages: each is one HTML file with its scripts and data, which needs no server and no network.

The modules in `page/` draw what the data of the explorer's page have: attention alone, or all that it records.
`render_page` makes the pages of comparisons and leaderboards.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import ColorScale
from seq2attn.visualization.attention_map import AttentionMap

FOLDER = files("seq2attn.visualization") / "page"


def render_explorer(data: Mapping[str, Any]) -> str:
    """The page with these data: `explorations`, a `table`, or what a live page needs (docs/explorer.md)."""
    text = _json(data).encode(errors="replace")  # names and arguments that are not UTF-8 have surrogates
    gzip = zlib.compressobj(9, wbits=31, memLevel=4)  # small blocks, as numbers are like those near them
    return _template().replace("/*DATA*/", base64.b64encode(gzip.compress(text) + gzip.flush()).decode())


def script_json(data: Mapping[str, Any]) -> str:
    """JSON within a script element, where only `</` and `<!` are special."""
    return _json(data).replace("<", "\\u003c")


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def render_page(package: str, page: str, data: Mapping[str, Any]) -> str:
    """A page of a package within the common frame; the `title` and the `notes` of its `data` are above and below."""
    frame, content = (
        files(folder).joinpath(name).read_text(encoding="utf-8")
        for folder, name in (("seq2attn.visualization", "frame.html"), (package, page))
    )
    return frame.replace("<!--PAGE-->", content).replace("/*DATA*/null", script_json(data))


@cache
def _template() -> str:
    """The page without data. An import map has the modules as URLs, since files from disk cannot import others."""
    modules = {
        f"explorer/{file.name}": "data:text/javascript;base64," + base64.b64encode(file.read_bytes()).decode()
        for file in sorted(FOLDER.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".js")
    }
    page, style = ((FOLDER / name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    return page.replace("/*STYLE*/", style).replace("/*MODULES*/", json.dumps({"imports": modules}))


def attention_page(
    sentences: Sequence[tuple[AttentionWeights, Sequence[AttentionMap]]], run: str, color_scale: ColorScale
) -> str:
    """The page of attention alone: the maps of one or several sentences."""
    explorations = []
    for weights, maps in sentences:
        # The tokens of the cross-attention, if it is shown: pointing at a token shows its row or column.
        texts = next(((one.keys, one.queries) for one in maps if one.kind == "cross"), (weights.source, weights.target))
        source, target = map(asdict, texts)
        explorations.append(
            {
                "run": run,
                "text": weights.source.text,
                "source": source,
                "hypotheses": [{"text": weights.target.text, "target": target}],
                "attention": {one.kind: map_content(one) for one in maps},
            }
        )
    return render_explorer({"explorations": explorations, "scale": color_scale})


@dataclass(frozen=True, repr=False)
class HTMLPage:
    """A page that a notebook shows as the last line of a cell."""

    html: str

    def _repr_html_(self) -> str:
        """The page in a frame, whose content stays in files made from the notebook."""
        return f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 720px; border: 0"></iframe>'


def map_content(attention: AttentionMap) -> dict[str, Any]:
    """A map for a page: weights [layers][heads][queries][keys] in thousandths, and the windows of cross-attention."""
    return asdict(attention) | {
        "weights": np.rint(attention.weights.astype(float) * 1000).astype(int).tolist(),
        "windows": _windows(attention.weights) if attention.kind == "cross" else None,
    }


def _windows(weights: NDArray[np.float32]) -> list[Any] | None:
    """First and last key with any weight [layers][heads][queries][2], as of local attention; None if all have some."""
    has_weight = weights > 0
    if has_weight.all():
        return None
    first, last = has_weight.argmax(-1), weights.shape[-1] - 1 - has_weight[..., ::-1].argmax(-1)
    if (has_weight.any(-1) & (has_weight.sum(-1) < last - first + 1)).any():
        return None  # of sparse attention, which has gaps
    last = np.where(has_weight.any(-1), last, first - 1)  # empty: it ends before it begins
    return np.stack([first, last], -1).tolist()

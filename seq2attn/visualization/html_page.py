"""Pages of comparisons and leaderboards: one HTML file without network access."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from seq2attn.visualization.page import script_json


def render_page(package: str, page: str, data: Mapping[str, Any]) -> str:
    """A page of a package, after a common head that defines the JavaScript constant `data`."""
    head = files("seq2attn.visualization").joinpath("head.html").read_text(encoding="utf-8")
    return head.replace("/*DATA*/null", script_json(data)) + files(package).joinpath(page).read_text(encoding="utf-8")

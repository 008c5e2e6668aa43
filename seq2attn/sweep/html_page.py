"""A leaderboard as one HTML file that needs no network: sorted by any column, filtered by any axis."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files

from seq2attn.sweep.leaderboard import Leaderboard
from seq2attn.sweep.markdown import MARKS, format_notes


def leaderboard_html(board: Leaderboard) -> str:
    """The page, with all numbers in it."""
    data = {**asdict(board), "notes": format_notes(board), "marks": MARKS}
    # Inside a script element only `</` and `<!` could end or change it.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = files("seq2attn.sweep").joinpath("page.html").read_text(encoding="utf-8")
    return template.replace("/*BOARD*/null", text)

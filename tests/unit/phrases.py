"""Pairs of the phrasebook, and lines in other scripts."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
Pairs = list[tuple[str, str]]
PHRASES: Pairs = list(
    zip(
        *(
            (ROOT / f"data/phrasebook/train.{side}").read_text(encoding="utf-8").split("\n")[:1200]
            for side in ("de", "en")
        ),
        strict=True,
    )
)
RUSSIAN = ["мама мыла раму", "Кошка спит.", "где мой дом, друг?"]
JAPANESE = ["猫が寝ている。", "これはペンです。"]

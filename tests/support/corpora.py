"""Corpora in files."""

from collections.abc import Sequence
from pathlib import Path

from seq2attn.data.readers import PlainTextConfig


def write_corpus(
    folder: Path, name: str, pairs: Sequence[tuple[str, str]], links: Sequence[str] | None = None
) -> PlainTextConfig:
    """The config of a plain corpus with these pairs and word alignments."""
    sides = {"source": [source for source, _ in pairs], "target": [target for _, target in pairs], "alignment": links}
    paths = {side: folder / f"{name}.{side}" for side, lines in sides.items() if lines is not None}
    folder.mkdir(exist_ok=True)
    for side, path in paths.items():
        path.write_text("".join(f"{line}\n" for line in sides[side] or ()), encoding="utf-8", newline="\n")
    return PlainTextConfig(**paths)  # type: ignore[arg-type]

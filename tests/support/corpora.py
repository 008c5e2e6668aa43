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


ROOT = Path(__file__).parents[2]
Pairs = list[tuple[str, str]]
SIDES = [(ROOT / f"data/phrasebook/train.{side}").read_text("utf-8").split("\n")[:1200] for side in ("de", "en")]
PHRASES: Pairs = list(zip(*SIDES, strict=True))


def write_phrases(folder: Path, sizes: dict[str, int]) -> None:
    """Beginnings of the phrasebook's training text, as `NAME.de` and `NAME.en`."""
    for name, size in sizes.items():
        for suffix, lines in zip(("de", "en"), zip(*PHRASES[:size], strict=True), strict=True):
            (folder / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), "utf-8")

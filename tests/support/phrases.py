"""Pairs of the phrasebook."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
Pairs = list[tuple[str, str]]
SIDES = [(ROOT / f"data/phrasebook/train.{side}").read_text("utf-8").split("\n")[:1200] for side in ("de", "en")]
PHRASES: Pairs = list(zip(*SIDES, strict=True))


def write_phrases(folder: Path, sizes: dict[str, int]) -> None:
    """Beginnings of the phrasebook's training text, as `NAME.de` and `NAME.en`."""
    for name, size in sizes.items():
        for suffix, lines in zip(("de", "en"), zip(*PHRASES[:size], strict=True), strict=True):
            (folder / f"{name}.{suffix}").write_text("".join(f"{line}\n" for line in lines), "utf-8")

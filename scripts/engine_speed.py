"""Speed of the engines of an exported run, one line at a time and many: `python scripts/engine_speed.py RUN FILE`."""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import seq2attn
from seq2attn.io.text_lines import read_lines


def seconds(translator: seq2attn.Translator, lines: list[str]) -> float:
    started = time.perf_counter()
    translator.translate(lines)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("`")[0])
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("file", type=Path, help="lines to translate")
    parser.add_argument(
        "--engines", nargs="+", default=["native", "ctranslate2", "onnx"], help="those it is exported to"
    )
    parser.add_argument("--lines", type=int, default=64, help="lines of each measurement")
    options = parser.parse_args()
    lines = list(islice(read_lines(options.file), options.lines))
    print(
        "| engine | one line, ms | lines/s, one by one | lines/s in calls of 8 | lines/s in one call |"
        "\n|---|---:|---:|---:|---:|"
    )
    for engine in options.engines:
        translator = seq2attn.load(options.run, seq2attn.TranslationOptions(engine=engine, device="cpu"))
        seconds(translator, lines[:8])  # to warm up
        single = [seconds(translator, [line]) for line in lines]
        parts = sum(seconds(translator, lines[start : start + 8]) for start in range(0, len(lines), 8))
        rates = (f"{len(lines) / total:,.0f}" for total in (sum(single), parts, seconds(translator, lines)))
        print(f"| `{engine}` | {1000 * statistics.median(single):.1f} | {' | '.join(rates)} |")


if __name__ == "__main__":
    main()

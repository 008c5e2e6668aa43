"""Seconds from a question to the explorer's answer, and sizes of saved pages: `explorer_speed.py RUN "SENTENCE"`.

The sentence is asked with a beam of 5, and four times in a row with a beam of 20; each is the median of five answers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import seq2attn
from seq2attn.explorer.explore import Explorer, Question
from seq2attn.explorer.page import ExplorerPage


def main() -> None:
    """Print a line for each question, and for pages of ten sentences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("sentence", help="a sentence of about fifteen words")
    arguments = parser.parse_args()
    explorer = Explorer("", seq2attn.load(arguments.run))
    for times, beam in ((1, 5), (4, 20)):
        question, seconds = Question(" ".join([arguments.sentence] * times), beam=beam), list[float]()
        for _ in range(6):
            start = time.perf_counter()
            answer = json.dumps(explorer.explore(question))
            seconds.append(time.perf_counter() - start)
        median = statistics.median(seconds[1:])  # without the first, which is slower
        words, nodes = len(question.text.split()), len(json.loads(answer)["tree"]["step"])
        print(f"{words} words, beam {beam}: {median:.3f} s, {nodes:,} candidates, {len(answer) / 1000:,.0f} kB")
        page = ExplorerPage([explorer.record(question)] * 10).to_html()
        print(f"page of ten such sentences: {len(page.encode()) / 1000:,.0f} kB")


if __name__ == "__main__":
    main()

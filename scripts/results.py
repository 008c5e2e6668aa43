"""A table of trained and evaluated runs in Markdown, and their BLEU by source length as a picture.

python scripts/results.py runs/multi30k/* --plot docs/bleu-by-length.png --test test2016
"""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any

from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.tables import format_table
from seq2attn.io.weights import read_tensor_specs
from seq2attn.metrics.sacrebleu_metrics import LengthBucket, Score
from seq2attn.visualization.curves import draw_bleu_by_length


def main() -> None:
    """Prints the table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--plot", type=Path, help="FILE.png or FILE.svg")
    parser.add_argument("--test", help="the test set that is drawn; the first of the report if not said")
    options = parser.parse_args()
    common = os.path.commonpath([run.absolute().parent for run in options.runs])
    runs = {os.path.relpath(run, common): run for run in options.runs}  # such as small/seed-1
    reports = {name: reports_of(run) for name, run in runs.items()}
    sets = sorted(set.intersection(*({*report} for report in reports.values())))
    if not sets:
        parser.error("the runs have no test set in common; evaluate them together: seq2attn evaluate RUN...")
    for name in sets:
        digests = [report[name]["digests"] for report in reports.values()]
        if len({json.dumps([one["source"], one["references"]]) for one in digests}) > 1:
            parser.error(f"`{name}` is another text in some runs; evaluate them together: seq2attn evaluate RUN...")
    if options.test and options.test not in sets:
        parser.error(f"--test {options.test}: the test sets of all runs are {', '.join(sets)}")
    heads = ["run", "parameters", "epochs", "minutes", *(f"BLEU {name}" for name in sets)]
    print(format_table([heads, *(row(name, run, reports[name], sets) for name, run in runs.items())], markdown=True))
    for signature in sorted({bleu(r, name)["signature"] for r in reports.values() for name in sets}):
        print(f"\nSignature: `{signature}`")
    settings = {json.dumps([r[name]["engine"], r[name]["search"]]) for r in reports.values() for name in sets}
    if len(settings) > 1:
        print("\nSettings of search or engine differ: `seq2attn compare` with these runs names them.")
    if options.plot:
        test = options.test or sets[0]
        draw_bleu_by_length({name: buckets(report, test) for name, report in reports.items()}, options.plot)


def reports_of(run: Path) -> dict[str, dict[str, Any]]:
    """The reports of a run's test sets by their names: those with BLEU, of the weights that it has now."""
    found = [json.loads(path.read_text("utf-8")) for path in (run / "evaluation").glob("*.json")]
    origin = RunDirectory(run).weights_origin()
    current = {report["set"]: report for report in found if report["model"] == origin and bleus(report)}
    if not current:
        raise SystemExit(f"{run}: no BLEU of the weights that it has now: seq2attn evaluate {run} --metric bleu")
    return current


def row(name: str, run: Path, report: dict[str, Any], sets: list[str]) -> list[str]:
    """The cells of a run."""
    last = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").split("\n") if line][-1]
    scores = [f"{bleu(report, test)['value']:.2f}" for test in sets]
    specs = read_tensor_specs(run / "model.safetensors").values()  # tied parameters are there once
    size = f"{sum(math.prod(spec.shape) for spec in specs):,}"
    return [name, size, f"{last['epoch']:g}", f"{last['seconds'] / 60:.0f}", *scores]


def bleu(report: dict[str, Any], name: str) -> dict[str, Any]:
    """BLEU of a test set, with its signature."""
    (score,) = bleus(report[name])
    return score


def bleus(report: dict[str, Any]) -> list[dict[str, Any]]:
    """BLEU in the report of a test set, if it was a metric."""
    return [score for score in report["scores"] if score["name"] == "BLEU"]


def buckets(report: dict[str, Any], name: str) -> list[LengthBucket]:
    """BLEU by source length, read back from a report."""
    by_length = report[name]["by_length"]
    return [LengthBucket(**{**bucket, "score": Score(**bucket["score"])}) for bucket in by_length]


if __name__ == "__main__":
    main()

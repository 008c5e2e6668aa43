"""Measurements within one process on a GPU, or without one on the CPU. The figures are saved after each.

search RUN --source FILE --out FILE: sentences per second of batch sizes, precisions (one with CUDA graphs) and
strategies, and the latency.
counts CONFIG --out FILE: launches, synchronizations and time of an update in `seq2attn train`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmark.setting import GPU_TOKENS
from torch.optim.optimizer import register_optimizer_step_post_hook

from seq2attn.config.load import load
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.load import load as load_translator
from seq2attn.inference.translator import Translator
from seq2attn.io.text_lines import read_lines
from seq2attn.options import TranslationOptions
from seq2attn.search.search_config import beam_search, greedy_search
from seq2attn.training.train import train

BEAMS = (1, 5)
BUDGETS = 2**13, 2**15, 2**18
REPEATS, SMALL_REPEATS = 20, 2
"""Copies of the source, by the number of tokens of a batch."""
FEW = 100
WARM, UPDATES, PROFILED = 30, 10, 2


class DoneError(Exception):
    """The end of the measured updates."""


def timed(compute: Callable[[], object]) -> float:
    """Seconds of a call, with the end of all kernels."""
    synchronize()
    began = time.perf_counter()
    compute()
    synchronize()
    return time.perf_counter() - began


def synchronize() -> None:
    """Wait for the kernels, if there is a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def save(figures: list[dict[str, Any]], out: Path) -> None:
    """Write all figures, and print the last."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    out.write_text(json.dumps({"gpu": gpu, **versions, "figures": figures}, indent=1) + "\n", "utf-8")
    print(json.dumps(figures[-1]), flush=True)


def measure_search(
    run: Path, source: Path, out: Path, repeats: int = REPEATS, budgets: Sequence[int] = BUDGETS
) -> None:
    """Sentences per second of many, the largest batches first, and milliseconds of a sentence by itself."""
    lines, figures = list(read_lines(source)), list[dict[str, Any]]()
    float32, bfloat16 = load_translator(run), load_translator(run, TranslationOptions(precision="bfloat16"))

    def seconds(translator: Translator, beam: int, lines: list[str]) -> float:
        search = greedy_search(translator.search) if beam == 1 else beam_search(translator.search, beam)
        return timed(lambda: translator.translate(lines, search))

    engine = bfloat16.engine
    assert isinstance(engine, NativeEngine)
    graphs = replace(bfloat16, engine=replace(engine, cuda_graphs=True))
    cases = [float32, bfloat16, graphs]
    for translator, beam in itertools.product(cases, BEAMS):
        seconds(translator, beam, lines[:FEW])  # one-time initialization
    for budget, translator, beam in itertools.product(sorted(budgets)[::-1], cases, BEAMS):
        many = lines * (repeats if budget > 2**15 else min(repeats, SMALL_REPEATS))
        translator = replace(translator, max_batch_tokens=budget)
        figure = {"case": translator.engine.description, "beam": beam, "batch_tokens": budget}
        figure["sentences_per_s"] = len(many) / seconds(translator, beam, many)
        figures.append({**figure, "used_batch_tokens": translator.max_batch_tokens})  # less, if memory was too small
        save(figures, out)
    for translator, beam in itertools.product(cases, BEAMS):
        each = [seconds(translator, beam, [line]) for line in lines[:FEW]]
        figures.append(
            {"case": translator.engine.description, "beam": beam, "latency_ms": 1000 * statistics.median(each)}
        )
        save(figures, out)


def measure_counts(config: Path, out: Path, overrides: Sequence[str], warm: int = WARM, updates: int = UPDATES) -> None:
    """Milliseconds of an update without the profiler; then launches, waits and kernel time with it."""
    count, began, figure = 0, 0.0, dict[str, Any]()
    kinds = torch.profiler.ProfilerActivity  # of one kind only: the operators of an RNN take minutes to list
    profiler = torch.profiler.profile(activities=[kinds.CUDA if torch.cuda.is_available() else kinds.CPU])

    def after_step(*_: Any) -> None:
        nonlocal count, began
        count += 1
        if count == warm:
            synchronize()
            began = time.perf_counter()
        elif count == warm + updates:
            synchronize()
            figure["ms"] = 1000 * (time.perf_counter() - began) / updates
            profiler.start()
        elif count == warm + updates + PROFILED:
            synchronize()
            profiler.stop()
            raise DoneError

    handle = register_optimizer_step_post_hook(after_step)
    try:
        with contextlib.suppress(DoneError):
            train(load(config, ExperimentConfig, overrides))
    finally:
        handle.remove()
    averages, events = profiler.key_averages(), profiler.events() or []
    kernels = [e for e in events if str(e.device_type) == "DeviceType.CUDA" and not e.is_user_annotation]
    calls = {"launches": ("cudaLaunch", "cuLaunch"), "waits": ("cudaStreamSynchronize", "cudaEventSynchronize")}
    for name, prefixes in calls.items():
        figure[name] = sum(event.count for event in averages if event.key.startswith(prefixes)) / PROFILED
    figure["kernel_ms"] = sum(kernel.time_range.elapsed_us() for kernel in kernels) / 1000 / PROFILED
    save([figure], out)
    print(averages.table(sort_by="self_device_time_total", row_limit=25, max_name_column_width=60))


def argument_parser() -> argparse.ArgumentParser:
    """Options of both measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    search, counts = verbs.add_parser("search"), verbs.add_parser("counts")
    search.add_argument("run", type=Path)
    search.add_argument("--source", type=Path, required=True)
    counts.add_argument("config", type=Path)
    counts.add_argument("--set", action="append", default=[])
    for verb in (search, counts):
        verb.add_argument("--out", type=Path, required=True)
    return parser


def main() -> None:
    options = argument_parser().parse_args()
    if options.verb == "search":
        measure_search(options.run, options.source, options.out)
    else:
        size = [f"training.batch.{key}={GPU_TOKENS}" for key in ("tokens", "micro_batch_tokens")]
        length = ["training.max_duration=[1000 updates]", "training.validation.every=1000 updates"]
        measure_counts(options.config, options.out, [*size, *length, "training.report_every=1000", *options.set])


if __name__ == "__main__":
    main()

"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.machine import context
from benchmark.prepare import prepare_all
from benchmark.records import Book, Record
from benchmark.searching import CASES, measure_search
from benchmark.setting import (
    CONFIGS,
    GPU_MODELS,
    GPU_TOKENS,
    MODELS,
    RECURRENT,
    REPOSITORY,
    TOKENS,
    Setting,
    UnavailableError,
    shell_line,
)
from benchmark.systems import ENGINES, PEERS, Ours, System
from benchmark.tables import FIGURES, PAGE, table, update_page
from benchmark.training import Timing, log, measure_training

USUAL = "hf,plain,ctranslate2"


@dataclass(frozen=True)
class Call:
    """Parsed options of a call."""

    setting: Setting
    systems: tuple[System, ...]  # ours first; all are installed
    ours: Ours
    models: tuple[str, ...]
    cases: tuple[str, ...]
    timing: Timing


Groups = Iterator[list[Record]]
"""Records of one or a few groups at a time, so that each is saved before the next measurement."""


def train(call: Call) -> Groups:
    """Speed and memory of training."""
    for model in call.models:
        yield measure_training(call.setting, call.systems, model, call.timing)


def search(call: Call) -> Groups:
    """Translation of the whole test set."""
    for model in call.models:
        for case in call.cases:
            yield measure_search(call.setting, call.systems, model, case, call.timing)


VERBS: dict[str, Callable[[Call], Groups]] = {"train": train, "search": search}


def fit(call: Call) -> bool:
    """Train the models for translation, all for the same number of updates, without timing. Returns True if all end."""
    statuses = list[int]()
    for model in call.models:
        for system in call.systems:
            command = [] if system.has_model(model) or system.fitted(model) is None else system.fit(model)
            if command:
                log(f"fitting {model}: {shell_line(command)}")
                statuses.append(subprocess.run(command, env=call.setting.environment(), check=False).returncode)
    return not any(statuses)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, save the records, and print their tables."""
    options = _parser().parse_args(arguments)
    if options.verb == "page":
        update_page(figures=options.out or FIGURES)
        return 0
    from seq2attn.errors import UserError

    command = f"python scripts/bench.py {shell_line(list(sys.argv[1:] if arguments is None else arguments))}"
    try:
        call, absent = _call(options)
        prepare_all(call.ours, call.models, timed=options.verb != "fit")
        if options.verb == "fit":
            return 0 if fit(call) else 1
        metadata = context(call.setting, call.systems, command)
        for records in VERBS[options.verb](call):
            if options.out is not None:
                Book.load(options.out).with_call(records, metadata).save(options.out)
            _print(Book().with_call(records, metadata))
    except (UnavailableError, UserError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    print("".join(f"\n{line}\n" for line in absent), end="")
    return 0


def _print(book: Book) -> None:
    groups = dict.fromkeys(record.group for record, _ in book.entries)
    for kind, model, case in groups:
        print(
            f"\n## {' '.join(filter(None, (kind, model, case)))}\n\n{table(book, kind, model, case)}",
            flush=True,
        )


def _call(options: argparse.Namespace) -> tuple[Call, list[str]]:
    tokens = options.tokens or (GPU_TOKENS if options.gpu else TOKENS)
    setting = Setting(options.corpus, options.runs, options.configs, options.threads, tokens, options.gpu)
    ours = Ours(setting, overrides=(*setting.overrides, *options.set))
    systems, absent = list[System]([ours]), list[str]()
    for name in filter(None, options.peers.split(",")):
        if name not in PEERS | ENGINES:
            raise UnavailableError(f"there is no peer `{name}`; known: {', '.join(PEERS | ENGINES)}")
        system = (PEERS | ENGINES)[name](setting)
        install = system.missing()
        if install is None:
            systems.append(system)
        else:
            absent.append(f"{system.title}: not installed; to install it: {install}")
    usual = (*GPU_MODELS, *RECURRENT) if options.gpu else tuple(MODELS)
    models = usual if options.model is None else (options.model,)
    timing = Timing(options.rounds, options.window, options.warm, options.busy_ok)
    cases = tuple(CASES) if options.case is None else (options.case,)
    return Call(setting, tuple(systems), ours, models, cases, timing), absent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure training and translation beside libraries, in turn, on the same text.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    verbs = [*VERBS, "fit", "page"]
    parser.add_argument(
        "verb", choices=verbs, help="`fit` trains models for translation, `page` writes docs/performance.md"
    )
    parser.add_argument(
        "--model", choices=[*MODELS, *GPU_MODELS], help="one of the architectures; by default the usual ones"
    )
    gpu = "train and translate on a CUDA GPU, larger models in bfloat16; give another --out"
    parser.add_argument("--gpu", action="store_true", help=gpu)
    parser.add_argument("--case", choices=list(CASES), help="search strategy; by default all")
    parser.add_argument("--peers", default=USUAL, help=f"of {', '.join(PEERS | ENGINES)}; empty for none")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each system")
    parser.add_argument("--window", type=float, default=15.0, help="undisturbed seconds of training per round")
    parser.add_argument("--warm", type=float, default=10.0, help="seconds of training before the first round")
    parser.add_argument("--threads", type=int, default=2, help="threads of each system")
    parser.add_argument(
        "--busy-ok", action="store_true", help="do not wait for an idle machine; the figures are not valid"
    )
    parser.add_argument("--out", type=Path, help=f"save the figures in FILE.json ({FIGURES.name} for {PAGE.name})")
    parser.add_argument("--corpus", type=Path, default=REPOSITORY / "data/multi30k", help="folder of the text")
    parser.add_argument("--runs", type=Path, default=REPOSITORY / "runs/bench", help="folder of runs, text and logs")
    parser.add_argument("--configs", type=Path, default=CONFIGS, help="folder of t.yaml, r1.yaml and r2.yaml")
    sizes = f"tokens of a batch, of each system; default {TOKENS}, on a GPU {GPU_TOKENS}"
    parser.add_argument("--tokens", type=int, help=sizes)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override in our config")
    return parser

"""Options that a file may set too: each takes effect from either source, and that of the command line wins."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from seq2attn.inference.engines.native import NativeEngine
from tests.support.commands import Invoke
from tests.support.recipes import RECIPE
from tests.support.recipes import home as recipe_home
from tests.support.sweeps import SWEEP
from tests.support.sweeps import home as sweep_home
from tests.support.untrained_runs import CONFIG, untrained_run


@pytest.mark.parametrize("command", ["sweep", "reproduce"])
@pytest.mark.parametrize(
    "rows",
    [
        [(None, None, 1), (3, None, 3), (3, 1, 1)],
        pytest.param([(None, 2, 2), (3, 2, 2)], marks=pytest.mark.slow),
    ],
)
def test_jobs(
    invoke: Invoke,
    tmp_path: Path,
    failing_trainings: None,
    command: str,
    rows: list[tuple[int | None, int | None, int]],
) -> None:
    """Each row has the jobs of the file, those of the option, and the number that is used."""
    if command == "sweep":
        name, text, path = "sweep.yaml", SWEEP, sweep_home(tmp_path) / "sweep.yaml"
    else:
        name, text, path = "toy", RECIPE, recipe_home(tmp_path) / "configs/reproduce/toy.yaml"
    luong = "--set", "trials=[{model: luong}]", "--set", "baseline.model=luong"
    for in_file, option, jobs in rows:
        path.write_text(text if in_file is None else f"{text}jobs: {in_file}\n", encoding="utf-8")
        options = [] if option is None else ["--jobs", option]
        done = invoke(command, name, *luong, *options, code=1)
        assert f"; up to {jobs} simultaneous, threads each: 1" in done.err


def test_the_seeds_of_a_reproduction(invoke: Invoke, tmp_path: Path) -> None:
    recipe_home(tmp_path)
    for options, seeds in (([], 2), (["--set", "seeds=[5]"], 1), (["--seeds", 3], 3)):
        assert f"x {seeds} seeds" in invoke("reproduce", "toy", "--dry-run", *options).out


def sampling_of(report: Any) -> list[Any]:
    return [report["search"]["kind"], report["search"].get("num_samples")]


def signature(report: Any) -> str:
    return re.search(r"tok:(\w+)", report["sets"]["ours"]["scores"][0]["signature"])[1]  # type: ignore[index]


SEARCH = "search: {kind: beam, beam_size: 3, lengths: {max_length: 9}}"
OPTIONS = [
    (SEARCH.replace("3", "2"), ["--beam", 4], lambda report: report["search"]["beam_size"], 2, 4),
    (SEARCH, ["--greedy"], lambda report: report["search"]["kind"], "beam", "greedy"),
    (
        SEARCH.replace("beam, beam_size: 3", "sample, num_samples: 3, mbr: true"),
        ["--mbr", 2],
        sampling_of,
        ["sample", 3],
        ["sample", 2],
    ),
    (
        SEARCH.replace("max_length: 9", "long_inputs: truncate"),
        ["--long-inputs", "split"],
        lambda report: report["search"]["lengths"]["long_inputs"],
        "truncate",
        "split",
    ),
    (
        SEARCH + "\nevaluation: {metrics: [bleu, ter]}",
        ["--metric", "chrf"],
        lambda report: [score["name"] for score in report["sets"]["ours"]["scores"]],
        ["BLEU", "TER"],
        ["chrF2"],
    ),
    (SEARCH + "\nevaluation: {tokenize: intl}", ["--tokenize", "char"], signature, "intl", "char"),
]


@pytest.mark.parametrize(
    ("config", "option", "value", "of_config", "of_option"), OPTIONS, ids=lambda one: str(one)[:20]
)
def test_options_of_evaluate(
    invoke: Invoke, tmp_path: Path, config: str, option: list[Any], value: Any, of_config: Any, of_option: Any
) -> None:
    untrained_run(tmp_path, CONFIG.replace(SEARCH, config))
    for options, expected in (([], of_config), (option, of_option)):
        assert value(json.loads(invoke("evaluate", "run", "--json", *options).out)) == expected


@pytest.mark.parametrize("command", ["translate", "evaluate", "distill"])
def test_the_tokens_of_a_batch(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """And their precision: by default those of the device."""
    untrained_run(tmp_path)
    plain, budgets = NativeEngine.translate, list[tuple[int, str]]()

    def translate(self: NativeEngine, *arguments: Any, budget: int, **options: Any) -> Any:
        budgets.append((budget, self.precision))
        return plain(self, *arguments, budget=budget, **options)

    monkeypatch.setattr(NativeEngine, "translate", translate)
    arguments = {"translate": ["run", "a few"], "evaluate": ["run"], "distill": ["run", "--source", "lines.txt"]}[
        command
    ]
    for number, options in enumerate(([], ["--batch-tokens", 77, "--precision", "bfloat16"])):
        output = ["--output", str(number)] if command == "distill" else []
        code = 2 if command == "distill" else 0  # no translation of an untrained model is kept
        invoke(command, *arguments, *options, *output, code=code)
    found = [used for used in budgets if used[0] > 1]  # without the first look at a model
    assert {*found} == {(8192, "float32"), (77, "bfloat16")} and found == sorted(found, reverse=True)

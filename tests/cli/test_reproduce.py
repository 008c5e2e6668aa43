"""`seq2attn reproduce` end to end: report, outcomes, resumption, corpus and mistakes."""

import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seq2attn.errors import RunError
from seq2attn.sweep.recipe import load_recipe
from seq2attn.sweep.reproduce import reproduce
from tests.support.commands import Done, Invoke, invoke_in
from tests.support.recipes import RECIPE, home
from tests.support.sweeps import results

pytestmark = pytest.mark.filterwarnings("error:.*:seq2attn.inference.input_checks.InputWarning")

REPORT = Path("runs/sweep/report.json")


def report(folder: Path) -> Any:
    return json.loads((folder / REPORT).read_text(encoding="utf-8"))


SMALL = ("--seeds", "1", "--set", "trials=[{model: luong}]", "--set", "published.luong.short=0.001")


@pytest.fixture(scope="module", params=[SMALL, pytest.param(("--jobs", "2"), marks=pytest.mark.slow)])
def reproduction(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """One training; in the slow tests two trials with two seeds."""
    folder = home(tmp_path_factory.mktemp("reproduced"))
    return folder, invoke_in(folder, "reproduce", "toy", *request.param)


def sacrebleus(folder: Path, trial: str, seed: int, name: str) -> Any:
    """The score of sacreBLEU's own command for the translations of a training, with its interval."""
    translations = folder / f"runs/sweep/trials/{trial}/seed-{seed}/evaluation/{name}.txt"
    options = ["-tok", "none", "-w", "12", "-f", "json", "--confidence"]
    command = [sys.executable, "-m", "sacrebleu", folder / f"text/{name}.en", "-i", translations, *options]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def test_scores_are_those_of_sacrebleus_command(reproduction: tuple[Path, Done]) -> None:
    content = report(reproduction[0])
    published = [(trial, name, one) for trial, by in content["recipe"]["published"].items() for name, one in by.items()]
    expected = [row for row in published if row[0] in content["trainings"]]
    assert [(one["trial"], one["test_set"], one["published"]) for one in content["scores"]] == expected
    for score in content["scores"]:
        seeds = content["recipe"]["seeds"]
        theirs = [sacrebleus(reproduction[0], score["trial"], seed, score["test_set"]) for seed in seeds]
        values = [one["score"] for one in theirs]
        assert [*score["by_seed"]] == [*map(str, seeds)]
        assert [*score["by_seed"].values()] == pytest.approx(values)
        assert score["ours"]["mean"] == pytest.approx(statistics.fmean(values))
        assert score["ours"]["std"] == (pytest.approx(statistics.stdev(values)) if len(values) > 1 else None)
        # sacreBLEU gives no interval where all resamples have 0 BLEU.
        assert score["interval"] == pytest.approx(statistics.fmean(one.get("confidence_var", 0.0) for one in theirs))
        assert score["signature"] == theirs[0]["signature"]
        assert score["outcome"] == ("reached" if statistics.fmean(values) >= score["published"] else "not reached")
    for name in ("gain", "published_gain"):  # from the trial above with the same test set
        gains = [score[name] is not None for score in content["scores"]]
        assert gains == ([False, False, True] if "fixed" in content["trainings"] else [False, False])
    if "fixed" in content["trainings"]:
        _, fixed, luong = content["scores"]
        assert luong["published_gain"] == pytest.approx(0.5)
        assert luong["gain"] == pytest.approx(luong["ours"]["mean"] - fixed["ours"]["mean"])


def test_the_report_has_all_that_a_reader_asks_for(reproduction: tuple[Path, Done]) -> None:
    folder, done = reproduction
    markdown = (folder / "runs/sweep/report.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in markdown.splitlines()]
    content = report(folder)
    assert done.out == markdown and markdown.startswith("# A toy\n\nToy et al. 2026, https://example.org/toy\n")
    for score in content["scores"]:
        mean, std = score["ours"]["mean"], score["ours"]["std"]
        cells = [score["trial"], score["test_set"], f"{score['published']:g}"]
        cells += ["" if score["gain"] is None else f"{score['published_gain']:+.2f}"]
        cells += [f"{mean:.2f}" + ("" if std is None else f" ± {std:.2f}"), f"± {score['interval']:.2f}"]
        cells += ["" if score["gain"] is None else f"{score['gain']:+.2f}", score["outcome"]]
        assert cells in rows
        assert f"Signature: `{score['signature']}`" in markdown
    seeds = f"over {len(content['recipe']['seeds'])} seeds" if len(content["recipe"]["seeds"]) > 1 else "one seed"
    for text in (*content["recipe"]["deviations"], content["rule"], "Published: table 1.", seeds, "; torch "):
        assert text in markdown
    for trial, by_seed in content["trainings"].items():
        for seed, one in by_seed.items():
            folder_of_run = folder / f"runs/sweep/trials/{trial}/seed-{seed}"
            assert one == json.loads((folder_of_run / "result.json").read_text(encoding="utf-8"))["training"]
            cells = [trial, seed, f"{one['parameters']:,}", "80", f"{one['epochs']:.1f}", f"{one['seconds'] / 60:.1f}"]
            assert cells in rows
    assert content["missing"] == [] and "Not finished" not in markdown
    assert (folder / "runs/sweep/leaderboard.html").is_file()


def test_figures(reproduction: tuple[Path, Done]) -> None:
    folder = reproduction[0] / "runs/sweep"
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    figures = report(reproduction[0])["figures"]
    expected = [f"BLEU by source length, {name}" for name in ("short", "mixed")]
    assert [*figures] == expected + [f"Alignment {number}, luong seed 1" for number in (1, 2, 3, 4)]
    lines = (reproduction[0] / "text/mixed.de").read_text(encoding="utf-8").splitlines()
    sources = [line for line in lines if 10 <= len(line.split()) <= 20]
    for caption, name in figures.items():
        picture = (folder / name).read_text(encoding="utf-8")
        assert f"![{caption}]({name})" in markdown
        if caption.startswith("Alignment"):  # words are comments of the SVG
            source = sources[int(caption.split()[1][0]) - 1]
            assert re.findall(r"<!-- (\w+) -->", picture)[: len(source.split())] == source.split()
        else:
            for trial in report(reproduction[0])["trainings"]:
                record = json.loads((folder / f"trials/{trial}/seed-1/result.json").read_text(encoding="utf-8"))
                buckets = record["sets"][caption.rpartition(" ")[2]]["by_length"]
                assert f"<!-- {trial} seed 1 -->" in picture
                assert all(f"<!-- {bucket['sentences']} -->" in picture for bucket in buckets)


def test_a_reproduction_ends_when_another_takes_its_place(
    reproduction: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(reproduction[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("configs/reproduce/toy.yaml", [*report(tmp_path)["overrides"], "figures=[]"])
    before = {path: path.read_bytes() for path in tmp_path.glob("runs/sweep/report.*")}

    def replace(line: str) -> None:
        if line.startswith("leaderboard: "):
            Path("runs/sweep").rename("runs/before")
            shutil.copytree("runs/before", "runs/sweep")

    with pytest.raises(RunError, match="runs/sweep: was removed or replaced while"):
        reproduce(recipe, 1, replace)
    assert {path: path.read_bytes() for path in tmp_path.glob("runs/sweep/report.*")} == before


@pytest.mark.slow
def test_a_further_seed_is_added_and_changes_are_told(
    reproduction: tuple[Path, Done], invoke: Invoke, tmp_path: Path
) -> None:
    shutil.copytree(reproduction[0], tmp_path, dirs_exist_ok=True)
    before, seeds = results(tmp_path), report(tmp_path)["recipe"]["seeds"]
    options = ("--set", "trials=[{model: luong}]", "--set", "published.luong.mixed=1e-9", "--set", "figures=[]")
    error = invoke("reproduce", "toy", *options, "--set", "changes.model.encoder.dim=8", code=2).err
    assert "holds trainings of another config or text: luong seed 1 (model)" in error
    number = len(seeds) + 1
    done = invoke("reproduce", "configs/reproduce/toy.yaml", *options, "--seeds", number)
    assert f"{len(seeds)} trainings finished, 1 to go" in done.err
    assert {name: results(tmp_path)[name] for name in before} == before
    (score,) = report(tmp_path)["scores"]
    values = [*score["by_seed"].values()]
    assert [*score["by_seed"]] == [str(seed) for seed in range(1, number + 1)]
    assert score["ours"]["std"] == pytest.approx(statistics.stdev(values))
    shown = f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"
    assert f" {shown} |" in done.out and score["outcome"] == "reached"
    assert "\n- By seed: luong, mixed: " + ", ".join(f"{value:.2f}" for value in values) + "\n" in done.out
    assert "- Set on the command line: `figures=[]`.\n" in done.out and "`seeds=" not in done.out


def test_changed_trainings_are_repeated_by_request(invoke: Invoke, tmp_path: Path, failing_trainings: None) -> None:
    home(tmp_path)
    command = "reproduce", "toy", "--seeds", "1", "--set", "trials=[{model: luong}]", "--set", "figures=[]"
    changed = *command, "--set", "changes.model.encoder.dim=8"
    invoke(*command, code=1)
    assert "luong seed 1 (model); repeat them by --redo" in invoke(*changed, code=2).err
    assert "luong seed 1: training again, changed: model" in invoke(*changed, "--redo", code=1).err


def test_a_corpus_is_copied_from_a_mirror_or_is_named(invoke: Invoke, tmp_path: Path) -> None:
    home(tmp_path, RECIPE.replace("metric:", "corpus: multi30k-lc-tok\nmetric:"))
    error = invoke("reproduce", "toy", "--mirror", "mirror", code=2).err
    assert error == "error: mirror/multi30k-lc-tok: no such folder; a mirror has a folder for each corpus\n"
    (tmp_path / "mirror/multi30k-lc-tok").mkdir(parents=True)
    (tmp_path / "mirror/multi30k-lc-tok/train.de").write_text("neu\n", encoding="utf-8")
    error = invoke("reproduce", "toy", "--mirror", "mirror", code=2).err
    assert "train.de: exists, and is not the text of multi30k-lc-tok; move it away" in error
    for path in (tmp_path / "text").iterdir():
        path.unlink()
    error = invoke("reproduce", "toy", "--mirror", "mirror", code=2).err
    assert error.startswith("error: mirror/multi30k-lc-tok/train.de: not the text expected (SHA-256")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("luong: {mixed", "loung: {mixed", "`published`: there is no trial `loung`; did you mean `luong`?"),
        ("luong: {mixed", "luong: {mixd", "toy.yaml: `published`: there is no test set `mixd`; did you mean `mixed`?"),
        ("99.5", "none", "`published.luong.mixed` should be a number"),
        (", metrics: [bleu, paper_bleu], paper_bleu: {}", "", "`metric: paper_bleu` needs `evaluation.paper_bleu`"),
        ("metrics: [bleu, paper_bleu]", "metrics: [bleu]", "`metric: paper_bleu` needs `evaluation.paper_bleu`"),
        ("{model: luong}", "{model: fixed}", "`figures: [alignments]` needs a baseline with attention"),
        ("metric: paper", "corpus: multi30\nmetric: paper", "`corpus`: there is no corpus `multi30`; did you mean"),
        ("deviations: [The corpus is smaller., There is no paper.]", "deviations: []", "`deviations`"),
    ],
)
def test_mistakes_of_a_recipe(invoke: Invoke, tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in RECIPE
    home(tmp_path, RECIPE.replace(old, new))
    error = invoke("reproduce", "toy", code=2).err
    assert message in error and "Traceback" not in error
    assert not (tmp_path / "runs").exists()


def test_unknown_recipes_and_a_dry_run(invoke: Invoke, tmp_path: Path) -> None:
    message = "error: configs/reproduce/toy.yaml: there is no such recipe; configs/reproduce is a folder of the"
    assert invoke("reproduce", "toy", code=2).err.startswith(message)
    home(tmp_path)
    (tmp_path / "configs/reproduce/other.yaml").touch()
    for name, hint in (("thing", "known: other, toy"), ("othre", "did you mean `other`?")):
        error = f"error: configs/reproduce/{name}.yaml: there is no such recipe; {hint}\n"
        assert invoke("reproduce", name, code=2).err == error
    assert invoke("reproduce", "toy", "--mirror", ".", code=2).err == (
        "error: configs/reproduce/toy.yaml: has no `corpus` to copy from --mirror\n"
    )
    unused = invoke("reproduce", "toy", "--dry-run", "--redo", "--jobs", "2", "--mirror", ".", code=2).err
    assert unused == "error: --redo and --jobs and --mirror have no effect with --dry-run, which trains nothing\n"
    assert re.search(r"^luong +[\d,]+ +0/2 +baseline$", invoke("reproduce", "toy", "--dry-run").out, re.MULTILINE)
    assert not (tmp_path / "runs").exists()

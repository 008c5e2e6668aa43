"""Figures of a leaderboard, compared with NumPy and sacreBLEU, and the leaderboard as Markdown and as a page."""

import json
import random
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from seq2attn.errors import ConfigError, RunError
from seq2attn.evaluation.evaluate import Digests, SetResult, text_digest
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.io.files import MAX_FILE_BYTES, write_json
from seq2attn.metrics.significance import SAMPLES
from seq2attn.sweep.leaderboard import MARKS, SeedStatistics, build_leaderboard, leaderboard_html, leaderboard_markdown
from seq2attn.sweep.plan import load_plan
from seq2attn.sweep.record import (
    TRIAL_FILE,
    RunRecord,
    TrainingSummary,
    options,
    read_record,
    write_record,
    write_trial,
)
from tests.support.untrained_runs import CONFIG

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in "aeiou"]
SENTENCES = 60
ERROR_RATES = {
    "first": {"a": 0.3, "b": 0.05, "c": 0.9, "d": 0.3, "e": 1.0},
    "second": {"a": 0.05, "b": 0.3, "c": 0.9, "d": 0.05, "e": 1.0},
}
"""Share of wrong words in the translations of each trial."""
TESTS = "".join(
    f"    {name}: {{kind: plain, source: {name}.txt, target: {name}.txt}}\n" for name in ("first", "second")
)
BASE = re.sub(r"    ours: .*\n", TESTS, CONFIG)
SWEEP = """\
base: base.yaml
folder: x
axes:
  trial: {at: training.label_smoothing, choices: {a: 0.1, b: 0.2, c: 0.3, d: 0.4}}
seeds: [1, 2, 3]
baseline: {trial: a}
"""


def sentences(seed):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(SENTENCES)]


def with_errors(lines, rate, seed):
    rng = random.Random(seed)
    return [" ".join("x" if rng.random() < rate else word for word in line.split()) for line in lines]


REFERENCES = {"first": sentences(0), "second": sentences(1)}
METRICS = EvaluationConfig().build(REFERENCES["first"])


@cache
def record(trial, seed):
    summary = TrainingSummary(
        parameters=1000, seconds=30.0 * seed, updates=7, epochs=1.5, threads=1, jobs=2, machine="a machine, 2 cores",
        torch="2.13", date="2026-11-21",
    )  # fmt: skip
    sets = {}
    for name, lines in REFERENCES.items():
        digests = Digests(text_digest(lines), (text_digest(lines),))
        rate = ERROR_RATES[name][trial]
        output = tuple(with_errors(lines, rate, f"{rate}{seed}{name}"))
        scores = tuple(METRICS.scores(output, [lines]))
        sets[name] = SetResult(name, digests, SENTENCES, scores, (), 2.0 * seed, 99, output, None, ())
    return RunRecord(summary, sets)


def test_a_record_of_a_large_test_set_is_read_again(tmp_path):
    """Its translations may have more bytes than other files of a run."""
    one = record("a", 1)
    first = replace(one.sets["first"], translations=("a" * (MAX_FILE_BYTES // 2),) * 3)
    write_record(tmp_path, replace(one, sets={"first": first}))
    assert read_record(tmp_path).sets["first"] == first


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A sweep of four trials with three seeds; all trainings but one are finished."""
    folder = tmp_path_factory.mktemp("sweep")
    for name, lines in REFERENCES.items():
        (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (folder / "base.yaml").write_text(BASE, encoding="utf-8")
    (folder / "mine.yaml").write_text(SWEEP, encoding="utf-8")
    plan = load_plan(folder / "mine.yaml", [f"folder={folder / 'sweep'}"])
    for run in plan.runs:
        if str(run) != "c seed 3":
            write_record(run.folder, record(run.trial.name, run.seed))
    return plan


@pytest.fixture(scope="module")
def board(plan):
    return build_leaderboard(plan)


def with_settings(plan, *settings):
    return load_plan(plan.path, [f"folder={plan.sweep.folder}", *settings])


def test_statistics_over_seeds_are_those_of_numpy():
    values = [1.0, 2.0, 4.0, 8.0]
    statistics = SeedStatistics.from_values(values)
    assert statistics == SeedStatistics(np.mean(values), pytest.approx(np.std(values, ddof=1)), 1.0, 8.0)
    assert SeedStatistics.from_values([3.0]) == SeedStatistics(3.0, None, 3.0, 3.0)


@pytest.mark.parametrize(("name", "seed"), [("b", 1), ("c", 2), ("d", 1)])
def test_comparisons_are_those_of_sacrebleu(board, name, seed):
    systems = [(trial, list(record(trial, seed).sets["first"].translations)) for trial in ("a", name)]
    _, scores = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES["first"]], test_type="bs", n_samples=1000)()
    base, other = scores["BLEU"]
    (row,) = (row for row in board.rows if row.name == name)
    (one,) = (one for one in row.sets["first"].comparisons if one.seed == seed)
    assert (one.score, one.difference) == pytest.approx((other.score, other.score - base.score))
    p_value = 1 if systems[0][1] == systems[1][1] else other.p_value  # sacreBLEU gives equal ones its smallest
    assert (one.p_value, one.confidence_interval) == (p_value, other.ci)
    assert "bs:1000|seed:12345" in one.signature


class TestLeaderboard:
    def test_rows_have_means_over_seeds_and_are_sorted_by_the_first_set(self, board):
        for row in board.rows:
            records = [record(row.name, seed) for seed in ((1, 2) if row.name == "c" else (1, 2, 3))]
            assert [seed.seed for seed in row.seeds] == [1, 2, 3][: len(records)]
            for name, scores in row.sets.items():
                results = [one.sets[name] for one in records]
                assert scores.bleu.mean == pytest.approx(np.mean([one.score("BLEU").value for one in results]))
                assert [*scores.others] == ["chrF2", "TER"]
                assert scores.others["TER"].mean == pytest.approx(np.mean([one.score("TER").value for one in results]))
                speeds = [SENTENCES / one.seconds for one in results]
                assert scores.sentences_per_second.mean == pytest.approx(np.mean(speeds))
            assert row.seconds.mean == pytest.approx(np.mean([one.training.seconds for one in records]))
        means = {row.name: row.sets["first"].bleu.mean for row in board.rows}
        assert [*means] == sorted("abcd", key=means.get, reverse=True)  # and not by the second
        assert board.rows[0].sets["second"].bleu.mean < board.rows[1].sets["second"].bleu.mean
        overall = {row.name: row.sets["first"].overall for row in board.rows}
        assert overall["a"] is None and (overall["b"].outcome, overall["c"].outcome) == ("better", "worse")

    @pytest.mark.parametrize(("trial", "finished"), [("b", {"a": "aa", "b": "bbc"}), ("c", {"a": "bbc", "c": "aa"})])
    def test_seeds_that_one_trial_has_finished_count_in_its_deviation(self, plan, tmp_path, trial, finished):
        """With seeds 1 and 2 both are far apart, but seed 3 of one of them is farther from its own."""
        more = load_plan(plan.path, [f"folder={tmp_path}"])
        for run in more.runs:
            if len(results := finished.get(run.trial.name, "")) >= run.seed:
                write_record(run.folder, record(results[run.seed - 1], run.seed))
        rows = {row.name: row for row in build_leaderboard(more).rows}
        scores = rows[trial].sets["first"]
        deviations = [rows[name].sets["first"].bleu.std or 0.0 for name in finished]
        assert [one.seed for one in scores.comparisons] == [1, 2] and scores.overall.p_value < 0.05
        assert abs(scores.overall.difference) < max(deviations) and scores.overall.outcome == "no difference"

    def test_the_mean_decides_and_not_the_best_seed(self, plan, tmp_path):
        some = load_plan(plan.path, [f"folder={tmp_path}"])
        for run in some.runs:
            if results := {"a": "bee", "d": "aaa"}.get(run.trial.name):
                write_record(run.folder, record(results[run.seed - 1], run.seed))
        first, second = (row.sets["first"].bleu for row in build_leaderboard(some).rows)
        assert first.mean > second.mean and first.highest < second.highest

    def test_a_mark_needs_several_seeds_and_bleu(self, plan, tmp_path):
        """With one seed, and where no translation is of use, however different the scores are."""
        cases = ((1,), {"a": "a", "b": "b"}, "(one seed)"), ((1, 2), {"a": "cc", "d": "ee"}, "(below BLEU 1)")
        for seeds, results, says in cases:
            some = load_plan(plan.path, [f"folder={tmp_path / says}", f"seeds={[*seeds]}"])
            for run in some.runs:
                if found := results.get(run.trial.name):
                    write_record(run.folder, record(found[run.seed - 1], run.seed))
            board = build_leaderboard(some)
            (row,) = (row for row in board.rows if not row.is_baseline)
            for one in row.sets.values():
                assert one.overall.outcome in MARKS and f"({one.overall.outcome})" == says
                assert [comparison.p_value is None for comparison in one.comparisons] == ["BLEU" in says] * len(seeds)
            table, *_ = leaderboard_markdown(board).split("\n\n")[1:]
            assert table.count(says) == 2 and not re.search("[▲▼=]", table)
            assert table.count("0.00") > 0 if "BLEU" in says else table.count("< 0.001 (one seed)") == 2

    def test_results_of_another_text_are_refused(self, plan):
        path = plan.path.parent / "second.txt"
        content = path.read_text(encoding="utf-8")
        for other in (content.replace("\n", " x\n", 1), content.partition("\n")[2]):
            path.write_text(other, encoding="utf-8")
            with pytest.raises(RunError, match=r"a/seed-1: .* `second` has changed.*: seq2attn sweep \S+ --redo"):
                build_leaderboard(plan)
        path.write_text(content, encoding="utf-8")

    def test_results_of_other_settings_are_refused(self, plan, monkeypatch):
        monkeypatch.setitem(SAMPLES, "bootstrap", 10)
        run = plan.runs[0]
        write_trial(run, options(run.experiment))
        build_leaderboard(plan)
        changed = with_settings(plan, "changes={evaluation: {tokenize: char, lowercase: true}}")
        with pytest.raises(RunError, match="a/seed-1: was made with another evaluation; "):
            build_leaderboard(changed)
        with pytest.raises(RunError, match="a/seed-1: was made with another model and training; "):
            build_leaderboard(with_settings(plan, "changes={model: {embeddings: {dim: 4}}, training: {lora: {}}}"))
        with pytest.raises(RunError, match="a/seed-1: was made with another text; "):
            build_leaderboard(with_settings(plan, "changes={tokenizer: {source: {min_frequency: 2}}}"))
        trial = json.loads((run.folder / TRIAL_FILE).read_text(encoding="utf-8"))
        trial["config"]["model"]["a former option"] = 1
        write_json(run.folder / TRIAL_FILE, trial)
        with pytest.raises(RunError, match="a/seed-1: was made with another config; "):
            build_leaderboard(plan)
        (run.folder / TRIAL_FILE).unlink()
        assert "|case:lc|eff:no|tok:char|" in build_leaderboard(changed).signatures["paired bootstrap"]
        with pytest.raises(ConfigError, match=r"`evaluation\.metrics` needs `bleu`"):
            with_settings(plan, "changes={evaluation: {metrics: [chrf]}}")
        axis = "axes={trial: {at: evaluation.tokenize, choices: {a: char, b: intl, c: zh, d: auto}}}"
        with pytest.raises(ConfigError, match="the trials a and b have different `evaluation` settings"):
            with_settings(plan, axis)

    def test_signatures_that_differ_name_their_test_set(self, plan, board, tmp_path):
        """Both sets have the same ones on the board; with another reference, one set has others."""
        assert [*board.signatures] == ["BLEU", "chrF2", "TER", "paired bootstrap"]
        path, lines = plan.path.parent / "second.txt", REFERENCES["second"]
        changes = f"changes={{data: {{test: {{second: {{references: [{path}]}}}}}}}}"
        more = load_plan(plan.path, [f"folder={plan.sweep.folder / 'more'}", changes])
        run, one = more.runs[0], record("a", 1)
        second = one.sets["second"]
        digest, scores = text_digest(lines), tuple(METRICS.scores(second.translations, [lines, lines]))
        second = replace(second, digests=Digests(digest, (digest, digest)), scores=scores)
        write_record(run.folder, replace(one, sets={**one.sets, "second": second}))
        signatures = build_leaderboard(more).signatures
        assert [*signatures] == [f"{name} {test}" for name in ("BLEU", "chrF2", "TER") for test in REFERENCES]
        path.with_name("half.txt").write_text("\n".join(["", *lines[1:], ""]), encoding="utf-8")
        half = load_plan(plan.path, [f"folder={tmp_path}", changes.replace("second.txt", "half.txt")])
        note = "second: 1 of 60 lines have one reference only: empty ones are missing."
        assert f"\n\n{note}\n" in leaderboard_markdown(build_leaderboard(half))
        for name, signature in signatures.items():
            assert f"nrefs:{1 + name.endswith('second')}|" in signature

    def test_all_versions_of_a_signature_are_named(self, plan, tmp_path):
        more = load_plan(plan.path, [f"folder={tmp_path}"])
        for run, version in zip(more.runs[:2], ("2.4.3", "2.6.0"), strict=True):
            one = record("a", run.seed)
            scores = tuple(replace(score, signature=f"version:{version}") for score in one.sets["first"].scores)
            sets = {name: replace(result, scores=scores) for name, result in one.sets.items()}
            write_record(run.folder, replace(one, sets=sets))
        assert build_leaderboard(more).signatures["BLEU"] == "version:2.4.3`, `version:2.6.0"

    def test_without_a_result_the_leaderboard_is_empty(self, plan, tmp_path):
        board = build_leaderboard(load_plan(plan.path, [f"folder={tmp_path}"]))
        assert (board.rows, len(board.missing)) == ((), 12)
        assert leaderboard_markdown(board).startswith("# mine\n")
        assert leaderboard_html(board)

    def test_markdown(self, board):
        text = leaderboard_markdown(board)
        rows = [line.split(" | ") for line in text.split("\n") if line.startswith("| ")]
        assert len({len(row) for row in rows}) == 1
        names = [row.name + ("** (baseline)" if row.is_baseline else "") for row in board.rows]
        minutes = [f"{row.seconds.mean / 60:.1f}" for row in board.rows]
        assert [(row[0].strip("| *"), row[-2].strip()) for row in rows[1:]] == [*zip(names, minutes, strict=True)]
        a = next(row for row in board.rows if row.is_baseline)
        assert f"{a.sets['first'].bleu.mean:.2f} ± {a.sets['first'].bleu.std:.2f}" in text
        assert all(f"`{signature}`" in text for signature in board.signatures.values())
        conditions = "a machine, 2 cores; torch 2.13; 1 thread per training, up to 2 simultaneous; 2026-11-21."
        assert f"Measured on: {conditions}\n" in text
        assert "Not finished: c seed 3." in text
        assert "4 trials, of whose trainings with 3 seeds some are not finished; test sets: first (60" in text

    def test_the_page_has_test_sets_in_their_order(self, board):
        """Also those whose names are numbers, which JavaScript puts before others as keys."""
        sets = {"second": 60, "2017": 60, "2016": 60}
        data = json.loads(re.search(r"const data = (.*);\n", leaderboard_html(replace(board, sets=sets)))[1])
        assert data["sets"] == [*sets] and data["axes"] == [*board.axes]

    def test_the_page(self, board, chromium, tmp_path):
        page = leaderboard_html(board)
        data = json.loads(re.search(r"const data = (.*);\n", page)[1])
        assert [row["name"] for row in data["rows"]] == [row.name for row in board.rows]
        assert data["rows"][0]["sets"]["first"]["bleu"]["mean"] == board.rows[0].sets["first"].bleu.mean
        assert not re.search(r"https?://|<link|src=|@import", page)
        (tmp_path / "board.html").write_text(page, encoding="utf-8")
        chromium.open(tmp_path / "board.html")
        for title in ("document.title", "document.querySelector('h1').textContent"):
            assert chromium.get(title) == "Leaderboard: mine"
        assert chromium.get("[...document.querySelectorAll('td')].every(td => td.scrollWidth <= td.clientWidth)")
        names = "[...document.querySelectorAll('#rows tr')].map(row => row.cells[0].textContent)"
        assert chromium.get(names) == [row.name for row in board.rows]
        chromium.mouse("#heads button", click=True)
        assert chromium.get(names) == ["a", "b", "c", "d"]
        assert "▲ p < 0.001" in chromium.get("document.querySelector('#rows').textContent")

"""The numbers of a leaderboard, against NumPy and sacreBLEU used directly; the board itself in all its forms."""

from __future__ import annotations

import json
import random
import re
from functools import cache

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from seq2attn.errors import ConfigError, RunError
from seq2attn.evaluation.config import EvaluationConfig
from seq2attn.evaluation.evaluate import Digests, text_digest
from seq2attn.sweep.html_page import leaderboard_html
from seq2attn.sweep.leaderboard import SeedStatistics, build_leaderboard
from seq2attn.sweep.markdown import as_markdown
from seq2attn.sweep.plan import load_plan
from seq2attn.sweep.record import TRIAL_FILE, RunRecord, TestSetMeasurement, write_record, write_trial
from seq2attn.sweep.significance import Comparison, combine_seeds, compare_systems

WORDS = [f"{a}{b}" for a in "bdfgklmn" for b in "aeiou"]
SENTENCES = 60
SPOILT = {"a": 0.3, "b": 0.05, "c": 0.9, "d": 0.3}
"""Which share of the words each trial gets wrong."""


def text(seed):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(SENTENCES)]


def spoilt(lines, share, seed):
    draw = random.Random(seed)
    return [" ".join("x" if draw.random() < share else w for w in line.split()) for line in lines]


REFERENCES = {"first": text(0), "second": text(1)}
METRICS = EvaluationConfig().build(REFERENCES["first"])


def measured(name, lines, seconds):
    digests = Digests(text_digest(REFERENCES[name]), (text_digest(REFERENCES[name]),))
    scores = METRICS.scores(lines, [REFERENCES[name]])
    return TestSetMeasurement(digests, SENTENCES, tuple(scores), seconds, 99, lines)


@cache
def record(share, seed, parameters=1000):
    made = {name: tuple(spoilt(lines, share, f"{share}{seed}{name}")) for name, lines in REFERENCES.items()}
    return RunRecord(
        parameters=parameters,
        seconds=30.0 * seed,
        updates=7,
        epochs=1.5,
        threads=1,
        jobs=2,
        machine="a machine, 2 cores",
        torch="2.13",
        date="2026-11-21",
        sets={name: measured(name, lines, 2.0 * seed) for name, lines in made.items()},
    )


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A sweep of four trials with three seeds, finished but for one training."""
    tmp_path = tmp_path_factory.mktemp("sweep")
    for name, lines in REFERENCES.items():
        (tmp_path / f"{name}.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "base.yaml").write_text(
        """\
run_dir: x
data:
  train: {kind: plain, source: a, target: b}
  dev: {kind: plain, source: a, target: b}
  test:
    first: {kind: plain, source: first.txt, target: first.txt}
    second: {kind: plain, source: second.txt, target: second.txt}
tokenizer: {joint: {kind: bpe, vocab_size: 300}}
model: {encoder: {kind: gru}, decoder: {kind: luong}}
""",
        encoding="utf-8",
    )
    (tmp_path / "mine.yaml").write_text(
        """\
base: base.yaml
folder: x
axes:
  trial: {at: training.label_smoothing, choices: {a: 0.1, b: 0.2, c: 0.3, d: 0.4}}
seeds: [1, 2, 3]
baseline: {trial: a}
""",
        encoding="utf-8",
    )
    plan = load_plan(tmp_path / "mine.yaml", [f"folder={tmp_path / 'sweep'}"])
    for training in plan.runs:
        if str(training) != "c seed 3":
            write_record(training.folder, record(SPOILT[training.trial.name], training.seed))
    return plan


@pytest.fixture(scope="module")
def board(plan):
    return build_leaderboard(plan)


def with_settings(plan, *settings):
    return load_plan(plan.path, [f"folder={plan.sweep.folder}", *settings])


def direct(seed, name):
    """What sacreBLEU says of trial `name` beside trial `a`, both with `seed`, on the first test set."""
    systems = [(trial, list(record(SPOILT[trial], seed).sets["first"].translations)) for trial in ("a", name)]
    _, found = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES["first"]], test_type="bs", n_samples=1000)()
    return found["BLEU"]


@pytest.mark.parametrize("numbers", [[3.0], [1.5, 2.5], [4.0, 4.0, 4.0], [1.0, 2.0, 4.0, 8.0]])
def test_mean_and_spread_are_those_of_numpy(numbers):
    spread = SeedStatistics.from_values(numbers)
    assert spread.mean == pytest.approx(np.mean(numbers))
    assert (spread.lowest, spread.highest) == (np.min(numbers), np.max(numbers))
    if len(numbers) == 1:
        assert spread.std is None
    else:
        assert spread.std == pytest.approx(np.std(numbers, ddof=1))


class TestSignificance:
    def test_a_system_beside_itself_is_no_different(self):
        lines = spoilt(REFERENCES["first"], 0.3, 0)
        found = compare_systems(1, lines, {"same": lines}, METRICS, [REFERENCES["first"]])["same"]
        assert found.difference == 0
        assert combine_seeds([found]).verdict == "no difference"

    @pytest.mark.parametrize("name", ["b", "c", "d"])
    @pytest.mark.parametrize("seed", [1, 2])
    def test_a_comparison_is_that_of_sacrebleu(self, board, name, seed):
        base, other = direct(seed, name)
        (row,) = (row for row in board.rows if row.name == name)
        (one,) = (one for one in row.sets["first"].comparisons if one.seed == seed)
        assert (one.score, one.difference) == pytest.approx((other.score, other.score - base.score))
        assert one.p_value == other.p_value
        assert one.confidence_interval == other.ci
        assert "bs:1000|seed:12345" in one.signature

    @pytest.mark.parametrize(
        ("pairs", "p", "verdict"),
        [
            ([(1.0, 0.01), (2.0, 0.04)], 0.04, "better"),
            ([(-1.0, 0.01), (-2.0, 0.04)], 0.04, "worse"),
            ([(1.0, 0.01), (2.0, 0.06)], 0.06, "no difference"),
            ([(1.0, 0.01), (-2.0, 0.01)], None, "no difference"),
            ([(0.0, 0.01)], 0.01, "no difference"),
        ],
    )
    def test_a_verdict_needs_every_seed(self, pairs, p, verdict):
        found = combine_seeds([Comparison(i, 30.0, difference, p, 1.0, "") for i, (difference, p) in enumerate(pairs)])
        assert (found.p_value, found.verdict) == (p, verdict)
        assert found.difference == pytest.approx(np.mean([difference for difference, _ in pairs]))

    @pytest.mark.parametrize(
        ("scores", "baselines", "verdict"),
        [
            ([32.0, 33.0], [30.0, 30.5], "better"),
            ([33.0, 32.0], [30.5, 30.0], "better"),
            ([29.5, 33.0], [28.5, 28.6], "better"),  # 2.7, more than 2.5
            ([29.5, 34.0], [28.5, 29.0], "no difference"),  # 3.0, less than 3.2 of the system
            ([29.0, 30.0], [32.0, 37.0], "worse"),  # -5.0, more than 3.5
            ([29.0, 34.0], [32.0, 37.0], "no difference"),  # -3.0, less than 3.5 of both
            ([33.0, 33.5], [30.0, 33.0], "no difference"),  # 1.75, less than 2.1 of the baseline
        ],
    )
    def test_a_difference_is_larger_than_the_spread_over_seeds(self, scores, baselines, verdict):
        pairs = enumerate(zip(scores, baselines, strict=True))
        found = combine_seeds([Comparison(i, score, score - base, 0.01, 1.0, "") for i, (score, base) in pairs])
        difference = np.mean(scores) - np.mean(baselines)
        assert found.difference == pytest.approx(difference)
        assert found.verdict == verdict
        spread = max(np.std(scores, ddof=1), np.std(baselines, ddof=1))
        assert (abs(difference) > spread) == (verdict != "no difference")

    def test_without_the_baseline_nothing_is_said(self):
        assert combine_seeds([]) is None


class TestLeaderboard:
    def test_rows_are_sorted_by_the_mean_of_the_first_set(self, board):
        seeds = {name: (1, 2, 3)[: 2 + (name != "c")] for name in SPOILT}
        means = {
            name: np.mean([record(share, s).sets["first"].score("BLEU").value for s in seeds[name]])
            for name, share in SPOILT.items()
        }
        assert [row.name for row in board.rows] == sorted(means, key=means.get, reverse=True)
        for row in board.rows:
            assert row.sets["first"].bleu.mean == pytest.approx(means[row.name])

    def test_times_and_speeds_are_over_the_seeds(self, board):
        row = board.rows[0]
        assert row.seconds.mean == pytest.approx(np.mean([30, 60, 90]))
        speeds = [SENTENCES / seconds for seconds in (2, 4, 6)]
        assert row.sets["second"].sentences_per_second.mean == pytest.approx(np.mean(speeds))

    def test_what_differs_much_is_found_and_what_does_not_is_not(self, board):
        verdicts = {row.name: row.sets["first"].verdict for row in board.rows}
        assert verdicts["a"] is None
        assert (verdicts["b"].verdict, verdicts["c"].verdict) == ("better", "worse")

    def test_what_is_missing_is_said(self, board):
        assert board.missing == ("c seed 3",)
        assert "Not finished: c seed 3." in as_markdown(board)
        assert [seed.seed for row in board.rows if row.name == "c" for seed in row.seeds] == [1, 2]

    def test_the_scores_of_all_metrics_are_there(self, board):
        for row in board.rows:
            assert [*row.sets["first"].others] == ["chrF2", "TER"]
            own = [record(SPOILT[row.name], one.seed).sets["second"].score("TER").value for one in row.seeds]
            assert row.sets["second"].others["TER"].mean == pytest.approx(np.mean(own))

    def test_results_of_another_text_are_refused(self, plan):
        path = plan.path.parent / "second.txt"
        content = path.read_text(encoding="utf-8")
        refusal = r"a/seed-1: the text of the test set `second` has changed.*--redo"
        for other in (content.replace("\n", " x\n", 1), content.partition("\n")[2]):
            path.write_text(other, encoding="utf-8")
            with pytest.raises(RunError, match=refusal):
                build_leaderboard(plan)
        path.write_text(content, encoding="utf-8")
        build_leaderboard(plan)

    def test_results_of_other_settings_are_refused(self, plan):
        training = plan.runs[0]
        write_trial(training, training.experiment.model_dump(mode="json", include={"search", "evaluation"}))
        build_leaderboard(plan)
        changed = with_settings(plan, "changes={evaluation: {tokenize: char, lowercase: true}}")
        with pytest.raises(RunError, match="a/seed-1: was measured with another evaluation; "):
            build_leaderboard(changed)
        (training.folder / TRIAL_FILE).unlink()
        assert "|case:lc|eff:no|tok:char|" in build_leaderboard(changed).signatures["paired bootstrap"]
        with pytest.raises(ConfigError, match=r"`evaluation\.metrics` needs `bleu`"):
            with_settings(plan, "changes={evaluation: {metrics: [chrf]}}")
        axis = "axes={trial: {at: evaluation.tokenize, choices: {a: char, b: intl, c: zh, d: auto}}}"
        with pytest.raises(ConfigError, match="the trials a and b have different `evaluation` settings"):
            with_settings(plan, axis)

    def test_without_a_result_there_is_an_empty_board(self, plan, tmp_path):
        board = build_leaderboard(load_plan(plan.path, [f"folder={tmp_path}"]))
        assert (board.rows, len(board.missing)) == ((), 12)
        assert as_markdown(board).startswith("# mine\n")
        assert leaderboard_html(board)

    def test_the_markdown_has_what_is_known(self, board):
        said = as_markdown(board)
        rows = [line.split(" | ") for line in said.split("\n") if line.startswith("| ")]
        assert len({len(row) for row in rows}) == 1
        assert [row[0].strip("| *") for row in rows[1:]] == [
            row.name + ("** (baseline)" if row.is_baseline else "") for row in board.rows
        ]
        (a,) = (row for row in board.rows if row.name == "a")
        assert f"{a.sets['first'].bleu.mean:.2f} ± {a.sets['first'].bleu.std:.2f}" in said
        for signature in board.signatures.values():
            assert f"`{signature}`" in said
        assert (
            "Measured on: a machine, 2 cores; torch 2.13; 1 thread a training, up to 2 side by side; 2026-11-21."
            in said
        )

    def test_the_page_holds_all_numbers_and_asks_no_network(self, board):
        page = leaderboard_html(board)
        data = json.loads(re.search(r"const board = (.*);\n", page)[1])
        assert [row["name"] for row in data["rows"]] == [row.name for row in board.rows]
        assert data["rows"][0]["sets"]["first"]["bleu"]["mean"] == board.rows[0].sets["first"].bleu.mean
        assert not re.search(r"https?://|<link|src=|@import", page)

    def test_the_bars_of_a_column_begin_at_one_zero(self, board, chromium, tmp_path):
        (tmp_path / "board.html").write_text(leaderboard_html(board), encoding="utf-8")
        chromium.open(tmp_path / "board.html")
        bars = "[...document.querySelectorAll('#rows .bar')].map(b => b.getBoundingClientRect())"
        edges = chromium.get(f"{bars}.map(r => [r.left, r.width])")
        lefts, widths = np.array(edges).reshape(len(board.rows), len(board.sets), 2).T
        for i, name in enumerate(board.sets):
            scores = np.array([row.sets[name].bleu.mean for row in board.rows])
            assert np.ptp(lefts[i]) == 0
            np.testing.assert_allclose(widths[i] / widths[i].max(), scores / scores.max(), atol=0.02)
        within = "[...document.querySelectorAll('td')].every(td => td.scrollWidth <= td.clientWidth)"
        assert chromium.get(within)

    def test_the_page_names_its_sweep(self, board, chromium, tmp_path):
        (tmp_path / "board.html").write_text(leaderboard_html(board), encoding="utf-8")
        chromium.open(tmp_path / "board.html")
        for title in ("document.title", "document.querySelector('h1').textContent"):
            assert chromium.get(title) == "Leaderboard of the sweep mine"

"""What a model reaches within a time grows with the time, and the choice follows text and time."""

from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2attn.config.duration import Duration
from seq2attn.data.corpus import Corpus
from seq2attn.data.filter import FilterReport
from seq2attn.data.prepared_data import PreparedData
from seq2attn.data.training_set import TrainingPart, TrainingSet
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.options import InitOptions
from seq2attn.starter.candidates import REPEATS, Candidates, useful_tokens
from seq2attn.starter.init import BFLOAT16_SPEED, MAX_TRIED, Starter
from seq2attn.starter.parallel_text import ParallelText
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.words import WordTokenizerConfig
from seq2attn.training.plan import Speed

CANDIDATES = Candidates.load()


def starter(folder: Path, *, num_pairs: int, hours: float, device: str = "cpu") -> Starter:
    """Pairs of ten words on each side."""
    tokenizer = WordTokenizerConfig(kind="words").train(["a b"])
    corpus = Corpus.from_pairs([([5] * 10, [5] * 10)] * 4, 9)
    train = TrainingSet(TokenizerPair(tokenizer, tokenizer), corpus, folder, (TrainingPart(FilterReport(4, 4)),))
    prepared = PreparedData(tokenizer, tokenizer, train, corpus, ("a",), (("a",),))
    text = ParallelText((folder, folder), num_pairs, [("a b", "a b")], 0)
    options = InitOptions(folder / "a", folder / "b", dev_size=1, output=folder / "my.yaml")
    return Starter(options, CANDIDATES, text, text, prepared, torch.device(device), Duration(hours, "hours"))


def test_repeated_text_is_worth_less_and_less():
    values = [useful_tokens(7, epochs) for epochs in (0, 0.5, 1, 2, 4, 16, 1000)]
    assert values[:3] == [0, 3.5, 7]
    assert all(low < high for low, high in pairwise(values))
    assert 13 < values[3] < 14 and values[-1] == pytest.approx(7 * (1 + REPEATS))


@pytest.mark.parametrize("row", CANDIDATES.rows, ids=lambda row: row.name)
def test_bleu_is_that_of_the_curve(row, tmp_path):
    """At each point exactly, between them no less than before, and unknown before the first."""
    one = starter(tmp_path, num_pairs=round(CANDIDATES.tokens_per_epoch * 1e6 / 11), hours=1, device="cuda")
    per_second = one.tokens_per_epoch / one.duration.seconds

    def expected(epochs: float) -> float | None:
        table = replace(CANDIDATES, rows=[replace(row, speed={"cuda": epochs * per_second})])
        return replace(one, candidates=table).by_table()[0].bleu

    assert [*row.bleu] == sorted(row.bleu)
    for epochs, bleu in row.bleu.items():
        assert expected(epochs * 1.0001) == pytest.approx(bleu, abs=0.1)
    assert expected(0.99 * min(row.bleu, default=1000)) is None
    between = [expected(1.3**power) or 0 for power in range(20)]
    assert all(low <= high + 1e-9 for low, high in pairwise(between))


def without_dropout(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: without_dropout(part) for key, part in value.items() if key != "dropout"}


def test_rows_of_one_shape_differ_in_dropout_only():
    for one, other in combinations(CANDIDATES.rows, 2):
        is_same = one.shape == other.shape
        assert is_same == (without_dropout(one.model) == without_dropout(other.model))
        if is_same:
            assert one.speed == other.speed and one.training["batch"] == other.training["batch"]


def test_of_models_with_equal_bleu_that_with_more_epochs_is_best(tmp_path):
    """As at the ends of curves: they do not rise after their last point, so that the slower model was chosen."""
    one = starter(tmp_path, num_pairs=round(1000 * 3600 / 11), hours=1, device="cuda")

    def epochs(wide: float) -> list[float]:
        values = ("wide", 700, wide), ("narrow", 1200, 41.7)
        rows = [replace(CANDIDATES.rows[0], shape=name, speed={"cuda": n}, bleu={5: bleu}) for name, n, bleu in values]
        return [round(one.epochs, 1) for one in replace(one, candidates=replace(CANDIDATES, rows=rows)).by_table()]

    assert epochs(wide=41.9) == [1.2, 0.7]
    assert epochs(wide=42.9) == [0.7, 1.2]


def test_speeds_of_the_table_suit_threads_and_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The table is of two threads in float32."""
    one = starter(tmp_path, num_pairs=9_000, hours=1)

    def speed(threads: int, *, bfloat16: bool) -> float:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": bfloat16})
        found = next(found for found in one.by_table() if found.candidate is CANDIDATES.rows[0])
        return found.speed.target_tokens_per_second

    assert speed(2, bfloat16=False) == CANDIDATES.rows[0].speed["cpu"]
    assert speed(8, bfloat16=False) == pytest.approx(2 * speed(2, bfloat16=False))
    assert speed(2, bfloat16=True) == pytest.approx(BFLOAT16_SPEED * speed(2, bfloat16=False))


def test_more_text_and_time_take_a_larger_model(tmp_path):
    needs = [
        starter(tmp_path, num_pairs=pairs, hours=hours, device="cuda").by_table()[0].candidate.from_tokens
        for pairs, hours in ((9_000, 0.1), (200_000, 1), (10_000_000, 9000))
    ]
    assert needs == sorted(needs) and needs[0] < needs[-1] == max(row.from_tokens for row in CANDIDATES.rows)


def test_little_text_takes_the_fastest_model(tmp_path):
    """A BLEU that is not measured is not 0: no slower model is better by it."""
    best, *others = starter(tmp_path, num_pairs=9_000, hours=0.1).by_table()
    fastest = max(one.speed.target_tokens_per_second for one in others)
    assert best.candidate.from_tokens == 0 and best.speed.target_tokens_per_second == fastest


def test_time_alone_takes_no_larger_model(tmp_path):
    """As little text is memorized."""
    best = starter(tmp_path, num_pairs=9_000, hours=9000, device="cuda").by_table()[0]
    assert best.candidate.from_tokens == 0


def test_epochs_are_those_of_the_time(tmp_path, monkeypatch):
    one = starter(tmp_path, num_pairs=1000, hours=2)
    for estimate in one.by_table():
        assert estimate.epochs == pytest.approx(estimate.speed.target_tokens_per_second * 7200 / (1000 * 11))
    tried = list[str]()

    def measure(experiment: ExperimentConfig, *_: object) -> Speed:
        tried.append(str(without_dropout(experiment.model.model_dump())))
        return Speed(1.0, 1000.0, 90.0)

    monkeypatch.setattr("seq2attn.starter.init.measure_speed", measure)
    measured = one.measured(1.0)
    assert len(tried) == len({*tried}) == MAX_TRIED  # once for all rows of a shape
    assert len({estimate.candidate.shape for estimate in measured}) == MAX_TRIED
    for estimate in measured:  # eight validations are part of the time
        assert estimate.epochs == pytest.approx(1000 * (7200 - 8 * 90) / (1000 * 11))
    monkeypatch.setattr("seq2attn.starter.init.measure_speed", lambda *_: Speed(1.0, 1000.0, 1000.0))
    for estimate in one.measured(1.0):  # or as many as `train` will plan
        assert estimate.epochs == pytest.approx(1000 * (7200 - 3 * 1000) / (1000 * 11))
    table = one.table(one.by_table()).split("\n")
    assert len(table) == 1 + len(CANDIDATES.rows) and [row.split("  ")[0] for row in table[1:]] == [
        estimate.candidate.name for estimate in one.by_table()
    ]

"""Statistics of corpora equal a simple recount; defects of test sets are warned of, good text is not."""

import json
import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from seq2attn.data.data_config import DataConfig
from seq2attn.data.filter import EncodedPair, FiltersConfig
from seq2attn.data.inspection import HASHES_FILE, REPORT_FILE, CorpusReport, DataReport, inspect_pairs, load_hashes
from seq2attn.data.prepare import prepare
from seq2attn.errors import RunError
from seq2attn.tokenizers.tokenizer_config import TokenizersConfig
from seq2attn.tokenizers.words import CharacterTokenizerConfig, WordTokenizerConfig
from tests.support.corpora import PHRASES, Pairs, write_corpus

WORDS = WordTokenizerConfig().train([source for source, _ in PHRASES[:50]])
CHARACTERS = CharacterTokenizerConfig().train(line for pair in PHRASES for line in pair)


def hashes(pairs: Pairs) -> NDArray[np.uint64]:
    return np.array([EncodedPair(pair, ([], [])).hash for pair in pairs], np.uint64)


def split_punctuation(line: str) -> str:
    return re.sub(r"([.,!?])", r" \1", line)


def pairs_with_defects(seed: int, count: int) -> Pairs:
    """Pairs of which many are empty, have one side only, or are duplicates."""
    chance = random.Random(seed)
    pairs: Pairs = []
    for _ in range(count):
        source, target = chance.choice(PHRASES)
        match chance.randrange(6):
            case 0:
                source, target = chance.choice([(source, ""), (" \t", target), ("", "")])
            case 1 if pairs:
                source, target = chance.choice(pairs)
                source = unicodedata.normalize("NFD", source) + "  "
            case 2:
                source, target = split_punctuation(source), target.lower()
        pairs.append((source, target))
    return pairs


def normalize(line: str) -> str:
    return " ".join(unicodedata.normalize("NFC", line).split())


@pytest.mark.parametrize(("seed", "count"), [(1, 1200), (2, 77)])
def test_statistics_equal_a_simple_recount(seed: int, count: int) -> None:
    pairs = pairs_with_defects(seed, count)
    tokenizers = WORDS, CHARACTERS
    report = inspect_pairs(pairs, *tokenizers, hashes(pairs[: count // 3]))
    same = [(normalize(source), normalize(target)) for source, target in pairs]
    assert report.num_pairs == count
    assert report.num_duplicates == count - len(set(same))
    assert report.num_empty == sum(not a and not b for a, b in same)
    assert report.num_one_sided == sum(bool(a) != bool(b) for a, b in same)
    assert report.num_in_train == sum(pair in set(same[: count // 3]) for pair in same)
    sides = report.source, report.target
    for side, tokenizer, lines in zip(sides, tokenizers, zip(*pairs, strict=True), strict=True):
        tokens = [tokenizer.convert_ids_to_tokens(tokenizer.encode(line)) for line in lines]
        lengths = [len(line) for line in tokens]
        assert (side.num_tokens, side.num_unknown) == (sum(lengths), sum(line.count("<unk>") for line in tokens))
        quantiles = {"median": 0.5, "95 %": 0.95, "99 %": 0.99, "longest": 1}
        expected = {name: np.quantile(lengths, share) for name, share in quantiles.items()}
        assert side.length_quantiles == pytest.approx(expected)


def test_an_empty_corpus_has_counts_of_zero() -> None:
    report = inspect_pairs([], WORDS, WORDS, hashes([]))
    assert (report.num_pairs, report.num_duplicates, report.num_in_train) == (0, 0, 0)
    assert report.source.num_tokens == report.source.length_quantiles["longest"] == 0
    assert [*report.warnings("dev", report)] == []


@pytest.fixture(scope="module")
def train() -> CorpusReport:
    return inspect_pairs(PHRASES[:800], CHARACTERS, CHARACTERS)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda p: p[:-10] + PHRASES[:10], "10 of its 200 pairs (5.0%) are training pairs"),
        (lambda p: [*p[:-3], ("a", ""), ("", "b"), (" ", "c")], "3 pairs have text on one side only"),
        (lambda p: [(a + "ţţ", b) for a, b in p], "the source has 4."),
        (lambda p: p, None),
    ],
)
def test_warnings_about_a_test_set(train: CorpusReport, change: Callable[[Pairs], Pairs], expected: str | None) -> None:
    report = inspect_pairs(change(PHRASES[900:1100]), CHARACTERS, CHARACTERS, hashes(PHRASES[:800]))
    warnings = [*report.warnings("dev", train)]
    assert [f"dev: {expected}" in line for line in warnings] == [True] * bool(expected)


def test_each_side_is_compared_with_the_same_side_of_the_training_text() -> None:
    pairs = [(source, "".join(chr(0x400 + ord(letter)) for letter in target)) for source, target in PHRASES]
    tokenizer = CharacterTokenizerConfig().train(line for pair in pairs for line in pair)
    train, swapped = (inspect_pairs(one, tokenizer, tokenizer) for one in (pairs[:800], [pair[::-1] for pair in pairs]))
    report = inspect_pairs(pairs[900:1100], tokenizer, tokenizer)
    assert [*report.warnings("dev", train)] == []
    unknown = [warning.partition(" in the training text: ")[0] for warning in report.warnings("dev", swapped)]
    assert unknown == [f"dev: the {side} has characters that are missing or rare" for side in ("source", "target")]


class TestReport:
    TEXT = TokenizersConfig(joint=CharacterTokenizerConfig())

    def data(self, folder: Path, *, test: Pairs, max_length: int = 256) -> DataConfig:
        train = [*PHRASES[:300], *PHRASES[:50], ("allein", "")]
        return DataConfig(
            train=write_corpus(folder, "train", train),
            filters=FiltersConfig(max_length=max_length),
            dev=write_corpus(folder, "dev", PHRASES[900:1000]),
            test={"test": write_corpus(folder, "test", test)} if test else {},
        )

    def test_it_is_saved_in_the_run(self, tmp_path: Path) -> None:
        log: list[str] = []
        run = tmp_path / "run"
        prepared = prepare(self.data(tmp_path, test=PHRASES[290:310]), self.TEXT, run, log.append)
        report = DataReport.load(run)
        assert report is not None and prepared.train.parts[0].report.num_read == report.train.num_pairs
        assert (report.train.num_pairs, report.train.num_duplicates, report.train.num_one_sided) == (351, 50, 1)
        assert (report.dev.num_in_train, report.tests["test"].num_in_train) == (0, 10)
        warnings = [line for line in log if line.startswith("warning: ")]
        fix = "are duplicates; `data.filters.drop_duplicates: true` leaves them out"
        assert any(f"train: 50 pairs (14.2%) {fix}" in line for line in warnings)
        assert any("test: 10 of its 20 pairs (50.0%) are training pairs" in line for line in warnings)
        assert warnings == [f"warning: {line}" for line in report.warnings()]
        content = json.loads((run / REPORT_FILE).read_text(encoding="utf-8"))
        assert content["warnings"] == report.warnings() and content["tests"]["test"]["num_in_train"] == 10
        assert "train: kept 350 of 351 pairs; left out: 1 empty" in log

    def test_pairs_that_filters_leave_out_are_no_training_pairs(self, tmp_path: Path) -> None:
        test, log = [*PHRASES[:300], ("allein", "")], list[str]()
        prepare(self.data(tmp_path, test=test, max_length=20), self.TEXT, tmp_path / "run", log.append)
        short = [pair for pair in PHRASES[:300] if max(map(len, pair)) <= 20]
        report = DataReport.load(tmp_path / "run")
        assert 0 < len(short) < 300
        assert report is not None and report.tests["test"].num_in_train == len(short)

    def test_it_is_of_the_present_test_sets(self, tmp_path: Path) -> None:
        run, log = tmp_path / "run", list[str]()
        for test in ([], PHRASES[290:310], PHRASES[280:300]):
            log.clear()
            prepare(self.data(tmp_path, test=test), self.TEXT, run, log.append)
        report = DataReport.load(run)
        assert report is not None and report.tests["test"].num_in_train == 20 and report.train.num_pairs == 351
        assert any("test: 20 of its 20 pairs" in line for line in log) and "already prepared" in log[0]
        log.clear()
        prepare(self.data(tmp_path, test=PHRASES[280:300]), self.TEXT, run, log.append)
        assert len(log) == 1

    def test_a_test_set_may_have_the_name_of_another(self, tmp_path: Path) -> None:
        data, log = self.data(tmp_path, test=PHRASES[500:510] * 2), list[str]()
        names = {"train": data.test["test"], "dev": data.test["test"]}
        data = data.model_copy(update={"test": names, "dev": write_corpus(tmp_path, "dev", PHRASES[290:310])})
        prepare(data, self.TEXT, tmp_path / "run", log.append)
        assert log[0] == "train: 351 pairs, dev: 20 pairs, train: 20 pairs, dev: 20 pairs"
        assert any("dev: 10 of its 20 pairs (50.0%) are training pairs" in line for line in log)
        fix = "; `data.filters.drop_duplicates: true` leaves them out"
        assert f"warning: train: 50 pairs (14.2%) are duplicates{fix}" in log
        assert {f"warning: {name}: 10 pairs (50.0%) are duplicates" for name in names} < {*log}

    def test_filters_that_leave_much_out_cause_a_warning(self, tmp_path: Path) -> None:
        log: list[str] = []
        prepare(self.data(tmp_path, test=[], max_length=20), self.TEXT, tmp_path / "run", log.append)
        (line,) = (line for line in log if "train: kept" in line)
        assert re.match(r"warning: train: kept \d+ of 351 pairs; left out: 1 empty, \d+ too long$", line)

    def test_a_run_without_report_and_hashes_is_valid(self, tmp_path: Path) -> None:
        data = self.data(tmp_path, test=[])
        prepare(data, self.TEXT, tmp_path, print)
        for name in (REPORT_FILE, HASHES_FILE):
            (tmp_path / name).unlink()
        log: list[str] = []
        prepare(data, self.TEXT, tmp_path, log.append)
        assert len(log) == 1 and DataReport.load(tmp_path) is None and load_hashes(tmp_path) is None

    def test_corrupt_hashes_are_errors(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        np.save(tmp_path / HASHES_FILE, np.zeros((2, 2)))
        with pytest.raises(RunError, match="does not hold hashes"):
            load_hashes(tmp_path)
        (tmp_path / HASHES_FILE).write_bytes(b"no")
        with pytest.raises(RunError, match="cannot be read"):
            load_hashes(tmp_path)

"""Counts over corpora equal plain recounts; what is planted is warned of, of sound text nothing is said."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seq2attn.data.config import DataConfig
from seq2attn.data.inspection.overlap import HASHES_FILE, hash_pairs, load_hashes, save_hashes
from seq2attn.data.inspection.report import (
    REPORT_JSON,
    REPORT_TEXT,
    DataReport,
)
from seq2attn.data.inspection.report import (
    test_set_warnings as warnings_of,
)
from seq2attn.data.inspection.statistics import CHUNK, CorpusReport, inspect_pairs
from seq2attn.data.inspection.text_style import TextStyle
from seq2attn.data.prepare import prepare
from seq2attn.data.readers import PlainTextConfig
from seq2attn.errors import RunError
from seq2attn.tokenizers.characters import CharacterTokenizerConfig
from seq2attn.tokenizers.config import TokenizersConfig
from seq2attn.tokenizers.words import WordTokenizerConfig
from tests.unit.phrases import PHRASES, Pairs

WORDS = WordTokenizerConfig().train([source for source, _ in PHRASES[:50]])
CHARACTERS = CharacterTokenizerConfig().train(line for pair in PHRASES for line in pair)


def tokenized(line: str) -> str:
    return re.sub(r"([.,!?])", r" \1", line)


def planted(seed: int, pairs: int) -> Pairs:
    """Pairs of which many are empty, have one side, or came before."""
    draw = random.Random(seed)
    found: Pairs = []
    for _ in range(pairs):
        source, target = draw.choice(PHRASES)
        match draw.randrange(6):
            case 0:
                source, target = draw.choice([(source, ""), (" \t", target), ("", "")])
            case 1 if found:
                source, target = draw.choice(found)
                source = unicodedata.normalize("NFD", source) + "  "
            case 2:
                source, target = tokenized(source), target.lower()
        found.append((source, target))
    return found


def plain(line: str) -> str:
    return " ".join(unicodedata.normalize("NFC", line).split())


@pytest.mark.parametrize(("seed", "pairs"), [(1, CHUNK + 200), (2, 77)])
def test_counts_are_those_of_a_plain_recount(seed: int, pairs: int) -> None:
    made = planted(seed, pairs)
    report = inspect_pairs(made, WORDS, WORDS, hash_pairs(made[: pairs // 3]))
    same = [(plain(source), plain(target)) for source, target in made]
    assert report.num_pairs == pairs
    assert report.num_duplicates == pairs - len(set(same))
    assert report.num_empty == sum(not a and not b for a, b in same)
    assert report.num_one_sided == sum(bool(a) != bool(b) for a, b in same)
    assert report.num_in_train == sum(pair in set(same[: pairs // 3]) for pair in same)
    for (_, side), lines in zip(report.sides, zip(*made, strict=True), strict=True):
        tokens = [WORDS.convert_ids_to_tokens(WORDS.encode(line)) for line in lines]
        lengths = [len(line) for line in tokens]
        assert (side.num_tokens, side.num_unknown) == (
            sum(lengths),
            sum(line.count("<unk>") for line in tokens),
        )
        assert (side.mean_length, side.median_length, side.p95_length, side.p99_length) == pytest.approx(
            (np.mean(lengths), *np.quantile(lengths, (0.5, 0.95, 0.99)))
        )
        assert (side.max_length, side.max_length_line) == (max(lengths), 1 + lengths.index(max(lengths)))
        text = "\n".join(lines)
        assert (side.style.num_upper, side.style.num_cased) == (
            sum(c.isupper() for c in text),
            sum(c.isupper() or c.islower() for c in text),
        )
        words = [word for line in lines for word in line.split()]
        assert side.style.num_detached == sum(word in (".", ",") for word in words)
        assert side.style.num_marks == sum(word[-1] in ".," for word in words)


def test_a_corpus_without_pairs_has_counts_of_zero() -> None:
    report = inspect_pairs([], WORDS, WORDS, hash_pairs([]))
    assert (report.num_pairs, report.num_duplicates, report.num_in_train) == (0, 0, 0)
    assert report.source.max_length == report.source.max_length_line == report.source.num_tokens == 0


class TestStyle:
    RAW = TextStyle.from_lines([source for source, _ in PHRASES[:200]])

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (tokenized, "is tokenized differently from the training text: 100% "),
            (str.lower, "is cased differently from the training text: 0.0% "),
        ],
    )
    def test_it_is_compared_in_both_directions(self, change: Callable[[str], str], expected: str) -> None:
        other = TextStyle.from_lines([change(source) for source, _ in PHRASES[:200]])
        (forth,), (back,) = other.differences(self.RAW), self.RAW.differences(other)
        assert forth.startswith(expected) and back.startswith(expected.split(":")[0])
        shares = re.compile(r"[\d.]+%")
        assert shares.findall(forth) == shares.findall(back)[::-1]
        assert other.differences(other) == self.RAW.differences(self.RAW) == []

    def test_nothing_is_said_of_few_lines_or_without_a_training_text(self) -> None:
        few = TextStyle.from_lines([tokenized(source.lower()) for source, _ in PHRASES[:3]])
        assert few.differences(self.RAW) == []
        assert self.RAW.differences(TextStyle()) == TextStyle().differences(self.RAW) == []

    def test_marks_that_need_no_space(self) -> None:
        assert TextStyle.from_lines(["猫が、寝ている。はい。", "猫 が 、 寝 て いる 。"]) == TextStyle(0, 0, 2, 5)

    def test_case_does_not_count_where_the_tokenizer_ignores_it(self) -> None:
        lower = WordTokenizerConfig(lowercase=True).train([source for source, _ in PHRASES])
        reports = [inspect_pairs(PHRASES[:100], one, one) for one in (lower, CHARACTERS)]
        assert [one.source.style.num_upper > 0 for one in reports] == [False, True]
        small = [(source.lower(), target.lower()) for source, target in PHRASES[:100]]
        assert inspect_pairs(small, CHARACTERS, CHARACTERS).source.style.num_cased > 0


@pytest.fixture(scope="module")
def train() -> CorpusReport:
    return inspect_pairs(PHRASES[:800], CHARACTERS, CHARACTERS)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (
            lambda p: [(tokenized(a), b) for a, b in p],
            "the source is tokenized differently from the training text: 100%",
        ),
        (lambda p: [(a, b.lower()) for a, b in p], "the target is cased differently from the training text: 0.0%"),
        (lambda p: p[:-10] + PHRASES[:10], "10 of its 200 pairs (5.0%) are training pairs"),
        (lambda p: [*p[:-3], ("a", ""), ("", "b"), (" ", "c")], "3 pairs have text on one side only"),
        (lambda p: [(a + "ţţ", b) for a, b in p], "the source has 4."),
        (lambda p: p, None),
    ],
)
def test_what_is_planted_in_a_test_set_is_warned_of(
    train: CorpusReport, plant: Callable[[Pairs], Pairs], expected: str | None
) -> None:
    report = inspect_pairs(plant(PHRASES[900:1100]), CHARACTERS, CHARACTERS, hash_pairs(PHRASES[:800]))
    found = warnings_of("dev", report, train)
    assert [expected is not None and f"dev: {expected}" in line for line in found] == [True] * bool(expected)


def aligned(folder: Path, name: str, pairs: Pairs) -> PlainTextConfig:
    paths = folder / f"{name}.de", folder / f"{name}.en"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8", newline="\n")
    return PlainTextConfig(source=paths[0], target=paths[1])


class TestPreparing:
    TEXT = TokenizersConfig(joint=CharacterTokenizerConfig())

    def data(self, folder: Path, *, test: Pairs) -> DataConfig:
        train = [*PHRASES[:300], *PHRASES[:50], ("allein", "")]
        sets = {"test": aligned(folder, "test", test)} if test else {}
        return DataConfig(
            train=aligned(folder, "train", train), dev=aligned(folder, "dev", PHRASES[900:1000]), test=sets
        )

    def test_the_report_is_kept(self, tmp_path: Path) -> None:
        log: list[str] = []
        run = tmp_path / "run"
        prepared = prepare(self.data(tmp_path, test=PHRASES[290:310]), self.TEXT, run, log.append)
        report = DataReport.load(run)
        assert report is not None and report.corpora[0].part == prepared.train.parts[0]
        assert (report.train.num_pairs, report.train.num_duplicates, report.train.num_one_sided) == (
            351,
            50,
            1,
        )
        assert (report.dev.num_in_train, report.tests["test"].num_in_train) == (0, 10)
        warned = [line for line in log if line.startswith("warning: ")]
        assert any("train: 50 pairs (14.2%) are duplicates" in line for line in warned)
        assert any("test: 10 of its 20 pairs (50.0%) are training pairs" in line for line in warned)
        assert warned == [f"warning: {line}" for line in report.warnings()]
        shown = (run / REPORT_TEXT).read_text(encoding="utf-8")
        assert all(line in shown for line in warned) and "train: kept 350 of 351 pairs" in shown
        cells = re.search(r"^num_in_train +(\d+) +(\d+)$", shown, re.MULTILINE)
        assert cells is not None and cells.groups() == ("0", "10")

    def test_test_sets_may_come_and_go(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        prepare(self.data(tmp_path, test=[]), self.TEXT, run, print)
        before = DataReport.load(run)
        log: list[str] = []
        changed = self.data(tmp_path, test=PHRASES[:20])
        prepare(changed, self.TEXT, run, log.append)
        assert log[0].endswith("already prepared from this text")
        assert any("test: 20 of its 20 pairs" in line for line in log)
        after = DataReport.load(run)
        assert before is not None and after is not None
        assert [*after.tests] == ["test"] and after.train == before.train
        kept = (run / REPORT_JSON).stat().st_mtime_ns
        prepare(changed, self.TEXT, run, print)
        assert (run / REPORT_JSON).stat().st_mtime_ns == kept

    def test_a_run_may_be_without_a_report(self, tmp_path: Path) -> None:
        run, data = tmp_path / "run", self.data(tmp_path, test=PHRASES[290:310])
        prepare(data, self.TEXT, run, print)
        for name in (REPORT_JSON, REPORT_TEXT, HASHES_FILE):
            (run / name).unlink()
        log: list[str] = []
        prepare(data, self.TEXT, run, log.append)
        assert len(log) == 1 and DataReport.load(run) is None and load_hashes(run) is None

    @pytest.mark.parametrize("damage", ["{}", "[]", "{"])
    def test_a_damaged_report_is_told(self, tmp_path: Path, damage: str) -> None:
        (tmp_path / REPORT_JSON).write_text(damage, encoding="utf-8")
        with pytest.raises(RunError, match=r"data-report\.json: "):
            DataReport.load(tmp_path)

    def test_damaged_hashes_are_told(self, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        save_hashes(np.zeros((2, 2)), tmp_path)
        with pytest.raises(RunError, match="does not hold hashes"):
            load_hashes(tmp_path)
        (tmp_path / HASHES_FILE).write_bytes(b"no")
        with pytest.raises(RunError, match="cannot be read"):
            load_hashes(tmp_path)

"""What is planted in a corpus is warned of, of sound text nothing is said, and a run keeps what was found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.data.concerns import concerns, concerns_of, tokenised_references
from seq2attn.data.inspector import inspect_pairs
from seq2attn.data.prepare import SEEN, DataConfig, prepare
from seq2attn.data.read import AlignedConfig
from seq2attn.data.report import JSON, TEXT, DataReport, Found, PairsReport
from seq2attn.data.seen import Seen, line_numbers
from seq2attn.errors import RunError
from seq2attn.text.characters import CharactersConfig
from seq2attn.text.config import TextConfig
from tests.unit.phrases import JAPANESE, PHRASES, RUSSIAN, Pairs


def swap(pairs: Pairs) -> Pairs:
    return [(target, source) for source, target in pairs]


def spaced(line: str) -> str:
    return re.sub(r"([.,!?])", r" \1", line)


PLANTS: dict[str, tuple[Callable[[Pairs], Pairs], str]] = {
    "tokenised sources": (lambda p: [(spaced(a), b) for a, b in p], "the source looks tokenised: 100%"),
    "tokenised targets": (lambda p: [(a, spaced(b)) for a, b in p], "the target looks tokenised: 100%"),
    "small letters": (lambda p: [(a.lower(), b) for a, b in p], "the source looks lower-cased: 0.0%"),
    "capitals": (lambda p: [(a, b.upper()) for a, b in p], "the target is in capitals: 100.0%"),
    "swapped": (swap, "source and target look swapped"),
    "learnt": (lambda p: p[:-10] + PHRASES[:10], "10 of its 200 pairs (5.0%) are training pairs"),
    "one side": (lambda p: [*p[:-3], ("a", ""), ("", "b"), (" ", "c")], "3 lines (198, 199, 200) have text on one"),
    "the same": (lambda p: [*p[:-3], *[("Ja.", "Ja.")] * 3], "3 lines (198, 199, 200) have the same text on both"),
    "garbled": (lambda p: [(a, f"Ã¤ {b}") for a, b in p], "the target has UTF-8 that was read as Latin-1"),
    "not decoded": (lambda p: [(a + "\ufffd", b) for a, b in p], "the source has U+FFFD"),
    "controls": (lambda p: [(a + "\x07", b) for a, b in p], "control characters in 200 lines (1, 2, 3, 4, 5 and 195 m"),
    "other script": (lambda p: [*p[:-5], *[(x, "x y") for x in RUSSIAN + JAPANESE]], "the source is in Latin, 5 lines"),
    "all other": (lambda p: [("Кошка спит. " + a[:1], b) for a, b in p], "of its letters in Cyrillic"),
    "unknown": (lambda p: [(a + "ţţ", b) for a, b in p], "the source has 4."),
    "sub-words": (lambda p: [(re.sub(r"(\w\w)(\w\w)", r"\1@@ \2", a), b) for a, b in p], "has marks of sub-words"),
    "escapes": (lambda p: [(a, b.replace("e", "&apos;", 1)) for a, b in p], "the target has escapes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def learnt() -> tuple[PairsReport, Seen, object]:
    tokenizer = CharactersConfig().train(line for pair in PHRASES for line in pair)
    train = PHRASES[:800]
    seen = Seen.of(line_numbers([a for a, _ in train]), line_numbers([b for _, b in train]))
    return inspect_pairs(train, tokenizer, tokenizer, None), seen, tokenizer


@pytest.mark.parametrize("what", PLANTS)
def test_what_is_planted_in_a_test_set_is_warned_of(learnt, what: str) -> None:
    train, seen, tokenizer = learnt
    plant, expected = PLANTS[what]
    said = concerns_of("dev", inspect_pairs(plant(PHRASES[900:1100]), tokenizer, tokenizer, seen), train)
    assert any(line.startswith("dev: ") and expected in line for line in said), said
    assert len(said) <= 2


def test_of_sound_text_nothing_is_said(learnt) -> None:
    train, seen, tokenizer = learnt
    sound = inspect_pairs(PHRASES[900:1100], tokenizer, tokenizer, seen)
    assert concerns_of("dev", sound, train) == tokenised_references("dev", sound) == []
    assert concerns_of("dev", sound, None) == []


def test_tokenised_references_count_whatever_was_learnt_from(learnt) -> None:
    *_, tokenizer = learnt
    cut = [(a, spaced(b)) for a, b in PHRASES[:200]]
    report = inspect_pairs(cut, tokenizer, tokenizer, None)
    assert concerns_of("t", report, report) == []
    (said,) = tokenised_references("t", report)
    assert said.startswith("t: the references are tokenised (full stops and commas that stand alone, 100%")


def aligned(folder: Path, name: str, pairs: Pairs) -> AlignedConfig:
    paths = folder / f"{name}.de", folder / f"{name}.en"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8", newline="\n")
    return AlignedConfig(source=paths[0], target=paths[1])


class TestPreparing:
    TEXT = TextConfig(joint=CharactersConfig())

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
        assert report is not None and report.filters == prepared.report
        assert (report.train.pairs, report.train.duplicates) == (351, 50)
        assert report.train.one_sided == Found(1, (351,))
        assert report.longest_kept == tuple(prepared.train.corpus.lengths.max(axis=0))
        assert (report.dev.learnt_pairs, report.tests["test"].learnt_pairs) == (0, 10)
        warned = [line for line in log if line.startswith("warning: ")]
        assert any("train: 50 pairs (14.2%) came before" in line for line in warned)
        assert any("test: 10 of its 20 pairs (50.0%) are training pairs" in line for line in warned)
        assert warned == [f"warning: {line}" for line in concerns(report)]
        shown = (run / TEXT).read_text(encoding="utf-8")
        assert all(line in shown for line in warned) and "train: kept 350 of 351 pairs" in shown

    def test_test_sets_may_come_and_go(self, tmp_path: Path) -> None:
        run = tmp_path / "run"
        prepare(self.data(tmp_path, test=[]), self.TEXT, run, print)
        before = DataReport.load(run)
        log: list[str] = []
        prepare(self.data(tmp_path, test=swap(PHRASES[900:1000])), self.TEXT, run, log.append)
        assert log[0].endswith("already prepared from this text")
        assert any("test: source and target look swapped" in line for line in log)
        after = DataReport.load(run)
        assert before is not None and after is not None
        assert [*after.tests] == ["test"] and after.train == before.train
        kept = (run / JSON).stat().st_mtime_ns
        prepare(self.data(tmp_path, test=swap(PHRASES[900:1000])), self.TEXT, run, print)
        assert (run / JSON).stat().st_mtime_ns == kept

    def test_a_run_from_before_has_none(self, tmp_path: Path) -> None:
        run, data = tmp_path / "run", self.data(tmp_path, test=PHRASES[290:310])
        prepare(data, self.TEXT, run, print)
        for path in (run / JSON, run / TEXT, *(run / SEEN).iterdir()):
            path.unlink()
        log: list[str] = []
        prepare(data, self.TEXT, run, log.append)
        assert len(log) == 1 and DataReport.load(run) is None and Seen.open(run / SEEN) is None

    @pytest.mark.parametrize("damage", ['{"format": 1}', "[]", '{"format": 99}', "{"])
    def test_a_damaged_one_is_told(self, tmp_path: Path, damage: str) -> None:
        (tmp_path / JSON).write_text(damage, encoding="utf-8")
        with pytest.raises(RunError, match=r"data-report\.json: "):
            DataReport.load(tmp_path)

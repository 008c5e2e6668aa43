"""Warnings about text and input on standard error, and translation of lines that are too long."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2attn.tokenizers.tokenizer_config import load_tokenizer
from tests.support.commands import Done, Invoke, Toy, invoke_in, write_lines, write_toy
from tests.support.corpora import PHRASES

PARTS = {"train": (0, 600), "dev": (600, 630), "short": (700, 760), "mixed": (590, 610)}
CHANGES = (
    "data.filters.max_length=30", "tokenizer={joint: null, source: {kind: words, min_frequency: 2}}",
    "tokenizer.target={kind: words}", "training.max_duration=[30 updates]", "search.beam_size=2",
)  # fmt: skip
Change = Callable[[str], str]


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates. Half of the test set `mixed` is training text."""
    folder = tmp_path_factory.mktemp("raw")
    write_toy(folder, pairs={name: PHRASES[start:stop] for name, (start, stop) in PARTS.items()})
    invoke_in(folder, "train", "toy.yaml", *(f"--set={change}" for change in CHANGES))
    return folder / "runs/toy"


@pytest.fixture
def run(raw: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(raw, tmp_path / "run"))


def warnings(done: Done, *parts: str) -> list[str]:
    """The warnings with all `parts`, but those of translations that reached the maximum length."""
    every = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    return [line for line in every if "may be truncated" not in line and all(part in line for part in parts)]


def text(change: Change = str, start: int = 700, stop: int = 760) -> bytes:
    return "".join(change(source) + "\n" for source, _ in PHRASES[start:stop]).encode()


class TestInput:
    def test_unknown_tokens_are_counted_over_all_lines(self, invoke: Invoke, raw: Path) -> None:
        tokenizer = load_tokenizer(raw / "source")
        for start, stop in ((0, 60), (700, 760), (700, 702)):
            content = text(start=start, stop=stop)
            ids = [tokenizer.encode(line) for line in content.decode().split("\n")]
            tokens, unknown = sum(map(len, ids)), sum(line.count(3) for line in ids)
            messages = warnings(invoke("translate", raw, "--greedy", given=content), "the model does not know")
            share = f"{unknown / tokens:.1%} of the tokens, {unknown:,} of {tokens:,}, in line"
            assert [share in line for line in messages] == ([True] if unknown > 0.01 * tokens else [])

    def test_characters_that_the_training_text_lacks(self, invoke: Invoke, toy: Toy) -> None:
        """Its tokenizer has bytes, so no token is `<unk>`."""
        for foreign in ("الطفل يقرأ", "私は電車で行く", "Мы едем"):
            (warning,) = warnings(invoke("translate", toy.run, "rot haus", foreign), "the model does not know")
            assert "% of the characters, " in warning and warning.endswith(", in line 2")
        assert not warnings(invoke("translate", toy.run, "rot haus", "blau boot"), "the model does not know")
        write_lines(toy.folder / "foreign.de", ["Мы едем", "rot haus"])
        done = invoke(
            "evaluate", toy.run, "--source", toy.folder / "foreign.de", "--reference", toy.folder / "foreign.de"
        )
        assert warnings(done, "the source has characters that are missing or rare")

    def test_the_report_is_enough(self, invoke: Invoke, run: Path) -> None:
        foreign = "Мы едем\n".encode()
        shutil.rmtree(run / "data")
        assert warnings(invoke("translate", run, given=foreign), "the model does not know")
        (run / "data-report.json").unlink()
        assert warnings(invoke("translate", run, given=foreign), "the model does not know")
        (run / "data-report.json").write_text('{"train": 3}', encoding="utf-8")
        done = invoke("translate", run, "Hallo.", code=2)
        assert done.err.startswith(f"error: {run / 'data-report.json'}: is not a report on data, or is corrupt")


class TestLong:
    SENTENCES = tuple(source for source, _ in PHRASES[:9])
    GIVEN = f"Hallo.\n{' '.join(SENTENCES)}\n\n{' '.join(SENTENCES).lower().replace('.', '')}\n".encode()

    def test_each_way(self, invoke: Invoke, raw: Path) -> None:
        for how in ("split", "truncate"):
            done = invoke("translate", raw, "--long-inputs", how, "--json", given=self.GIVEN)
            segments = [json.loads(line).get("segments") for line in done.out.splitlines()]
            (message,) = warnings(done, "too many tokens: the model was trained on none with more than 30")
            assert message.startswith("warning: lines 2, 4: ")
            assert len(segments) == 4 and segments[0] is None
            assert segments[1] == [*self.SENTENCES] if how == "split" else len(segments[1]) == 1


class TestEvaluate:
    def test_warnings_about_test_sets(self, invoke: Invoke, run: Path) -> None:
        done = invoke("evaluate", run, "--greedy", "--json")
        message = "mixed: 10 of its 20 pairs (50.0%) are training pairs, so that its scores are too high"
        assert warnings(done, "training pairs") == [f"warning: {message}"]
        log = (run / "train.log").read_text(encoding="utf-8")
        assert all(f" {line}\n" in log for line in (f"warning: {message}", *warnings(done, "unknown tokens")))
        stored = json.loads((run / "evaluation/mixed.json").read_text(encoding="utf-8"))
        assert message in stored["warnings"] == json.loads(done.out)["sets"]["mixed"]["warnings"]
        shutil.rmtree(run / "data")
        assert not warnings(invoke("evaluate", run, "--greedy"), "training pairs")

    def test_long_lines(self, invoke: Invoke, run: Path, tmp_path: Path) -> None:
        write_lines(tmp_path / "s", [" ".join(TestLong.SENTENCES), "Hallo."])
        write_lines(tmp_path / "r", ["It is long.", "Hello."])
        done = invoke("evaluate", run, "--source", "s", "--reference", "r", "--long-inputs", "truncate")
        assert warnings(done, "warning: s: line 1: ", "only the beginning is translated")
        assert (run / "evaluation/s.txt").read_text(encoding="utf-8").count("\n") == 2

"""Warnings about text and input on standard error, and translation of lines that are too long."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2attn.cli import app
from seq2attn.tokenizers.config import load_tokenizer
from tests.cli.conftest import Done, Invoke, write_lines
from tests.unit.visualization.weights import page_data

PHRASEBOOK = Path(__file__).parents[2] / "data" / "phrasebook"
CONFIG = """\
run_dir: run
data:
  train: {kind: plain, source: train.de, target: train.en}
  dev: {kind: plain, source: dev.de, target: dev.en}
  test:
    unseen: {kind: plain, source: unseen.de, target: unseen.en}
    known: {kind: plain, source: known.de, target: known.en}
  filters: {max_length: 30}
tokenizer: {source: {kind: words, min_frequency: 2}, target: {kind: words}}
model:
  embeddings: {dim: 16}
  encoder: {kind: gru, dim: 16}
  decoder: {kind: luong, dim: 16}
training:
  max_duration: [30 updates]
  batch: {tokens: 400}
  lr_schedule: {kind: inverse-sqrt, warmup_updates: 4000}
  validation: {every: 30 updates}
search: {kind: beam, beam_size: 2}
"""
Change = Callable[[str], str]


def tokenize(line: str) -> str:
    return re.sub(r"([.,!?])", r" \1", line)


def lines(name: str, start: int, stop: int) -> list[str]:
    return (PHRASEBOOK / name).read_text(encoding="utf-8").split("\n")[start:stop]


def train(folder: Path, change: Change = str) -> Path:
    """A run of a few updates, in a folder with its config and text."""
    for name, start, stop in (("train", 0, 600), ("dev", 600, 630), ("unseen", 700, 760), ("known", 590, 610)):
        for side in ("de", "en"):
            write_lines(folder / f"{name}.{side}", [change(line) for line in lines(f"train.{side}", start, stop)])
    (folder / "honest.yaml").write_text(CONFIG, encoding="utf-8")
    done = CliRunner().invoke(app, ["train", str(folder / "honest.yaml"), "--set", f"run_dir={folder / 'run'}"])
    assert done.exit_code == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("raw"))


@pytest.fixture(scope="module")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("tokenized"), tokenize)


def warnings(done: Done, *parts: str) -> list[str]:
    """The warnings with all `parts`, but those of translations that reached the maximum length."""
    every = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    return [line for line in every if "may be truncated" not in line and all(part in line for part in parts)]


def text(change: Change = str, start: int = 700, stop: int = 760) -> bytes:
    return "".join(change(line) + "\n" for line in lines("train.de", start, stop)).encode()


def test_the_report_on_training_and_test_text(invoke: Invoke, raw: Path, tmp_path: Path) -> None:
    done = invoke("prepare", raw.parent / "honest.yaml", "--set", "run_dir=again")
    messages = warnings(done)
    assert "warning: known: 10 of its 20 pairs (50.0%) are training pairs, so that its scores are too high" in messages
    assert not [line for line in messages if line.startswith("warning: unseen: ") and "unknown" not in line]
    report = json.loads((tmp_path / "again" / "data-report.json").read_text(encoding="utf-8"))
    assert report["train"]["num_pairs"] == 600 and report["tests"]["known"]["num_in_train"] == 10
    table = (tmp_path / "again" / "data-report.txt").read_text(encoding="utf-8")
    log = (raw / "train.log").read_text(encoding="utf-8")
    assert all(line in table and line in log for line in messages) and done.out == ""


class TestInput:
    def test_text_in_the_style_of_the_training_text(self, invoke: Invoke, raw: Path, tokenized: Path) -> None:
        for run, change in ((raw, str), (tokenized, tokenize)):
            done = invoke("translate", run, "--greedy", given=text(change, 0, 60))
            assert (warnings(done, "the input"), done.out.count("\n")) == ([], 60)

    def test_text_in_another_style(self, invoke: Invoke, raw: Path, tokenized: Path) -> None:
        tokenization = "the input is tokenized differently"
        for run, change, expected in (
            (raw, tokenize, tokenization),
            (raw, str.lower, "the input is cased differently"),
            (tokenized, str, f"{tokenization} from the training text: 0% "),
        ):
            done = invoke("translate", run, "--greedy", given=text(change))
            assert len(warnings(done, expected)) == 1 and done.out.count("\n") == 60

    def test_unknown_tokens_are_counted_over_all_lines(self, invoke: Invoke, raw: Path) -> None:
        tokenizer = load_tokenizer(raw / "source")
        for start, stop in ((0, 60), (700, 760), (700, 702)):
            content = text(start=start, stop=stop)
            ids = [tokenizer.encode(line) for line in content.decode().split("\n")]
            tokens, unknown = sum(map(len, ids)), sum(line.count(3) for line in ids)
            messages = warnings(invoke("translate", raw, "--greedy", given=content), "the model does not know")
            share = f"{unknown / tokens:.1%} of the tokens, {unknown:,} of {tokens:,}, in line"
            assert [share in line for line in messages] == ([True] if unknown > 0.01 * tokens else [])

    def test_long_input_is_warned_of_early_and_once(self, invoke: Invoke, raw: Path) -> None:
        content = text(lambda line: tokenize(line) + " Quokka .", 600, 900) * 40  # several batches
        done = invoke("translate", raw, "--greedy", "--set", "search.lengths.max_length=1", given=content)
        for part in ("the model does not know", "is tokenized differently"):
            (early,) = warnings(done, part)
            first = int(re.search(r"\(in the first ([\d,]+) lines\)", early)[1].replace(",", ""))
            assert first < content.count(b"\n") == done.out.count("\n")

    def test_the_report_is_enough(self, invoke: Invoke, raw: Path, tmp_path: Path) -> None:
        run = Path(shutil.copytree(raw, tmp_path / "moved"))
        shutil.rmtree(run / "data")
        assert warnings(invoke("translate", run, given=text(tokenize)), "is tokenized differently")
        (run / "data-report.json").unlink()
        done = invoke("translate", run, given=text(tokenize, 0, 60))
        assert (warnings(done, "the input"), done.out.count("\n")) == ([], 60)

    def test_a_corrupt_report(self, invoke: Invoke, raw: Path, tmp_path: Path) -> None:
        run = Path(shutil.copytree(raw, tmp_path / "damaged"))
        (run / "data-report.json").write_text('{"train": 3}', encoding="utf-8")
        done = invoke("translate", run, "Hallo.", code=2)
        assert done.err.startswith(f"error: {run / 'data-report.json'}: is not a report on data, or is corrupt")


class TestLong:
    TEXT = " ".join(lines("train.de", 0, 9))
    GIVEN = f"Hallo.\n{TEXT}\n\n{TEXT.lower().replace('.', '')}\n".encode()

    def test_each_way(self, invoke: Invoke, raw: Path) -> None:
        outputs = {}
        for how in ("split", "truncate"):
            done = invoke("translate", raw, "--long-inputs", how, "--json", given=self.GIVEN)
            outputs[how] = [json.loads(line) for line in done.out.splitlines()]
            assert len(outputs[how]) == 4
            messages = warnings(done, "tokens, and the model was trained on none with more than 30")
            assert [line.split(":")[1] for line in messages] == [" line 2", " line 4"]
        assert outputs["split"][1]["segments"] == lines("train.de", 0, 9)
        assert "segments" not in outputs["split"][0]
        assert len(outputs["truncate"][1]["segments"]) == 1
        alone = invoke("translate", raw, given="".join(f"{x}\n" for x in outputs["split"][1]["segments"]).encode())
        assert outputs["split"][1]["text"] == " ".join(alone.out.split("\n")).strip()
        assert invoke("translate", raw, given=self.GIVEN).out.split("\n")[1] == outputs["split"][1]["text"]

    def test_the_config_may_choose(self, invoke: Invoke, raw: Path) -> None:
        by_config = ["--set", "search.lengths.long_inputs=truncate", "--json"]
        for other in ([], ["--greedy"], ["--beam", "3"]):
            first = json.loads(invoke("translate", raw, *by_config, *other, given=self.GIVEN).out.split("\n")[1])
            assert len(first["segments"]) == 1
        limit = "--set=search.lengths.max_source_length=5"
        done = invoke("translate", raw, limit, "Das Haus ist neu, und sie ist alt.")
        assert warnings(done, "`search.lengths.max_source_length` allows 5; translated in 2 parts")

    def test_n_best_and_attention(self, invoke: Invoke, raw: Path, tmp_path: Path) -> None:
        done = invoke("translate", raw, "--n-best", 2, given=self.GIVEN)
        assert [row.split("\t")[0] for row in done.out.splitlines()] == [*"1122", "3", *"44"]
        invoke("translate", raw, "--attention", "all.html", given=self.GIVEN)
        page = (tmp_path / "all.html").read_text(encoding="utf-8")
        keys = page_data(page)["sentences"][1]["maps"][0]["keys"]
        assert keys["tokens"].count("</s>") == 9 and keys["tokens"][-1] == "</s>"
        assert invoke("translate", raw, "--attention", "-", given=self.GIVEN.split(b"\n", 1)[1]).out

    @pytest.mark.parametrize("how", ["split", "truncate"])
    def test_any_bytes_give_as_many_lines(self, invoke: Invoke, raw: Path, how: str) -> None:
        draw = random.Random(how)
        characters = [*(bytes([code]) for code in b"aA., \xff\x00\x1b\r"), "。\u2028\u0301".encode()]
        content = b"\n".join(b"".join(draw.choices(characters, k=draw.choice([0, 1, 9, 200]))) for _ in range(40))
        done = invoke("translate", raw, "--long-inputs", how, "--greedy", given=content + b"\n")
        assert done.out.count("\n") == 40
        assert all(line.isprintable() for line in done.err.split("\n"))


class TestEvaluate:
    def test_warnings_about_test_sets(self, invoke: Invoke, raw: Path, tmp_path: Path) -> None:
        run = Path(shutil.copytree(raw, tmp_path / "run"))
        done = invoke("evaluate", run, "--greedy", "--json")
        assert warnings(done, "known: 10 of its 20 pairs (50.0%) are training pairs")
        report = json.loads(done.out)
        stored = json.loads((run / "evaluation" / "known.json").read_text(encoding="utf-8"))
        assert stored["warnings"] == report["sets"]["known"]["warnings"]
        assert any("training pairs" in line for line in report["sets"]["known"]["warnings"])
        shutil.rmtree(run / "data")
        assert not warnings(invoke("evaluate", run, "--greedy"), "training pairs")

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ((str, tokenize), "the target is tokenized differently"),
            ((str.lower, str), "the source is cased differently"),
        ],
    )
    def test_files_in_another_style(
        self, invoke: Invoke, raw: Path, tmp_path: Path, change: tuple[Change, Change], expected: str
    ) -> None:
        run = Path(shutil.copytree(raw, tmp_path / "run"))
        for name, side, apply in zip(("source", "reference"), ("de", "en"), change, strict=True):
            write_lines(tmp_path / name, [apply(line) for line in lines(f"train.{side}", 700, 760)])
        done = invoke("evaluate", run, "--greedy", "--source", "source", "--reference", "reference")
        assert len(warnings(done, f"warning: source: {expected}")) == 1
        assert done.out.startswith("system  BLEU")

    def test_long_lines(self, invoke: Invoke, raw: Path, tmp_path: Path) -> None:
        run = Path(shutil.copytree(raw, tmp_path / "run"))
        write_lines(tmp_path / "s", [TestLong.TEXT, "Hallo."])
        write_lines(tmp_path / "r", ["It is long.", "Hello."])
        done = invoke("evaluate", run, "--source", "s", "--reference", "r", "--long-inputs", "truncate")
        assert warnings(done, "warning: s: line 1: ", "only the first 30 are translated")
        assert (run / "evaluation" / "s.txt").read_text(encoding="utf-8").count("\n") == 2

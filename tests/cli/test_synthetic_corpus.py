"""`seq2attn distill` and `back-translate`: text in, a filtered corpus out, the same after any interruption."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from seq2attn.data.prepared_data import load_prepared
from seq2attn.inference import synthetic_corpus
from seq2attn.inference.engines.native import NativeEngine
from tests.support import untrained_runs as small
from tests.support.commands import Invoke, Toy, write_lines
from tests.support.synthetic_corpora import DISTILL, contents, random_lines, report, small_run
from tests.support.synthetic_corpora import lines as lines
from tests.support.synthetic_corpora import small_chunks as small_chunks


def read(folder: Path, side: str = "source") -> list[tuple[str, str, float]]:
    """The text that was translated, the translations, and their scores."""
    names = ("source.txt", "target.txt") if side == "source" else ("target.txt", "source.txt")
    columns = [(folder / name).read_text(encoding="utf-8").split("\n") for name in (*names, "scores.txt")]
    assert {column.pop() for column in columns} == {""}
    return [(line, translation, float(score)) for line, translation, score in zip(*columns, strict=True)]


@pytest.mark.parametrize(
    "option", ["lengths.max_source_length=12", pytest.param("kind=greedy", marks=pytest.mark.slow)]
)
def test_the_corpus_has_the_translations_of_translate(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], option: str
) -> None:
    search = ("--set", f"search.{option}")
    done = invoke("distill", toy.run, *DISTILL, *search)
    translated = invoke("translate", toy.run, "-i", "lines", "--json", *search).out.splitlines()
    records = [json.loads(line) for line in translated]
    expected = [
        (line, one["text"], one["log_prob"] / (len(one["tokens"]) + len(one.get("segments", "1"))))
        for line, one in zip(lines, records, strict=True)
        if one["text"] and not one.get("truncated") and len(line) < 1000
    ]
    pairs = read(tmp_path / "out")
    assert [pair[:2] for pair in pairs] == [(line.removesuffix("\r"), text) for line, text, _ in expected]
    assert [pair[2] for pair in pairs] == pytest.approx([score for *_, score in expected], abs=1e-4)
    assert any("segments" in one and not one.get("truncated") for one in records) == ("length" in option)
    counts = report(tmp_path / "out")
    assert counts["num_read"] == len(lines) and counts["num_kept"] == len(pairs)
    num_empty = sum(not one["text"] for one in records)  # blank lines, and translations without a token
    assert counts["empty"] == num_empty >= 2 and sum(counts.values()) == 2 * len(lines)
    assert f"out: kept {len(pairs)} of {len(lines)} pairs; left out: {num_empty} empty" in done.err and done.out == ""


def test_filters_of_one_set_of_translations(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A higher minimum leaves out more, and nothing but what is below it. Nothing is translated again."""
    invoke("distill", toy.run, *DISTILL)
    everything, before = read(tmp_path / "out"), contents(tmp_path / "out")
    truncated = ("distill", toy.run, "--source", "lines", "-o", "all-truncated", "--set", "search.lengths.max_length=1")
    error = invoke(*truncated, code=2)
    assert "lines: no pair is left: kept 0 of 28 pairs" in error.err and error.err.endswith("; see `data.filters`\n")
    monkeypatch.setattr(synthetic_corpus.Translator, "translate_iterable", None)
    scores = sorted({score for *_, score in everything})
    assert len(scores) > 5
    for minimum in (scores[0], scores[2], scores[len(scores) // 2], scores[-1]):
        invoke("distill", toy.run, *DISTILL, "--min-log-prob", minimum)
        kept = [pair for pair in everything if pair[2] >= minimum]
        assert read(tmp_path / "out") == kept
        counts = report(tmp_path / "out")
        assert counts["num_kept"] == len(kept) and counts["unlikely"] >= len(everything) - len(kept)
        assert sum(counts.values()) == 2 * len(lines)
    invoke("distill", toy.run, *DISTILL, "--set", "data.filters.drop_duplicates=true")
    assert [pair[:2] for pair in read(tmp_path / "out")] == list(dict.fromkeys(pair[:2] for pair in everything))
    assert report(tmp_path / "out")["duplicate"] == 4
    invoke("distill", toy.run, *DISTILL, "--set", "data.filters.max_length=10")
    assert 0 < report(tmp_path / "out")["too_long"] < len(everything)
    error = invoke("distill", toy.run, *DISTILL, "--set", "data.filters.max_length=10", "--min-log-prob", "0", code=2)
    assert "lines: no pair is left: kept 0 of 28 pairs; left out: " in error.err and " unlikely" in error.err
    assert error.err.endswith("; see --min-log-prob and `data.filters`\n")
    invoke("distill", toy.run, *DISTILL)
    assert contents(tmp_path / "out") == before


def test_filters_leave_the_translations_as_they_are(invoke: Invoke, tmp_path: Path) -> None:
    """Also where they are shorter than a source: it is left out, not translated in parts."""
    run = small_run(tmp_path)
    write_lines(tmp_path / "lines", random_lines(40))
    sample = ("distill", run.folder, "--source", "lines", "--set", "search.kind=sample")
    invoke(*sample, "-o", "all")
    done = invoke(*sample, "-o", "short", "--set", "data.filters.max_length=9")
    assert "translated in parts" not in done.err and report(tmp_path / "short")["too_long"] > 0
    files = [sorted((tmp_path / name / "translations").iterdir()) for name in ("all", "short")]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]


def test_preparation_applies_the_same_filters(invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str]) -> None:
    filters = ("--set", "data.filters={max_length: 12, max_length_ratio: 1.2, drop_duplicates: true}")
    invoke("back-translate", toy.run, "--target", "lines", "-o", "all", "--set", "data.filters.max_length=9999")
    invoke("back-translate", toy.run, "--target", "lines", "-o", "some", *filters)
    config = "data: {{train: {{kind: plain, source: {0}/source.txt, target: {0}/target.txt}}}}\nrun_dir: prepared\n"
    (tmp_path / "mine.yaml").write_text(f"extends: {toy.config}\n" + config.format(tmp_path / "all"), encoding="utf-8")
    invoke("prepare", "mine.yaml", "--set", f"tokenizer={{run_dir: {swap_sides(toy, tmp_path)}}}", *filters)
    (part,) = load_prepared(tmp_path / "prepared").train.parts
    prepared, counts = asdict(part.report), report(tmp_path / "some")
    for name in ("num_kept", "too_long", "unbalanced", "duplicate"):
        assert prepared[name] == counts[name] > 0
    assert counts["num_kept"] == len(read(tmp_path / "some", "target"))


def swap_sides(toy: Toy, folder: Path) -> Path:
    """The run of the opposite direction, as far as tokenizers go."""
    run = Path(shutil.copytree(toy.run, folder / "swapped"))
    (run / "source").rename(run / "other")
    (run / "target").rename(run / "source")
    (run / "other").rename(run / "target")
    return run


@pytest.mark.parametrize(
    "kind",
    ["bpe, vocab_size: 300", *(pytest.param(x, marks=pytest.mark.slow) for x in ("unigram, vocab_size: 320", "words"))],
)
def test_each_back_translation_has_one_tag(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], kind: str
) -> None:
    done = invoke("back-translate", toy.run, "--target", "lines", "-o", "out", "--set", "search.kind=sample")
    pairs = read(tmp_path / "out", "target")
    counts = report(tmp_path / "out")
    assert len(pairs) == counts["num_kept"] > 9 and {line for line, *_ in pairs} < {*lines, "boot"}
    entry = done.err.splitlines()[-1].removeprefix("in `data.train`: ")
    config = f"""\
extends: {toy.config}
run_dir: prepared
data:
  train: [{{kind: plain, source: {toy.folder}/text/train.en, target: {toy.folder}/text/train.de}}, {entry}]
tokenizer: {{joint: {{kind: {kind}}}}}
"""
    (tmp_path / "mine.yaml").write_text(config, encoding="utf-8")
    invoke("prepare", "mine.yaml")
    data = load_prepared(tmp_path / "prepared")
    tag = data.source.vocabulary.id("<BT>")
    original, synthetic = (part.report.num_kept for part in data.train.parts)
    assert synthetic == len(pairs)
    for row in range(original + synthetic):
        source, target = (ids.tolist() for ids in data.train.corpus[row])
        assert source.count(tag) == (row >= original) and tag not in target
        assert row < original or source[0] == tag


@pytest.mark.slow
def test_options_reach_the_translation(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = small_run(tmp_path).folder, small_run(tmp_path / "other", small.TRANSFORMER_CONFIG).folder
    write_lines(tmp_path / "lines", random_lines(30))
    budgets, translate, scores = list[int](), NativeEngine.translate, list[bytes]()

    def record(self: NativeEngine, *arguments: Any, budget: int, **options: Any) -> Any:
        budgets.append(budget)
        return translate(self, *arguments, budget=budget, **options)

    monkeypatch.setattr(NativeEngine, "translate", record)
    search = ("--set", "search.lengths.min_length=2")
    batches = ("--batch-tokens", "77", "--precision", "bfloat16")
    cases = ((), ("--tag", "2en"), ("--ensemble", other), batches, ("--beam", "2"))
    for number, options in enumerate(cases):
        done = invoke("distill", run, "--source", "lines", "-o", f"out-{number}", *search, *options)
        entry = json.loads(done.err.splitlines()[-1].removeprefix("in `data.train`: "))
        assert entry.get("tag") == ("2en" if "--tag" in options else None)
        translated = invoke("translate", run, "-i", "lines", *search, *options).out.splitlines()
        if "--precision" not in options:  # whose results depend on the batches
            kept = [text for text in translated if text and "<unk>" not in text]
            assert [text for _, text, _ in read(tmp_path / f"out-{number}")] == kept
        invoke("back-translate", run, "--target", "lines", "-o", f"back-{number}", *search, *options)
        assert read(tmp_path / f"back-{number}", "target") == read(tmp_path / f"out-{number}")
        scores.append((tmp_path / f"out-{number}/scores.txt").read_bytes())
    assert len({*scores}) == len(cases) and budgets.count(77) == 4 + 1 + 4
    error = invoke("back-translate", run, "--target", "lines", "-o", "out-0", *search, code=2).err
    assert "were made with another side;" in error
    for options in cases[1:]:
        error = invoke("distill", run, "--source", "lines", "-o", "out-0", *search, *options, code=2).err
        expected = {"--tag": "tag", "--ensemble": "model", "--batch-tokens": "engine", "--beam": "search"}[options[0]]
        assert f"were made with another {expected};" in error


@pytest.mark.parametrize(("command", "side"), [("distill", "source"), ("back-translate", "target")])
def test_lengths_are_those_in_the_tokens_of_each_side(invoke: Invoke, tmp_path: Path, command: str, side: str) -> None:
    run = small_run(tmp_path)
    source, target = run.load_tokenizers()
    write_lines(tmp_path / "lines", random_lines(40))
    arguments = (command, run.folder, f"--{side}", "lines", "-o", "out", "--set", "search.kind=sample")
    invoke(*arguments)
    everything = read(tmp_path / "out", side)
    invoke(*arguments, "--set", "data.filters.max_length_ratio=3")
    lengths = [sorted((len(source.encode(line)), len(target.encode(text)))) for line, text, _ in everything]
    kept = [pair for pair, (low, high) in zip(everything, lengths, strict=True) if high <= 3 * low]
    assert read(tmp_path / "out", side) == kept != everything
    invoke(*arguments, "--set", "data.filters.max_length=[6, 9999]")  # of the sides of the run
    kept = [pair for pair in everything if len(source.encode(pair[0])) <= 6]
    assert read(tmp_path / "out", side) == kept != everything


def test_a_pair_with_a_part_of_a_line_is_left_out(invoke: Invoke, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    lines, limit = random_lines(40), 9
    write_lines(tmp_path / "lines", lines)
    search = ("--set", f"search.lengths.max_source_length={limit}", "--set", "search.kind=sample")
    for long_inputs in ("split", "truncate"):
        options = ("--set", f"search.lengths.long_inputs={long_inputs}")
        invoke("distill", run.folder, "--source", "lines", "-o", long_inputs, *search, *options)
    is_long = [len(line) > limit for line, *_ in read(tmp_path / "split")]
    assert any(is_long) and not all(is_long)
    assert not any(len(line) > limit for line, *_ in read(tmp_path / "truncate"))
    assert report(tmp_path / "truncate")["truncated"] >= sum(len(line) > limit for line in lines)


def test_a_translation_with_unknown_words_is_left_out(invoke: Invoke, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    write_lines(tmp_path / "lines", random_lines(40))
    invoke("distill", run.folder, *DISTILL, "--set", "search.kind=sample")
    files = sorted((tmp_path / "out/translations").iterdir(), key=lambda path: int(path.stem))
    pairs = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    complete = [pair for pair in pairs if not pair["truncated"] and pair["target"]]
    known = [(pair["source"], pair["target"]) for pair in complete if "<unk>" not in pair["target"]]
    assert [pair[:2] for pair in read(tmp_path / "out")] == known != []
    assert report(tmp_path / "out")["unknown"] == len(complete) - len(known) > 0


@pytest.mark.parametrize(("command", "side"), [("distill", "source"), ("back-translate", "target")])
def test_a_run_that_was_trained_to_write_the_text_is_refused(
    invoke: Invoke, toy: Toy, tmp_path: Path, command: str, side: str
) -> None:
    text = toy.folder / "text/train.en"
    error = invoke(command, toy.run, f"--{side}", text, "-o", "out", code=2).err
    assert error == (
        f"error: {text}: by `data.train`, {toy.run} was trained to translate into this text; give a run of the other"
        " direction\n"
    )
    assert not (tmp_path / "out").exists()

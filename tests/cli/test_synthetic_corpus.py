"""`seq2attn distill` and `back-translate`: text in, a filtered corpus out, the same after any interruption."""

import json
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import permutations
from pathlib import Path

import pytest
import torch
from sacrebleu import sentence_chrf

from seq2attn.data.prepare import load_prepared
from seq2attn.inference import synthetic_corpus
from seq2attn.io.lock import lock_directory
from seq2attn.io.weights import unique_state_dict
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.vocabulary import EOS
from tests.cli.conftest import WORDS, Invoke, Toy, write_lines
from tests.forked import Command
from tests.safe import untrained as small

FILES = ("source.txt", "target.txt", "scores.txt", "report.json")
DISTILL = ("--source", "lines", "-o", "out")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_corpus, "CHUNK", 9)


@pytest.fixture
def lines(toy: Toy, tmp_path: Path) -> list[str]:
    """Text of 28 lines with empty ones, duplicates, a long one, and one of unknown words."""
    mixed = (toy.folder / "text/mixed.de").read_text(encoding="utf-8").splitlines()[:18]
    lines = [*mixed, "", *mixed[:4], "  ", "haus " * 60, "Zug\x85Wald\u2028", " rot  haus", "boot\r"]
    write_lines(tmp_path / "lines", lines)
    return lines


def read(folder: Path, side: str = "source") -> list[tuple[str, str, float]]:
    """The text that was translated, the translations, and their scores."""
    names = ("source.txt", "target.txt") if side == "source" else ("target.txt", "source.txt")
    columns = [(folder / name).read_text(encoding="utf-8").split("\n") for name in (*names, "scores.txt")]
    assert {column.pop() for column in columns} == {""}
    return [(line, translation, float(score)) for line, translation, score in zip(*columns, strict=True)]


def report(folder: Path) -> dict[str, int]:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("options", [(), pytest.param(("--set", "search.kind=greedy"), marks=pytest.mark.slow)])
def test_the_corpus_has_the_translations_of_translate(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], options: tuple[str, ...]
) -> None:
    done = invoke("distill", toy.run, *DISTILL, *options)
    translated = invoke("translate", toy.run, "-i", "lines", "--json", *options).out.splitlines()
    records = [json.loads(line) for line in translated]
    expected = [
        (line, one["text"], one["log_prob"] / (len(one["tokens"]) + len(one.get("segments", "1"))))
        for line, one in zip(lines, records, strict=True)
        if one["text"] and not one.get("truncated")
    ]
    pairs = read(tmp_path / "out")
    assert [pair[:2] for pair in pairs] == [(line.removesuffix("\r"), text) for line, text, _ in expected]
    assert [pair[2] for pair in pairs] == pytest.approx([score for *_, score in expected], abs=1e-4)
    counts = report(tmp_path / "out")
    assert counts["num_read"] == len(lines) and counts["num_kept"] == len(pairs)
    assert counts["empty"] == 2 and sum(counts.values()) == 2 * len(lines)
    assert f"out: kept {len(pairs)} of {len(lines)} pairs; left out: 2 empty" in done.err and done.out == ""


def test_filters_of_one_set_of_translations(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A higher minimum leaves out more, and nothing but what is below it. Nothing is translated again."""
    invoke("distill", toy.run, *DISTILL)
    everything, before = read(tmp_path / "out"), contents(tmp_path / "out")
    monkeypatch.setattr(synthetic_corpus.Translator, "translate_iterable", None)
    scores = sorted({score for *_, score in everything})
    assert len(scores) > 5
    for minimum in (scores[0], scores[2], scores[len(scores) // 2], scores[-1]):
        invoke("distill", toy.run, *DISTILL, "--min-log-prob", minimum)
        kept = [pair for pair in everything if pair[2] >= minimum]
        assert read(tmp_path / "out") == kept
        assert report(tmp_path / "out")["unlikely"] == len(everything) - len(kept)
    invoke("distill", toy.run, *DISTILL, "--set", "data.filters.drop_duplicates=true")
    assert [pair[:2] for pair in read(tmp_path / "out")] == list(dict.fromkeys(pair[:2] for pair in everything))
    assert report(tmp_path / "out")["duplicate"] == 4
    invoke("distill", toy.run, *DISTILL, "--set", "data.filters.max_length=10")
    assert 0 < report(tmp_path / "out")["too_long"] < len(everything)
    error = invoke("distill", toy.run, *DISTILL, "--set", "data.filters.max_length=10", "--min-log-prob", "0", code=2)
    assert "lines: no pair is left: kept 0 of 28 pairs; left out: " in error.err and " unlikely" in error.err
    invoke("distill", toy.run, *DISTILL)
    assert contents(tmp_path / "out") == before


def test_preparation_applies_the_same_filters(invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str]) -> None:
    filters = ("--set", "data.filters={max_length: 12, max_length_ratio: 1.2, drop_duplicates: true}")
    invoke("back-translate", toy.run, "--target", "lines", "-o", "all")
    invoke("back-translate", toy.run, "--target", "lines", "-o", "some", *filters)
    config = "data: {{train: {{kind: plain, source: {0}/source.txt, target: {0}/target.txt}}}}\nrun_dir: prepared\n"
    (tmp_path / "mine.yaml").write_text(f"extends: {toy.config}\n" + config.format(tmp_path / "all"), encoding="utf-8")
    invoke("prepare", "mine.yaml", "--set", f"tokenizer={{run_dir: {swapped(toy, tmp_path)}}}", *filters)
    (part,) = load_prepared(tmp_path / "prepared").train.parts
    prepared, counts = asdict(part.report), report(tmp_path / "some")
    for name in ("num_kept", "too_long", "unbalanced", "duplicate"):
        assert prepared[name] == counts[name] > 0
    assert counts["num_kept"] == len(read(tmp_path / "some", "target"))


def swapped(toy: Toy, folder: Path) -> Path:
    """The run of the opposite direction, as far as tokenizers go."""
    run = Path(shutil.copytree(toy.run, folder / "swapped"))
    (run / "source").rename(run / "other")
    (run / "target").rename(run / "source")
    (run / "other").rename(run / "target")
    return run


@pytest.mark.parametrize(
    "kind",
    ["bpe, vocab_size: 300", *(pytest.param(x, marks=pytest.mark.slow) for x in ("unigram, vocab_size: 270", "words"))],
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


def test_interpolation_takes_the_hypothesis_most_similar_to_the_reference(
    invoke: Invoke, toy: Toy, tmp_path: Path
) -> None:
    lines, rng, references = (
        [" ".join(words) for words in permutations(["haus", "neu", "und", "rot"])],
        random.Random(1),
        [],
    )
    for line in lines:
        words = [WORDS[word] for word in line.split()]
        references.append(" ".join(rng.sample(words, 3)))
    write_lines(tmp_path / "lines", lines)
    write_lines(tmp_path / "references", references)
    beam = ("--beam", "6")
    invoke("distill", toy.run, *DISTILL, *beam, "--reference", "references")
    listed = invoke("translate", toy.run, "-i", "lines", "--json", *beam, "--n-best", "6").out.splitlines()
    pairs, differing = read(tmp_path / "out"), 0
    for pair, line, reference, record in zip(pairs, lines, references, map(json.loads, listed), strict=True):
        hypotheses = [record, *record["alternatives"]]
        chrf = {one["text"]: sentence_chrf(one["text"], [reference]).score for one in hypotheses}
        log_probs = [one["log_prob"] / (len(one["tokens"]) + 1) for one in hypotheses if one["text"] == pair[1]]
        assert pair[0] == line and chrf[pair[1]] == max(chrf.values())
        assert pair[2] == pytest.approx(log_probs[0], abs=1e-4)
        differing += pair[1] != record["text"]
    assert differing
    error = invoke("distill", toy.run, *DISTILL, "--beam", "1", "--reference", "references", code=2).err
    assert "finds 1" in error
    write_lines(tmp_path / "references", references[1:])
    error = invoke("distill", toy.run, *DISTILL, "--reference", "references", code=2).err
    assert "lines has 24 lines and " in error and "references has 23 lines" in error


Change = Callable[[Path], object]
CHANGES: tuple[tuple[tuple[str, ...], Change | None, str], ...] = (
    (("--beam", "3"), None, "another search; give another --output"),
    (("--precision", "bfloat16"), None, "another engine;"),
    (("--reference", "lines"), None, "another reference;"),
    (("--tag", "2en"), None, "does not know the tag `2en`"),
    ((), lambda home: write_lines(home / "lines", ["alt"]), "another text;"),
    ((), lambda home: (home / "lines").write_bytes(b"a\n\xff\n"), "lines:2: byte 1 of the line (0xff) is not UTF-8"),
    ((), lambda home: (home / "lines").write_bytes(b""), "lines: is empty"),
    ((), lambda home: (home / "lines").unlink(), "lines: there is no such file"),
    ((), lambda home: (home / "out/settings.json").unlink(), "has other files, and no settings.json;"),
    ((), lambda home: (home / "out/settings.json").write_text("{"), "settings.json: is not JSON"),
    ((), lambda home: (home / "out/translations/9.jsonl").write_text("{}\n"), "9.jsonl:1: is not a pair"),
    ((), lambda home: change_weights(home / "run"), "another model;"),
)


def change_weights(folder: Path) -> None:
    run = RunDirectory(folder)
    model, source, target = run.load_model()
    with torch.no_grad():
        next(iter(model.parameters())).add_(1e-6)
    run.save_model(unique_state_dict(model), (source.vocabulary, target.vocabulary), {"checkpoints": []})


def test_other_settings_with_the_same_folder_are_refused(
    invoke: Invoke, run_copy: Path, tmp_path: Path, lines: list[str]
) -> None:
    invoke("distill", run_copy, *DISTILL)
    before, text = contents(tmp_path / "out"), (tmp_path / "lines").read_bytes()
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    for options, change, message in CHANGES:
        if change is not None:
            change(tmp_path)
        done = invoke("distill", run_copy, *DISTILL, *options, code=2)
        assert message in done.err and done.err.count("\n") == 1 and done.out == ""
        assert contents(tmp_path / "out") == before
        shutil.rmtree(tmp_path / "out")
        shutil.copytree(tmp_path / "copy", tmp_path / "out")
        (tmp_path / "lines").write_bytes(text)


def test_a_corpus_with_source_txt_is_complete(
    invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted while the last files are replaced: there is no source.txt, or all files are of one corpus."""
    replace, likely, calls = Path.replace, ("--min-log-prob", "-0.1"), list[Path]()
    invoke("distill", toy.run, *DISTILL, *likely)
    whole = contents(tmp_path / "out")
    for last in range(1, 6):

        def interrupt(self: Path, to: Path, last: int = last) -> Path:
            calls.append(to)
            if len(calls) == last:
                raise KeyboardInterrupt
            return replace(self, to)

        invoke("distill", toy.run, *DISTILL)
        assert contents(tmp_path / "out") != whole
        calls.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", interrupt)
            invoke("distill", toy.run, *DISTILL, *likely, code=130 if last <= 4 else 0)
        assert (tmp_path / "out/source.txt").exists() == (last == 5)
        assert not list(tmp_path.rglob("*.partial"))
    assert [path.name for path in calls] == ["report.json", "scores.txt", "target.txt", "source.txt"]
    assert contents(tmp_path / "out") == whole


@pytest.mark.parametrize("num_kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_at_any_time_equals_uninterrupted(tmp_path: Path, num_kills: int) -> None:
    run = small.untrained(tmp_path)
    model, *tokenizers = run.load_model()
    with torch.no_grad():
        model.output_projection.bias[EOS] += 2
    run.save_model(unique_state_dict(model), (tokenizers[0].vocabulary, tokenizers[1].vocabulary), {"checkpoints": []})
    rng = random.Random(1)
    write_lines(
        tmp_path / "lines", [" ".join(rng.choices(small.WORDS, k=rng.randint(0, 3))) for _ in range(4096 * 2 + 9)]
    )

    def start(out: str) -> Command:
        arguments = ("back-translate", run.folder, "--target", tmp_path / "lines", "-o", tmp_path / out)
        return Command(*arguments, "--set", "search.kind=sample", "--min-log-prob", "-2.3", log=tmp_path / f"{out}.log")

    assert start("whole").wait() == 0
    whole, parts, kills = contents(tmp_path / "whole"), tmp_path / "parts", 0
    counts = report(tmp_path / "whole")
    assert min(counts["unlikely"], counts["num_kept"]) > 500
    while kills < num_kills:
        running = start("parts")
        if kills % 2:
            running.until(lambda: any(parts.rglob("*.partial")))
        time.sleep(rng.random() * (0.5, 0.003)[kills % 2])
        running.send(signal.SIGKILL)
        if running.wait() == 0:
            shutil.rmtree(parts)
        kills += 1
        if (parts / "source.txt").exists():
            assert contents(parts) == whole
    assert start("parts").wait() == 0
    assert contents(parts) == whole and not list(parts.rglob("*.partial"))


def test_a_second_process_is_refused(invoke: Invoke, toy: Toy, tmp_path: Path, lines: list[str]) -> None:
    with lock_directory(tmp_path / "out"):
        done = invoke("distill", toy.run, *DISTILL, code=2)
    assert "is at work in it" in done.err and not (tmp_path / "out/settings.json").exists()

"""The benchmark: its batches, intervals, commands and processes, its tables, and its text."""

import collections
import itertools
import json
import os
import re
import sys
import time
from itertools import chain
from pathlib import Path

import psutil
import pytest
import torch
from benchmark import command, process, searching, systems
from benchmark.prepare import prepare_all
from benchmark.process import Process, wait_until_idle
from benchmark.programs import batches, plain
from benchmark.records import Book, Record, ratio
from benchmark.setting import MODELS, TRANSFORMERS, Setting, UnavailableError
from benchmark.systems import Progress
from benchmark.tables import FIGURES, PAGE, comparison, fill, table
from benchmark.text import num_target_tokens, prepare_text
from benchmark.training import Timing, sum_intervals

from seq2attn.data.prepared_data import load_prepared
from seq2attn.tokenizers.subwords import BPETokenizerConfig, SubwordTokenizer
from tests.support.benchmarks import setting

ROOT = Path(__file__).resolve().parents[3]


def test_batches_have_every_pair_once_within_the_budget():
    sizes = torch.randint(1, 12, (200, 2), generator=torch.Generator().manual_seed(0)).tolist()
    pairs = [([number] * s, [number] * t) for number, (s, t) in enumerate(sizes, 4)]
    output = batches.make_batches(pairs, 60, seed=3)
    assert sorted(pair for batch in output for pair in batch) == sorted(pairs)
    assert all(len(batch) * (1 + max(len(side) for pair in batch for side in pair)) <= 60 for batch in output)
    assert output != batches.make_batches(pairs, 60, seed=4)


def test_disturbed_intervals_do_not_count():
    points = [(at, Progress(update, tokens)) for at, update, tokens in ((10, 2, 100), (12, 4, 300), (15, 6, 360))]
    whole = sum_intervals(points, lambda start, end: True)
    assert (whole.num_tokens, whole.updates, whole.seconds, whole.disturbed) == (260, 4, 5, 0)
    assert whole.rate == 52
    part = sum_intervals(points, lambda start, end: start != 12)
    assert (part.num_tokens, part.updates, part.seconds, part.disturbed) == (200, 2, 2, 3)


CPUTimes = collections.namedtuple("CPUTimes", ("user", "idle"))


def test_a_disturbed_translation_is_no_figure(setting, tmp_path, monkeypatch):
    translating = systems.Translating(["sleep", "0.3"], tmp_path / "out")
    translator = searching.Translator(systems.Ours(setting), translating, translating, 1)
    used = itertools.count(0, 10)  # seconds of other processes
    monkeypatch.setattr(psutil, "cpu_times", lambda: CPUTimes(next(used), 0.0))
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 0.0)
    monkeypatch.setattr(process, "SAMPLE", 0.05)
    with pytest.raises(searching.FailedError, match="disturbed by other processes in 4 runs"):
        translator.measure(Timing(1, 1.0, 1.0, busy_ok=False), setting)
    translator.measure(Timing(1, 1.0, 1.0, busy_ok=True), setting)
    assert len(translator.wholes) == 1


def test_a_busy_machine_is_named(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 100.0)
    with pytest.raises(UnavailableError, match="the CPUs were busy for 0 s"):
        wait_until_idle(limit=0.0)


class FailingSystem(systems.System):
    def fitted(self, model):
        return Path("nowhere")

    def fit(self, model):
        return [sys.executable, "-c", f"raise SystemExit({model})"]


@pytest.mark.parametrize("status", ["0", "3"])
def test_a_training_that_fails_is_no_success(setting, status):
    call = command.Call(setting, (FailingSystem(setting),), systems.Ours(setting), ("0", status), (), Timing())
    assert command.fit(call) == (status == "0")


OURS = "2026-11-21 20:41:00 epoch 0.66  update 4  loss 6.214  ppl 415.92  7,940 target tokens/s"


def test_progress_in_all_logs(tmp_path):
    assert systems.loop_progress("PROGRESS 4 14000 8.123") == Progress(4, 14000)
    assert systems.loop_progress("PROGRESS 20 14000 8.123 gpu 900") == Progress(20, 14000, 900)
    assert systems.loop_progress("parameters 14000") is None
    metrics = tmp_path / "metrics.jsonl"
    entries = [{"kind": "train", "update": n, "target_tokens": 950.0 * n} for n in (2, 4, 6)]
    metrics.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    assert systems.run_progress(OURS, metrics) == Progress(4, num_tokens=3800)
    metrics.write_text(json.dumps({**entries[1], "gpu_memory_mib": 700}) + "\n", "utf-8")
    assert systems.run_progress(OURS, metrics) == Progress(4, num_tokens=3800, gpu_memory_mib=700)
    assert systems.run_progress("train: kept 9,000 of 9,000 pairs", metrics) is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("model", MODELS)
def test_plain_models_ignore_padding(model):
    torch.manual_seed(0)
    net = plain.build_model(model).eval()
    source, target = [[5, 9, 4], [7, 700, 7000, 77, 4]], [[1, 8, 9], [1, 8, 10]]
    with torch.no_grad():
        both = net(batches.pad(source), batches.pad(target))
        alone = net(batches.pad(source[:1]), batches.pad(target[:1]))
    assert both.shape == (2, 3, 8000)
    assert both.std() > 0.01
    torch.testing.assert_close(both[:1], alone, rtol=1e-4, atol=1e-5)
    if model in TRANSFORMERS:  # all tensors are on one device
        ids = batches.pad(source).to("meta")
        assert net.train().to("meta")(ids, ids[:, :3]).shape == (2, 3, 8000)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("name", ["ours", *systems.PEERS, *systems.ENGINES])
def test_commands_of_all_systems(name, gpu, tmp_path):
    system = {"ours": systems.Ours, **systems.PEERS, **systems.ENGINES}[name](Setting(tmp_path, tmp_path, gpu=gpu))
    for model in (*MODELS, "transformer-base"):
        commands = system.translations(model, 5, tmp_path / "few.de", tmp_path / "few.txt")
        trainings = system.trainings(model)
        assert bool(trainings) == (name in ("ours", "plain") or (name == "hf" and model in TRANSFORMERS))
        assert len({one.output for one in commands}) == len(commands)
        assert ["--precision" in one.command for one in commands] == (
            ([False, True] if gpu and name == "ours" else [False])
            if name not in systems.PEERS and (model in TRANSFORMERS or "ctranslate2" not in name)
            else []
        )
        for line in [one.command for one in (*commands, *trainings)] + [system.fit(model)]:
            assert all(isinstance(part, str) for part in line)


def test_a_process_is_paused_with_its_children(tmp_path):
    process = Process(["sh", "-c", "sleep 999 & echo 1; wait"], tmp_path / "log", os.environ)
    try:
        while not process.lines:
            assert not process.has_ended
        leader = psutil.Process(process.popen.pid)
        tree = [leader, *leader.children(recursive=True)]
        assert len(tree) == 2
        process.pause()
        assert {_wait_for_status(part, psutil.STATUS_STOPPED) for part in tree} == {psutil.STATUS_STOPPED}
        process.resume()
        assert _wait_for_status(leader, psutil.STATUS_SLEEPING) == psutil.STATUS_SLEEPING
        while not process.peak:
            assert not process.has_ended
    finally:
        process.end()
    assert process.has_ended
    assert [line.text for line in process.lines] == ["1"]


def _wait_for_status(process, status):
    for _ in range(1000):
        if process.status() == status:
            break
        time.sleep(0.01)
    return process.status()


def record(system, rounds, **more):
    kind = more.pop("kind", "train")
    return Record(kind, "t", "", system, system.upper(), unit="target tokens/s", rounds=rounds, **more)


CONTEXT = {
    "date": "2026-01-02", "command": "python scripts/bench.py train", "commit": "abc", "processor": "P", "cores": 2,
    "threads": 2, "python": "3.11", "versions": {"ours": {"torch": "2.13.0"}, "hf": {"transformers": "5"}},
}  # fmt: skip


def test_the_ratio_is_the_median_of_the_rounds():
    one, other = record("ours", (30.0, 20.0, 90.0)), record("hf", (10.0, 20.0, 40.0))
    assert ratio(one, other, more_is_better=True) == 2.25  # that of the medians would be 1.5
    assert ratio(one, other, more_is_better=False) == pytest.approx(1 / 2.25)
    assert ratio(one, record("eole", ()), more_is_better=True) is None


def test_a_table_is_sorted_with_failures_last():
    rows = comparison(
        [
            record("hf", (1000.0, 1500.0, 1200.0), variant="attention dropout 0", facts={"bleu": 20.5}),
            record("eole", (), error="no update within 240 s: a | b\nmore"),
            record("ours", (3000.0, 3100.0, 2900.0)),
        ],
        more_is_better=True,
    ).split("\n")
    assert rows[0] == "|  | target tokens/s | min-max | ours is | BLEU |"
    assert rows[2] == "| **OURS** | 3,000 | 2,900-3,100 | 1.00x |  |"
    assert rows[3] == "| HF (attention dropout 0) | 1,200 | 1,000-1,500 | 2.42x | 20.50 |"
    assert rows[4] == "| EOLE | not measured: no update within 240 s: a / b |  |  |  |"
    assert len({row.count("|") for row in rows}) == 1


def test_a_call_replaces_whole_groups_in_the_file(tmp_path):
    book = Book().with_call([record("ours", (1.0,)), record("hf", (2.0,))], CONTEXT)
    book = book.with_call([record("ours", (5.0,), kind="search")], {**CONTEXT, "commit": "def"})
    book = book.with_call([record("ours", (3.0,))], {**CONTEXT, "commit": "ghi"})
    book.save(tmp_path / "x.json")
    loaded = Book.load(tmp_path / "x.json")
    assert loaded == book
    assert [r.rounds for r in loaded.group("train", "t")] == [(3.0,)]
    assert "commit ghi" in table(loaded, "train", "t")
    assert "commit def" in table(loaded, "search", "t", "")
    assert table(loaded, "memory", "t") == "Not measured yet."


def test_the_page_has_the_tables_of_the_figures():
    page = PAGE.read_text("utf-8")
    assert fill(page, Book.load(FIGURES)) == page, "python scripts/bench.py page"
    places = "a\n<!-- table train t -->\n<!-- end -->\nb\n<!-- table search r1 greedy -->\nold\n<!-- end -->\n"
    output = fill(places, Book().with_call([record("ours", (1.0,))], CONTEXT))
    assert "Not measured yet." in output
    assert "**OURS**" in output
    assert "old" not in output
    assert output.startswith("a\n")
    assert fill(output, Book().with_call([record("ours", (1.0,))], CONTEXT)) == output


__all__ = ["setting"]


def texts_of(setting):
    return [(setting.corpus / f"train.{language}").read_text("utf-8").split("\n")[:-1] for language in ("de", "en")]


def test_all_systems_have_the_tokens_of_our_tokenizer(setting):
    config = BPETokenizerConfig(vocab_size=400)
    model = prepare_text(setting, config)
    tokenizer = SubwordTokenizer(config, model)
    assert config.train(chain.from_iterable(texts_of(setting))).model == model  # as a training makes it
    for language, lines in zip(("de", "en"), texts_of(setting), strict=True):
        tokenized = (setting.data / f"train.bpe.{language}").read_text("utf-8").split("\n")[:-1]
        tokens = [tokenizer.convert_ids_to_tokens(tokenizer.encode(line)) for line in lines]
        assert [line.split() for line in tokenized] == [list(line) for line in tokens]
    assert num_target_tokens(setting) == sum(len(line) + 1 for line in tokens)
    ids = batches.sentences(setting.data, setting.data / "train.bpe.en")
    assert batches.vocabulary(setting.data) == list(tokenizer.vocabulary.tokens)
    assert ids[:5] == [tokenizer.encode(line) for line in lines[:5]]
    # A second call changes nothing; other files are refused.
    assert prepare_text(setting, config) == model
    (setting.data / "val.bpe.en").write_text("something else\n", "utf-8")
    with pytest.raises(UnavailableError, match=r"val\.bpe\.en has another content"):
        prepare_text(setting, config)
    with pytest.raises(UnavailableError, match=r"train\.de is missing: python scripts/download\.py"):
        prepare_text(Setting(setting.corpus / "none", setting.runs), config)


ODD_LINES = [
    "ein  Wort  mit   Lücken", "  vorn und hinten  ", "\u00a0x\u2003y\u3000z\t.", "a\u0085b\u2028c\x1cd\x0be", "CR\r",
    "ge\u00admu\u0308se\u200b", "e\u0301te\u0301\u0323", "\ufb01ne \uff28\u2581_ \u2581", "\ufeffBOM", "\u1100\u1161",
]  # fmt: skip
"""Double and odd spaces, soft hyphens, combining accents, compatibility characters and unusual line breaks."""


def test_a_text_of_odd_characters_is_prepared_for_all_systems(setting):
    for path in setting.corpus.iterdir():
        path.write_text(path.read_text("utf-8") + "".join(f"{line}\n" for line in ODD_LINES), "utf-8")
    options = "--corpus", setting.corpus, "--runs", setting.runs, "--set", "tokenizer.joint.vocab_size=400"
    system = command._call(command._parser().parse_args(["fit", "--peers=", *map(str, options)]))[0].ours
    prepare_all(system, ("t",), timed=False)  # which compares the numbers of tokens
    prepared = load_prepared(system.run("t"))
    for side, language in enumerate(("de", "en")):
        ours_ids = [list(pair[side]) for pair in prepared.train.corpus]
        assert batches.sentences(setting.data, setting.data / f"train.bpe.{language}") == ours_ids


def test_a_text_that_cannot_be_used_is_an_error(setting, capsys):
    (setting.corpus / "train.en").write_text("one line\n", "utf-8")
    assert command.main(["train", "--peers=", "--corpus", str(setting.corpus), "--runs", str(setting.runs)]) == 2
    assert re.fullmatch(r"bench: .*train\.en has 1 line: .*\n", capsys.readouterr().err)

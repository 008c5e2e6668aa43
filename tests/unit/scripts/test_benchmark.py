"""Text, FLOPs, progress, commands and processes of the benchmarks."""

import collections
import itertools
import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from benchmark import command, process, searching
from benchmark.flops import BACKWARD, flops_per_token
from benchmark.process import Process, wait_until_idle
from benchmark.programs import batches, ctranslate2, marian, plain
from benchmark.setting import MODELS, TRANSFORMERS, Setting, UnavailableError
from benchmark.systems import PEERS, base, libraries, opennmt, others, ours
from benchmark.systems.base import Progress
from benchmark.text import Lengths
from benchmark.training import Timing, sum_intervals
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from seq2attn.config.load import load
from seq2attn.data.collate import collate_source
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.io.weights import save_tensors, unique_state_dict
from seq2attn.models import build_model
from seq2attn.models.build import assumed_vocab_sizes, build_on_meta_device
from seq2attn.search.search_config import GreedyConfig, LengthsConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.tokenizers.vocabulary import BOS
from tests.unit.phrases import write_phrases

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_phrases(corpus, {"train": 300, "val": 60, "test_2016_flickr": 120})
    return Setting(tmp_path / "peers", corpus, tmp_path / "runs", threads=1)


def test_batches_have_every_pair_once_within_the_budget():
    sizes = torch.randint(1, 12, (200, 2), generator=torch.Generator().manual_seed(0)).tolist()
    pairs = [([number] * s, [number] * t) for number, (s, t) in enumerate(sizes, 4)]
    output = batches.make_batches(pairs, 60, seed=3)
    assert sorted(pair for batch in output for pair in batch) == sorted(pairs)
    assert all(len(batch) * (1 + max(len(side) for pair in batch for side in pair)) <= 60 for batch in output)
    assert output != batches.make_batches(pairs, 60, seed=4)


@pytest.mark.parametrize("model", ["t", "r1", "r2"])
def test_flops_equal_the_count_of_pytorch(model):
    s, t = 13, 9
    config = load(ROOT / f"configs/bench/{model}.yaml", ExperimentConfig)
    net = build_on_meta_device(config.model, *assumed_vocab_sizes(config.tokenizer))
    forward = flops_per_token(net, Lengths((s,), (t,))) * t / (1 + BACKWARD)
    source, target = torch.ones(1, s, dtype=torch.long), torch.ones(1, t, dtype=torch.long)
    torch.backends.mha.set_fastpath_enabled(False)  # its products are not counted
    try:
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            if model == "t":
                plain.Transformer().eval()(source, target)
            else:
                net = net.to_empty(device="cpu").eval()
                net.output_projection(net(source, source.bool(), target).hidden)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    # The initial states of recurrent models are not in the formula.
    assert forward == pytest.approx(counter.get_total_flops(), rel=1e-9 if model == "t" else 0.02)


def reports(name, figures):
    return [(at, Progress(update, **{name: figure})) for at, update, figure in figures]


def test_disturbed_intervals_do_not_count():
    points = reports("num_tokens", [(10, 2, 100), (12, 4, 300), (15, 6, 360)])
    whole = sum_intervals(points, lambda start, end: True)
    assert (whole.num_tokens, whole.updates, whole.seconds, whole.disturbed) == (260, 4, 5, 0)
    assert whole.rate == 52
    part = sum_intervals(points, lambda start, end: start != 12)
    assert (part.num_tokens, part.updates, part.seconds, part.disturbed) == (200, 2, 2, 3)
    rates = reports("tokens_per_second", [(10, 2, 7.0), (12, 4, 50.0), (15, 6, 20.0)])
    assert sum_intervals(rates, lambda start, end: True).num_tokens == 2 * 50 + 3 * 20


CPUTimes = collections.namedtuple("CPUTimes", ("user", "idle"))


def test_a_disturbed_translation_is_no_figure(setting, tmp_path, monkeypatch):
    translating = base.Translating(["sleep", "0.3"], tmp_path / "out", pieces=False)
    translator = searching.Translator(ours.Ours(setting), translating, translating, 1)
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


def test_peers_with_options_for_a_cpu_are_not_in_tables_of_a_gpu(tmp_path):
    options = ["train", "--peers-root", str(tmp_path), "--peers", "onmt,eole,joeynmt,fairseq,hf"]
    for more, absent in (([], "not installed"), (["--gpu"], "measured on a CPU only")):
        found = command._call(command._parser().parse_args([*options, *more]))[1]
        assert sum(absent in line for line in found) == (4 if more else 5)


class FailingSystem(base.System):
    def fitted(self, model):
        return Path("nowhere")

    def fit(self, model):
        return [sys.executable, "-c", f"raise SystemExit({model})"]


@pytest.mark.parametrize("status", ["0", "3"])
def test_a_training_that_fails_is_no_success(setting, status):
    call = command.Call(setting, (FailingSystem(setting),), ours.Ours(setting), ("0", status), (), Timing())
    assert command.fit(call) == (status == "0")


ONMT = """\
[2026-11-21 20:24:48,449 INFO] Step 84/  600; acc: 15.6; ppl: 537.2; xent: 6.3; lr: 0.00066; sents:     128; \
bsz:  972/ 912/64; 409/384 tok/s;    119 sec;"""
JOEY = """\
2026-11-21 10:00:00 - INFO - joeynmt.training - Epoch   1, Step:       12, Batch Loss:     5.1, \
Tokens per Sec:      747, Lr: 0.0001"""
FAIRSEQ = """\
epoch 001:     {} / 140 loss=11.5, nll_loss=11.4, ppl=2700, wps=1756.1, ups=0.53, wpb={}, bsz=217, \
num_updates={}, lr=1e-05"""
OURS = "2026-11-21 20:41:00 epoch 0.66  update 4  loss 6.214  ppl 415.92  7,940 target tokens/s"


def test_progress_in_the_logs_of_all_toolkits(tmp_path):
    assert opennmt.progress_of(ONMT) == Progress(84, tokens_per_second=384)
    assert opennmt.progress_of("[2026-11-21 INFO] Starting training on CPU") is None
    assert others.joey_progress(JOEY) == Progress(12, tokens_per_second=747)
    fairseq = others.FairseqProgress()
    assert fairseq(FAIRSEQ.format(2, 3300, 2)) == Progress(2, num_tokens=6600)
    assert fairseq(FAIRSEQ.format(6, 3000, 6)) == Progress(6, num_tokens=18600)
    assert libraries.progress_of("PROGRESS 4 14000 8.123") == Progress(4, num_tokens=14000)
    assert libraries.progress_of("PROGRESS 20 14000 8.123 gpu 900") == Progress(
        20, num_tokens=14000, gpu_memory_mib=900
    )
    metrics = tmp_path / "metrics.jsonl"
    entries = [{"kind": "train", "update": n, "target_tokens": 950.0 * n} for n in (2, 4, 6)]
    metrics.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
    assert ours.progress_of(OURS, metrics) == Progress(4, num_tokens=3800)
    metrics.write_text(json.dumps({**entries[1], "gpu_memory_mib": 700}) + "\n", "utf-8")
    assert ours.progress_of(OURS, metrics) == Progress(4, num_tokens=3800, gpu_memory_mib=700)
    assert ours.progress_of("train: kept 9,000 of 9,000 pairs", metrics) is None


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
@pytest.mark.parametrize("one_by_one", [False, True])
def test_translation_commands_of_libraries(gpu, one_by_one, tmp_path):
    setting = Setting(tmp_path, tmp_path, tmp_path, gpu=gpu)
    job = base.Job("transformer-base", 5, "few", tmp_path / "few.txt", one_by_one)
    parsed = [
        program.argument_parser().parse_args(translating.command[3:])
        for program, system in ((marian, libraries.HuggingFace), (ctranslate2, libraries.CTranslate2))
        for translating in system(setting).translations(job)
    ]
    marian_types = ["float32", "bfloat16"] if gpu else ["float32"]
    assert [options.type for options in parsed] == [*marian_types, "float32", "float16" if gpu else "int8"]
    assert {options.batch for options in parsed} == {1 if one_by_one else 512 if gpu else 64}
    assert parsed[-1].device == ("cuda" if gpu else "cpu")
    assert len({options.output for options in parsed[:-2]}) == len(parsed[:-2])
    commands = [one.command for one in ours.Ours(setting).translations(job)]
    assert ["--precision" in command for command in commands] == ([False, True] if gpu and not one_by_one else [False])


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("model", MODELS)
def test_training_commands_of_peers(name, model, tmp_path):
    peer = PEERS[name](Setting(tmp_path, tmp_path, tmp_path))
    if name == "fairseq":
        common, specific = peer.options(model, tokens=4096, updates=7)
        assert "--max-tokens 4096 --max-update 7" in common
        assert (specific is None) == (model == "r1")
        return
    for training in peer.trainings(model):
        assert all(isinstance(part, str) for part in training.command)
        assert "$" not in " ".join(training.command)
    if (base.OPTIONS / f"{name}.yaml").is_file():
        text = peer.config(model, tmp_path / "save", tokens=4096, updates=7).read_text("utf-8")
        assert "4096" in text
        assert "$" not in text


def test_marian_with_our_weights_has_our_logits_and_translations(tmp_path, monkeypatch):
    torch.manual_seed(2)
    monkeypatch.setitem(TRANSFORMERS, "t", (1, 32, 4, 16))
    sizes = [f"model.{side}.{size}" for side in ("encoder", "decoder") for size in ("layers=1", "ffn_dim=16")]
    experiment = load(ROOT / "configs/bench/t.yaml", ExperimentConfig, ["model.embeddings.dim=32", *sizes])
    net = build_model(experiment.model, 8000, 8000).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    save_tensors(unique_state_dict(net), tmp_path / "model.safetensors")
    theirs = marian.load_our_weights(tmp_path, "t")
    source, mask = collate_source([[5, 9, 4], [7, 700, 7000, 77, 4, 5], [11]])
    target = torch.randint(4, 8000, (3, 7))
    target[:, 0] = BOS
    with torch.no_grad():
        output = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits
        expected = net.output_projection(net(source, mask, target).hidden)
    assert expected.std() > 0.1
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
    (tmp_path / "vocab.plain.txt").write_text("".join(f"w{id}\n" for id in range(4, 8000)), "utf-8")
    (tmp_path / "few.txt").write_text("w5 w9\nw7 w700 w4000 w77\nw11\n", "utf-8")
    files = ["--source", tmp_path / "few.txt", "--output", tmp_path / "output.txt"]
    options = ["--beam", "1", "--batch", "2", "--most", "5", "--type", "float32"]
    arguments = ["translate", tmp_path, "t", tmp_path, *files, *options]
    marian.translate(marian.argument_parser().parse_args(list(map(str, arguments))))
    search = GreedyConfig(kind="greedy", lengths=LengthsConfig(max_length=5))
    found = translate_ids(net, [[5, 9], [7, 700, 4000, 77], [11]], search, budget=100)
    lines = (tmp_path / "output.txt").read_text("utf-8").split("\n")[:-1]
    assert [line.split()[:4] for line in lines] == [[f"w{id}" for id in best.tokens[:4]] for (best,) in found]


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

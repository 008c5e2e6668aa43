"""Laws of trainings that run out of memory: a batch in halves is the whole batch, and the largest is tried first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepare import load_prepared
from seq2attn.errors import UserError
from seq2attn.experiment import ExperimentConfig
from seq2attn.models import build_model
from seq2attn.nn.out_of_memory import is_oom_error
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import init_distributed
from seq2attn.training.gradient_accumulation import GradientAccumulator
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.memory_check import check_memory, largest_micro_batches
from seq2attn.training.optimizers import parameter_groups
from tests.laws.small import (
    CALM,
    MODELS,
    assert_near,
    assert_same,
    content,
    corpus,
    last_weights,
    metrics,
    trained,
)

__all__ = ["corpus"]  # a fixture

SGD = {"optimizer": {"kind": "sgd", "lr": 0.5}, "validation": {"every": "99 updates"}}


def narrow(**limits):
    return {**CALM, "encoder": {"kind": "tests.laws.faults:Narrow", **limits}}


# ---------------------------------------------------------------------- halves


@pytest.mark.parametrize(("error", "backward"), [("cuda", True), ("cpu", False), ("python", True)])
def test_a_batch_in_halves_is_the_whole_batch(corpus, backward, error):
    options = {"batch": {"tokens": 150}, "max_duration": ["4 updates"], "report_every": 1, **SGD}
    model = narrow(rows=9, backward=backward, error=error)
    halves = trained(corpus, "halves", model=model, **options)
    whole = trained(corpus, "whole", model=narrow(), **options)
    assert_near(last_weights(halves), last_weights(whole))
    told = metrics(halves, "out_of_memory")
    assert told
    for ours, theirs in zip(metrics(halves, "train"), metrics(whole, "train"), strict=True):
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=1e-4)
    rows = [plan_batches(load_prepared(whole.folder).train.corpus.lengths, tokens=150, seed=1, epoch=e) for e in (0, 1)]
    by_update = [" ".join(str(row + 1) for row in batch) for batch in [*rows[0], *rows[1]]]
    for line in told:
        assert line["lines"] in by_update[line["update"] - 1]
        assert len(line["lines"].split()) > 9
    log = (halves.folder / "train.log").read_text()
    assert f"update {told[0]['update']}: lines " in log and "are halved" in log


def test_halves_are_halved_down_to_single_pairs(corpus):
    options = {"batch": {"tokens": 10_000}, "max_duration": ["1 update"], **SGD}
    single = trained(corpus, "single", model=narrow(rows=1, spares=1), **options)
    whole = trained(corpus, "whole", model=narrow(), **options)
    assert_near(last_weights(single), last_weights(whole))
    # As large parts are halved together: it is begun anew about as often as 48 can be halved.
    assert 6 <= len(metrics(single, "out_of_memory")) <= 12


def test_a_pair_that_never_fits_is_dropped(corpus):
    options = {"batch": {"tokens": 10_000}, "max_duration": ["1 update"], **SGD}
    dropped = trained(corpus, "dropped", model=narrow(longest=7, backward=True, spares=1), **options)
    lengths = load_prepared(dropped.folder).train.corpus.lengths
    long = {int(row) + 1 for row in np.flatnonzero(lengths.max(axis=1) + 1 > 7)}
    told = metrics(dropped, "dropped")
    assert {int(line["lines"]) for line in told} == long != set()
    assert "a single pair, which is dropped" in (dropped.folder / "train.log").read_text()
    filtered = content(corpus, "filtered", model=narrow(), **options)
    filtered["data"]["filters"] = {"max_length": 6}
    expected = trained_with(filtered)
    assert_near(last_weights(dropped), last_weights(expected))
    words = [list_checkpoints(run.folder)[-1].train_state.target_tokens for run in (dropped, expected)]
    assert words[0] == words[1]


def test_nothing_is_learnt_from_nothing(corpus):
    run = trained(corpus, "run", model=narrow(longest=1, spares=99), max_duration=["3 updates"], **SGD)
    none = trained(corpus, "none", model=narrow(longest=1, spares=1), max_duration=["3 updates"], **SGD)
    assert list_checkpoints(none.folder)[-1].train_state.target_tokens == 0
    assert all(tensor.isfinite().all() for tensor in last_weights(none).values())
    assert any(not torch.equal(tensor, last_weights(none)[name]) for name, tensor in last_weights(run).items())


def test_missing_memory_is_told_from_other_errors():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_oom_error(caught.value)
    with pytest.raises(MemoryError) as missing:
        np.empty(2**55)
    assert is_oom_error(missing.value)
    with pytest.raises(RuntimeError) as other:
        torch.ones(2) @ torch.ones(3)
    assert not is_oom_error(other.value)


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "CUDNN_STATUS_ALLOC_FAILED",
        "CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory",
        "DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes",
        "std::bad_alloc",
        "[Errno 12] Cannot allocate memory",
    ],
)
def test_every_library_says_it_its_own_way(said):
    assert is_oom_error(RuntimeError(said))


# ---------------------------------------------------------------------- the largest first


def test_a_training_that_does_not_fit_ends_before_it_begins(corpus):
    with pytest.raises(UserError) as caught:
        trained(corpus, "run", model=narrow(rows=9, spares=0), batch={"tokens": 150}, **SGD)
    message = str(caught.value)
    lengths = load_prepared(corpus / "run").train.corpus.lengths
    rows, width, tokens, line = map(
        int, re.search(r": (\d+) pairs of up to (\d+) .*?, (\d+) with .*line (\d+)", message).groups()
    )
    assert (
        tokens
        == rows * width
        == max(len(b) * (int(lengths[b].max()) + 1) for b in plan_batches(lengths, tokens=150, seed=1, epoch=0))
    )
    assert int(lengths[line - 1].max()) + 1 == width
    assert "`training.batch.micro_batch_tokens`" in message and "`data.filters.max_length`" in message
    assert not (corpus / "run" / "checkpoints").exists()


def test_the_longest_pair_is_tried_too(corpus):
    with pytest.raises(UserError, match="of up to 8 tokens"):
        trained(corpus, "run", model=narrow(longest=7, spares=0), batch={"tokens": 30}, **SGD)


def test_the_largest_are_the_largest():
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 40, (500, 2))
    parts = plan_batches(lengths, tokens=200, seed=0, epoch=0)
    sizes = [len(part) * (int(lengths[part].max()) + 1) for part in parts]
    most, *rest = largest_micro_batches(parts, lengths)
    assert len(most) * (int(lengths[most].max()) + 1) == max(sizes)
    assert max(int(lengths[part].max()) for part in [most, *rest]) == lengths.max()
    assert len(rest) <= 1


@pytest.mark.parametrize("optimizer", [{"kind": "adam"}, {"kind": "sgd", "momentum": 0.9}, {"kind": "adadelta"}])
def test_trying_leaves_nothing_behind(optimizer):
    draw = np.random.default_rng(0)
    pairs = [(draw.integers(4, 20, n).tolist(), draw.integers(4, 20, n + 1).tolist()) for n in range(1, 30)]
    corpus = Corpus.from_pairs(pairs, 20)
    config = TrainingConfig.model_validate({"optimizer": optimizer})
    model = build_model(ExperimentConfig.model_validate(content_of_model("transformer")).model, 20, 20)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    objective, optimizer = TrainingLoss(model), config.optimizer.build(parameter_groups(model))
    with init_distributed(torch.device("cpu")) as world:
        gradients = GradientAccumulator(config, objective, world, None)
        check_memory(
            gradients,
            optimizer,
            corpus,
            [[part] for part in plan_batches(corpus.lengths, tokens=60, seed=0, epoch=0)],
            None,
        )
    assert_same(model.state_dict(), before)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not optimizer.state


LIMITED = """
import resource, sys
import seq2attn.training.train, seq2attn.inference.translator  # what is loaded is there already
from seq2attn.cli import app
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + int(sys.argv[1]) * 2**20,) * 2)
sys.argv[:2] = ["seq2attn"]
app()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_a_process_that_runs_out_of_memory_says_what_to_do(corpus):
    wide = {**MODELS["transformer"], "encoder": {**MODELS["transformer"]["encoder"], "ffn_dim": 200_000}}
    config = corpus / "config.yaml"
    config.write_text(
        yaml.safe_dump(content(corpus, "run", model=wide, max_duration=["1 update"], batch={"tokens": 400}))
    )

    def run(megabytes, *options):
        command = [sys.executable, "-c", LIMITED, str(megabytes), "train", str(config), *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        return subprocess.run(command, cwd=corpus, env=environment, capture_output=True, text=True, check=False)

    done = run(500)
    assert done.returncode == 2, done.stderr[-3000:]
    assert "the largest batch does not fit in the memory of cpu" in done.stderr
    assert "Traceback" not in done.stderr
    done = run(500, "--set", "training.batch.micro_batch_tokens=20")
    assert done.returncode == 0, done.stderr[-3000:]


# ---------------------------------------------------------------------- several processes


def together(corpus, name, **options):
    config = corpus / f"{name}.yaml"
    config.write_text(yaml.safe_dump(content(corpus, name, **options)))
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("-m", "seq2attn", "train", str(config)),
    ]
    path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
    return subprocess.run(command, cwd=corpus, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_one_process_of_two_may_halve_its_batch(corpus):
    options = {"batch": {"tokens": 44}, "max_duration": ["3 epochs"], "optimizer": {"kind": "sgd", "lr": 0.5}}
    options["validation"] = {"every": "1 epoch"}
    done = together(corpus, "together", model=narrow(rows=6), **options)
    assert done.returncode == 0, done.stderr[-3000:]
    run = RunDirectory(corpus / "together")
    accumulated = {**options, "batch": {"tokens": 44, "gradient_accumulation": 2}}
    alone = trained(corpus, "alone", model=narrow(), **accumulated)
    assert metrics(run, "out_of_memory") != []
    assert_near(last_weights(run), last_weights(alone))


@pytest.mark.slow
def test_processes_that_exchange_gradients_say_that_they_cannot_begin_anew(corpus):
    done = together(corpus, "together", model=narrow(rows=6, backward=True), batch={"tokens": 44}, **SGD)
    assert done.returncode != 0
    assert "ran out of memory during the exchange of gradients" in done.stderr


def test_two_processes_skip_the_same_updates(corpus):
    fault = {"kind": "tests.laws.faults:Faulty", "updates": [2, 5], "rank": 1, "spoils": "states"}
    options = {"max_duration": ["2 epochs"], "optimizer": {"kind": "sgd", "lr": 0.5}, "report_every": 1}
    options["validation"] = {"every": "1 epoch"}
    done = together(corpus, "together", model={**CALM, "encoder": fault}, batch={"tokens": 44}, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    run = RunDirectory(corpus / "together")
    accumulated = {**options, "batch": {"tokens": 44, "gradient_accumulation": 2}}
    alone = trained(corpus, "alone", model={**CALM, "encoder": {**fault, "rank": 0, "part": 1}}, **accumulated)
    assert [line["update"] for line in metrics(run, "skipped")] == [2, 5]
    assert metrics(run, "skipped")[0]["lines"] == metrics(alone, "skipped")[0]["lines"]
    assert_near(last_weights(run), last_weights(alone))


def content_of_model(name):
    return content(Path(), "run", model=MODELS[name])


def trained_with(config):
    from seq2attn.training.train import train

    return train(ExperimentConfig.model_validate(config))

"""Trainings that run out of memory: halved batches equal whole ones, and the largest batch is tried first."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.prepared_data import load_prepared
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.training.checkpoints.checkpoint import list_checkpoints, load_weights
from seq2attn.training.train import train
from tests.support.trainings import (
    BAHDANAU,
    MODELS,
    assert_near,
    content,
    last_state,
    last_weights,
    log_of,
    metrics,
    train_in_two_processes,
    train_run,
)

SGD = {"optimizer": {"kind": "sgd", "lr": 0.5}, "validation": {"every": "99 updates"}}
TWO = {"optimizer": {"kind": "sgd", "lr": 0.5}, "validation": {"every": "1 epoch"}}


def model_with_limits(**limits):
    return {**BAHDANAU, "encoder": {"kind": "tests.support.faults:OutOfMemory", **limits}}


def lengths_of(run):
    return load_prepared(run.folder).train.corpus.lengths


def test_halved_batches_equal_whole_ones(corpus):
    options = {"batch": {"tokens": 150}, "max_duration": ["4 updates"], "report_every": 1, **SGD}
    whole = train_run(corpus, "whole", model=model_with_limits(), **options)
    batches = [b for epoch in (0, 1) for b in plan_batches(lengths_of(whole), tokens=150, seed=1, epoch=epoch)]
    for error, backward in (("cuda", True), ("cpu", False), ("python", True)):
        model = model_with_limits(max_rows=9, backward=backward, error=error)
        halved = train_run(corpus, error, model=model, **options)
        assert_near(last_weights(halved), last_weights(whole))
        for one, other in zip(metrics(halved, "train"), metrics(whole, "train"), strict=True):
            assert one.pop("kind") == other.pop("kind")
            assert one == pytest.approx(other, rel=1e-4)
        events = metrics(halved, "out_of_memory")
        for event in events:
            assert event["lines"] in " ".join(str(row + 1) for row in batches[event["update"] - 1])
            assert len(event["lines"].split()) > 9
        assert f"update {events[0]['update']}: lines " in log_of(halved) and "are halved" in log_of(halved)


def test_batches_are_halved_down_to_single_pairs(corpus):
    options = {"batch": {"tokens": 10_000}, "max_duration": ["1 update"], **SGD}
    single = train_run(corpus, "single", model=model_with_limits(max_rows=1, spares=1), **options)
    assert_near(last_weights(single), last_weights(train_run(corpus, "whole", model=model_with_limits(), **options)))
    # Micro-batches of one size are halved together: about log2(48) repetitions.
    assert 6 <= len(metrics(single, "out_of_memory")) <= 12


@pytest.mark.slow
def test_a_pair_that_never_fits_is_dropped(corpus):
    options = {"batch": {"tokens": 10_000}, "max_duration": ["1 update"], **SGD}
    dropped = train_run(corpus, "dropped", model=model_with_limits(max_length=7, backward=True, spares=1), **options)
    long = {int(row) + 1 for row in np.flatnonzero(lengths_of(dropped).max(axis=1) + 1 > 7)}
    assert {int(line["lines"]) for line in metrics(dropped, "dropped")} == long != set()
    assert "a single pair, which is dropped" in log_of(dropped)
    filtered = content(corpus, "filtered", model=model_with_limits(), **options)
    filtered["data"]["filters"] = {"max_length": 6}
    expected = train(ExperimentConfig.model_validate(filtered))
    assert_near(last_weights(dropped), last_weights(expected))
    assert last_state(dropped).target_tokens == last_state(expected).target_tokens


def test_an_update_without_any_pair_keeps_weights_finite(corpus):
    run = train_run(corpus, "run", model=model_with_limits(max_length=1, spares=1), max_duration=["3 updates"], **SGD)
    assert last_state(run).target_tokens == 0
    assert all(tensor.isfinite().all() for tensor in last_weights(run).values())


def test_an_average_begins_after_an_update_without_any_pair(corpus):
    model, validation = model_with_limits(max_length=1, spares=0, updates=[1]), {"every": "1 update", "metric": "loss"}
    for decay in (0.9, None):
        options = {"validation": validation, "checkpoints": {"keep_last": 9}, "ema_decay": decay}
        run = train_run(corpus, str(decay), model=model, max_duration=["4 updates"], **options)
        first, second, *_ = map(load_weights, list_checkpoints(run.folder))
        assert metrics(run, "dropped") and not metrics(run, "out_of_memory")
        assert last_state(run).update == 4 and not all(torch.equal(first[name], second[name]) for name in first)


def test_a_batch_that_does_not_fit_ends_training_before_the_first_update(corpus):
    with pytest.raises(UserError) as caught:
        train_run(corpus, "run", model=model_with_limits(max_rows=9, spares=0), batch={"tokens": 150}, **SGD)
    message = str(caught.value)
    lengths = load_prepared(corpus / "run").train.corpus.lengths
    numbers = re.search(r": (\d+) pairs of up to (\d+) .*?, (\d+) with .*line (\d+)", message).groups()
    rows, width, tokens, line = map(int, numbers)
    batches = plan_batches(lengths, tokens=150, seed=1, epoch=0)
    assert tokens == rows * width == max(len(b) * (int(lengths[b].max()) + 1) for b in batches)
    assert int(lengths[line - 1].max()) + 1 == width
    assert "`training.batch.micro_batch_tokens`" in message and "`data.filters.max_length`" in message
    assert not (corpus / "run" / "checkpoints").exists()
    with pytest.raises(UserError, match="of up to 8 tokens"):  # the longest pair is tried too
        train_run(corpus, "run", model=model_with_limits(max_length=7, spares=0), batch={"tokens": 30}, **SGD)


LIMITED = """
import resource, sys
import seq2attn.training.train, seq2attn.inference.translator  # the limit is for what follows
from seq2attn.cli import app
from seq2attn.errors import UserError
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 500 * 2**20,) * 2)
for options, code in ((["--set", "training.batch.micro_batch_tokens=20"], 0), (["--set", "run_dir=other"], 2)):
    try:
        app(["train", sys.argv[1], *options])
    except SystemExit as exit:
        assert (exit.code or 0) == code, exit.code
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs RLIMIT_AS")
def test_a_process_with_too_little_memory_ends_with_the_message(corpus):
    wide = {**MODELS["transformer"], "encoder": {**MODELS["transformer"]["encoder"], "ffn_dim": 200_000}}
    config = corpus / "config.yaml"
    options = {"model": wide, "max_duration": ["1 update"], "batch": {"tokens": 400}}
    config.write_text(yaml.safe_dump(content(corpus, "run", **options)))
    command = [sys.executable, "-c", LIMITED, str(config)]
    done = subprocess.run(command, cwd=corpus, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the largest batch does not fit in the memory of cpu" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_one_process_of_two_may_halve_its_batch(corpus):
    options = {"max_duration": ["3 epochs"], **TWO}
    model = model_with_limits(max_rows=6)
    run, codes, outputs = train_in_two_processes(corpus, "two", model=model, batch={"tokens": 44}, **options)
    assert codes == (0, 0), outputs
    one = train_run(
        corpus, "one", model=model_with_limits(), batch={"tokens": 44, "gradient_accumulation": 2}, **options
    )
    assert metrics(run, "out_of_memory") != []
    assert_near(last_weights(run), last_weights(one))


@pytest.mark.slow
def test_an_exchange_of_gradients_that_fails_ends_training(corpus):
    model = model_with_limits(max_rows=6, backward=True)
    _, codes, outputs = train_in_two_processes(corpus, "two", model=model, batch={"tokens": 44}, **SGD)
    assert all(codes) and any("ran out of memory during the exchange of gradients" in output for output in outputs)


@pytest.mark.slow
def test_two_processes_equal_one_that_accumulates_and_skip_the_same_updates(corpus):
    # Two ranks take alternate batches of one plan of an even number, so both learn from the same two batches in each
    # update, and divide by the target tokens of both.
    fault = {"kind": "tests.support.faults:Faulty", "updates": [2, 5], "rank": 1}
    options = {"max_duration": ["2 epochs"], "report_every": 1, **TWO}
    learning = {"model": {**BAHDANAU, "encoder": fault}, "batch": {"tokens": 44}, **options}
    two, codes, outputs = train_in_two_processes(corpus, "two", **learning)
    assert codes == (0, 0), outputs
    model = {**BAHDANAU, "encoder": {**fault, "rank": 0, "micro_batch": 1}}
    one = train_run(corpus, "one", model=model, batch={"tokens": 44, "gradient_accumulation": 2}, **options)
    assert [len(plan_batches(lengths_of(one), tokens=44, seed=1, epoch=e)) % 2 for e in range(2)] == [0, 0]
    assert_near(last_weights(two), last_weights(one))
    assert [line["update"] for line in metrics(two, "skipped")] == [2, 5]
    for ours, theirs in zip(metrics(two), metrics(one), strict=True):
        for key in ("kind", "signature", "lines"):
            assert ours.pop(key, None) == theirs.pop(key, None)
        if ours["loss"] != "nan":
            assert ours == pytest.approx(theirs, rel=1e-4)
    assert {p.name for p in two.folder.iterdir()} == {p.name for p in one.folder.iterdir()}
    assert "in 2 processes" in log_of(two)
    origin = two.weights_origin()
    two.weights_path.unlink()  # the training has ended, and restores them from a checkpoint
    _, codes, outputs = train_in_two_processes(corpus, "two", "--resume", **learning)
    assert codes == (0, 0), outputs
    assert two.weights_origin() == origin

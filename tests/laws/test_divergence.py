"""Divergence: a skipped update changes nothing, and several in a row end the training."""

import json
import math
import shutil

import pytest
import torch

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.prepared_data import load_prepared
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.weights import load_tensors, unique_state_dict
from seq2attn.models import build_model
from seq2attn.training import loop, nonfinite
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.nonfinite import DivergedError
from seq2attn.training.speed import measure_speed
from tests.support.marks import slow_but
from tests.support.trainings import (
    BAHDANAU,
    MODELS,
    assert_same,
    content,
    last_state,
    last_weights,
    log_of,
    metrics,
    train_run,
)

OPTIMIZERS = {
    "adam": {"kind": "adam", "lr": 0.01},
    "adamw": {"kind": "adamw", "lr": 0.01, "weight_decay": 0.1},
    "sgd": {"kind": "sgd", "lr": 0.1},
    "momentum": {"kind": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "adadelta": {"kind": "adadelta"},
}
RARELY = {"every": "99 updates", "metric": "loss"}


def model_with_faults(updates=(), model=BAHDANAU, **fault):
    return {**model, "encoder": {"kind": "tests.support.faults:Faulty", "updates": [*updates], **fault}}


def optimizer_of(run):
    return load_tensors(list_checkpoints(run.folder)[-1].optimizer_path)


SLOW_SKIPS = [
    ("soft", "adamw", "states"),
    ("soft", "adam", "one gradient"),
    ("hard", "adam", "states"),
    ("hard", "adam", "one gradient"),
    ("hard", "momentum", "states"),
]
"""The other optimizers are tested with soft attention only."""


@pytest.mark.parametrize(
    ("attention", "optimizer", "fault"),
    [
        *(("soft", name, "states") for name in OPTIMIZERS if name != "adamw"),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW_SKIPS),
    ],
)
def test_a_skipped_update_changes_nothing(corpus, attention, optimizer, fault):
    model = BAHDANAU if attention == "soft" else MODELS["hard"]
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": RARELY, "report_every": 1, "ema_decay": 0.9}
    before = train_run(corpus, "before", model=model_with_faults(model=model), max_duration=["3 updates"], **options)
    skipping = model_with_faults([4], model, fault_in=fault)
    after = train_run(corpus, "after", model=skipping, max_duration=["4 updates"], **options)
    assert_same(last_weights(after), last_weights(before))
    assert_same(optimizer_of(after), optimizer_of(before))
    assert metrics(after, "train") == metrics(before, "train")
    one, other = last_state(after), last_state(before)
    assert (one.update, one.num_skipped, one.consecutive_skips) == (4, 1, 1)
    assert one.target_tokens == other.target_tokens
    assert one.reinforce_baseline == other.reinforce_baseline
    assert (one.reinforce_baseline is None) == (attention == "soft")


@pytest.mark.parametrize("optimizer", ["adam", "momentum", "adadelta"])
def test_the_first_update_may_be_skipped(corpus, optimizer):
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": {"every": "1 update"}}
    run = train_run(corpus, "run", model=model_with_faults([1]), max_duration=["1 update"], **options)
    config = ExperimentConfig.model_validate(content(corpus, "run", model=model_with_faults([1])))
    prepared = load_prepared(run.folder)
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, len(prepared.source.vocabulary), len(prepared.target.vocabulary))
    assert_same(last_weights(run), unique_state_dict(model))
    assert not any(tensor.any() for tensor in optimizer_of(run).values())


@pytest.mark.parametrize(
    ("fault", "clip", "micro_batch"),
    [
        ({"fault_in": "states"}, None, 0),
        ({"fault_in": "states", "value": "inf"}, 0.1, 2),
        ({"fault_in": "gradients"}, 0.1, 0),
        ({"fault_in": "gradients", "value": "inf"}, None, 2),
        ({"fault_in": "one gradient"}, 0.1, 2),
    ],
)
def test_a_fault_in_any_micro_batch_skips_the_update_and_is_logged(corpus, fault, clip, micro_batch):
    batch = {"tokens": 48, "micro_batch_tokens": 24, "gradient_accumulation": 2}
    model = model_with_faults([2], micro_batch=micro_batch, **fault)
    options = {"max_duration": ["3 updates"], "validation": RARELY, "report_every": 99}
    run = train_run(corpus, "run", model=model, batch=batch, max_grad_norm=clip, **options)
    assert (last_state(run).num_skipped, last_state(run).consecutive_skips) == (1, 0)
    assert all(tensor.isfinite().all() for tensor in [*last_weights(run).values(), *optimizer_of(run).values()])
    assert all(tensor.any() for name, tensor in optimizer_of(run).items() if "exp_avg" in name)
    (report,) = metrics(run, "train")
    assert math.isfinite(report["loss"]) and math.isfinite(report["gradient_norm"]) and report["skipped"] == 1
    batches = plan_batches(load_prepared(run.folder).train.corpus.lengths, tokens=24, seed=1, epoch=0)
    (event,) = metrics(run, "skipped")
    assert event["lines"] == " ".join(str(row + 1) for rows in batches[4:8] for row in rows)
    assert event["update"] == 2 and not math.isfinite(float(event["gradient_norm"]))
    assert "update 2 skipped: loss " in log_of(run)


DIVERGING = {"model": model_with_faults(range(7, 99)), "report_every": 1, "max_consecutive_skips": 2}
"""Updates from 7 on are skipped."""


def diverge(folder, run, **options):
    with pytest.raises(DivergedError) as caught:
        train_run(folder, run, **options)
    return str(caught.value), RunDirectory(folder / run)


@pytest.mark.parametrize(("skips", "checkpoints"), [(2, {}), (5, {"keep_last": 1})])
def test_training_ends_after_too_many_skips_and_resumes_from_a_valid_checkpoint(corpus, skips, checkpoints):
    # A checkpoint of update 8 would only diverge again.
    validation = {"every": "4 updates", "metric": "loss"}
    options = {**DIVERGING, "validation": validation, "checkpoints": checkpoints, "max_consecutive_skips": skips}
    message, run = diverge(corpus, "run", max_duration=["99 updates"], **options)
    assert f"{skips} updates in a row" in message and "checkpoint of update 4 is valid" in message
    assert f"training has diverged at update {6 + skips}" in log_of(run)
    assert [line["update"] for line in metrics(run, "skipped")] == [*range(7, 7 + skips)]
    assert [c.train_state.update for c in list_checkpoints(run.folder)] == [4]
    train_run(corpus, "run", max_duration=["8 updates"], seed=2, resume=True, **options)
    state = last_state(run)
    assert (state.update, state.num_skipped, state.consecutive_skips) == (8, 0, 0)


def test_the_error_has_update_learning_rate_loss_and_sentences(corpus):
    message, run = diverge(corpus, "run", model=model_with_faults(range(3, 99)), max_consecutive_skips=2)
    train = load_prepared(run.folder).train
    batch = plan_batches(train.corpus.lengths, tokens=64, seed=1, epoch=0)[2]
    longest = max(batch, key=lambda row: train.corpus.lengths[row].max())
    (pair,) = (text for row, text in enumerate(read_text_pairs(train.text_path)) if row == longest)
    for needed in ("Update 3: loss nan", "learning rate 0.01", f"{train.text_path}:{longest + 1} (", *pair):
        assert needed in message
    assert "No checkpoint was saved" in message


def test_skips_that_are_not_in_a_row_do_not_end_training(corpus):
    run = train_run(
        corpus, "run", model=model_with_faults([2, 4, 6]), max_duration=["8 updates"], max_consecutive_skips=2
    )
    assert last_state(run).num_skipped == 3


def test_skips_are_counted_over_an_interruption(corpus):
    options = {"model": model_with_faults(range(3, 99)), "max_consecutive_skips": 3, "time_limit": "0.001 seconds"}
    for _ in range(4):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", resume="if-exists", **options)
    message, run = diverge(corpus, "run", resume="if-exists", **options)
    assert "3 updates in a row" in message
    assert last_state(run).update == 2


def test_a_measurement_of_speed_that_diverges_removes_no_checkpoints(corpus):
    options = {"model": model_with_faults(range(3, 99)), "max_consecutive_skips": 5, "time_limit": "0.001 seconds"}
    for _ in range(3):
        with pytest.raises(TrainingInterrupted):
            train_run(corpus, "run", resume="if-exists", **options)
    run = RunDirectory(corpus / "run")
    assert last_state(run).consecutive_skips
    experiment = ExperimentConfig.model_validate(content(corpus, "run", **options | {"max_consecutive_skips": 1}))
    before, alone = list_checkpoints(run.folder), DistributedContext(rank=0, size=1, device=torch.device("cpu"))
    with pytest.raises(DivergedError):
        measure_speed(experiment, load_prepared(run.folder), alone, 0.1)
    assert list_checkpoints(run.folder) == before


def test_skips_before_the_end_of_a_finished_training_are_no_divergence(corpus):
    options = {"model": model_with_faults([3, 4]), "max_duration": ["4 updates"], "validation": {"every": "2 updates"}}
    train_run(corpus, "run", **options)
    run = train_run(corpus, "run", resume=True, max_consecutive_skips=2, **options)
    assert [c.train_state.update for c in list_checkpoints(run.folder)] == [2, 4]
    assert (last_state(run).consecutive_skips, (run.folder / "model.safetensors").is_file()) == (2, True)


@pytest.mark.parametrize("time_limit", [None, "0.001 seconds"])
def test_weights_that_are_not_finite_are_neither_validated_nor_saved(corpus, monkeypatch, time_limit):
    monkeypatch.setattr(loop, "all_finite", lambda model, optimizer: False)
    every = "9 updates" if time_limit else "1 update"  # else the validation comes before the end of the session
    options = {"max_duration": ["2 updates"], "validation": {"every": every}, "time_limit": time_limit}
    message, run = diverge(corpus, "run", **options)
    assert "weights or dev loss are not finite. Update 1:" in message
    assert not list_checkpoints(run.folder) and (time_limit or not metrics(run, "validation"))


def test_a_dev_loss_that_is_not_finite_ends_training(corpus):
    options = {"model": model_with_faults([6], micro_batch=1), "validation": {"every": "1 update"}}
    message, run = diverge(corpus, "run", max_duration=["7 updates"], **options)
    assert "weights or dev loss are not finite. Update 6:" in message
    assert last_state(run).update == 5


@pytest.mark.parametrize("optimizer", slow_but(["adam"], ["sgd", "adam"]))
def test_later_synchronization_changes_nothing(corpus, monkeypatch, optimizer):
    # As on a GPU, where updates follow before the host knows that 7 and 8 were skipped.
    options = {**DIVERGING, "optimizer": OPTIMIZERS[optimizer], "max_duration": ["20 updates"], "report_every": 99}
    expected, run = diverge(corpus, "run", validation=RARELY, **options)
    skipped = metrics(run, "skipped")
    shutil.rmtree(run.folder)
    monkeypatch.setitem(nonfinite.SYNC_EVERY, "cpu", 5)
    message, run = diverge(corpus, "run", validation=RARELY, **options)
    assert message == expected
    assert metrics(run, "skipped") == skipped


@pytest.mark.parametrize(
    ("name", "optimizer", "lr"),
    [
        ("recurrent", "adam", 1e30),
        ("transformer", "momentum", 1e6),
        pytest.param("transformer", "adadelta", 1e30, marks=pytest.mark.slow),
    ],
)
def test_a_huge_learning_rate_ends_with_the_error_and_finite_checkpoints(corpus, name, optimizer, lr):
    options = {"optimizer": {**OPTIMIZERS[optimizer], "lr": lr}, "max_duration": ["40 updates"]}
    _, run = diverge(corpus, "run", model=MODELS[name], validation={"every": "2 updates", "metric": "loss"}, **options)
    for checkpoint in list_checkpoints(run.folder):
        for path in (checkpoint.model_path, checkpoint.optimizer_path):
            tensors = load_tensors(path) if path.is_file() else {}
            assert [key for key, tensor in tensors.items() if not tensor.isfinite().all()] == []
    for line in (run.folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)

"""Laws of trainings that go wrong: a skipped update is as if it had not been, and many in a row end the training."""

from __future__ import annotations

import json
import math
import shutil

import pytest
import torch

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.corpus import read_text_pairs
from seq2attn.data.prepare import load_prepared
from seq2attn.errors import TrainingInterrupted
from seq2attn.experiment import ExperimentConfig
from seq2attn.io.weights import load_tensors, unique_state_dict
from seq2attn.models import build_model
from seq2attn.run_directory import RunDirectory
from seq2attn.training import nonfinite, trainer
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.nonfinite import DivergedError
from tests.laws.small import (
    CALM,
    MODELS,
    assert_same,
    content,
    corpus,
    last_weights,
    metrics,
    trained,
)

__all__ = ["corpus"]  # a fixture

OPTIMIZERS = {
    "adam": {"kind": "adam", "lr": 0.01},
    "adamw": {"kind": "adamw", "lr": 0.01, "weight_decay": 0.1},
    "sgd": {"kind": "sgd", "lr": 0.1},
    "momentum": {"kind": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "adadelta": {"kind": "adadelta"},
}
FAULTS = {
    "states": {"spoils": "states"},
    "endless states": {"spoils": "states", "value": "inf"},
    "gradients": {"spoils": "gradients"},
    "endless gradients": {"spoils": "gradients", "value": "inf"},
    "one gradient": {"spoils": "one gradient"},
}


def faulty(updates=(), **fault):
    return {**CALM, "encoder": {"kind": "tests.laws.faults:Faulty", "updates": [*updates], **fault}}


def optimizer_of(run):
    return load_tensors(list_checkpoints(run.folder)[-1].optimizer_path)


def state_of(run):
    return {**vars(list_checkpoints(run.folder)[-1].train_state), "seconds": 0}


# ---------------------------------------------------------------------- one update


@pytest.mark.parametrize(("optimizer", "fault"), [*((name, "states") for name in OPTIMIZERS), ("adam", "one gradient")])
def test_a_skipped_update_is_as_if_it_had_not_been(corpus, optimizer, fault):
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": {"every": "99 updates"}, "report_every": 1}
    before = trained(corpus, "before", model=faulty(), max_duration=["3 updates"], **options)
    after = trained(corpus, "after", model=faulty([4], **FAULTS[fault]), max_duration=["4 updates"], **options)
    assert_same(last_weights(after), last_weights(before))
    assert_same(optimizer_of(after), optimizer_of(before))
    assert metrics(after, "train") == metrics(before, "train")
    found = state_of(after)
    assert (found["update"], found["num_skipped"], found["consecutive_skips"]) == (4, 1, 1)
    assert found["target_tokens"] == state_of(before)["target_tokens"]


@pytest.mark.parametrize("optimizer", ["adam", "momentum", "adadelta"])
def test_the_first_update_may_be_skipped(corpus, optimizer):
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": {"every": "1 update"}}
    run = trained(corpus, "run", model=faulty([1]), max_duration=["1 update"], **options)
    config = ExperimentConfig.model_validate(content(corpus, "run", model=faulty([1])))
    prepared = load_prepared(run.folder)
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, len(prepared.source.vocabulary), len(prepared.target.vocabulary))
    assert_same(last_weights(run), unique_state_dict(model))
    assert not any(tensor.any() for tensor in optimizer_of(run).values())


@pytest.mark.parametrize(
    ("fault", "clip", "part"),
    [
        ("states", None, 0),
        ("endless states", 0.1, 2),
        ("gradients", 0.1, 0),
        ("endless gradients", None, 2),
        ("one gradient", 0.1, 2),
    ],
)
def test_it_may_go_wrong_anywhere(corpus, fault, clip, part):
    parts = {
        "batch": {"tokens": 48, "micro_batch_tokens": 24, "gradient_accumulation": 2},
        "max_grad_norm": clip,
        "report_every": 99,
    }
    model = faulty([2], part=part, **FAULTS[fault])
    run = trained(corpus, "run", model=model, max_duration=["3 updates"], validation={"every": "99 updates"}, **parts)
    plain = trained(corpus, "plain", model=faulty(), max_duration=["1 update"], **parts)
    first, last = (list_checkpoints(r.folder)[-1] for r in (plain, run))
    assert (last.train_state.num_skipped, last.train_state.consecutive_skips) == (1, 0)
    weights = last_weights(run)
    assert all(tensor.isfinite().all() for tensor in [*weights.values(), *optimizer_of(run).values()])
    assert any(not torch.equal(weights[name], tensor) for name, tensor in load_tensors(first.model_path).items())
    (train,) = metrics(run, "train")
    assert math.isfinite(train["loss"]) and math.isfinite(train["gradient_norm"]) and train["skipped"] == 1


def test_what_was_skipped_is_told(corpus):
    run = trained(
        corpus,
        "run",
        model=faulty([2]),
        max_duration=["3 updates"],
        batch={"tokens": 48, "micro_batch_tokens": 24},
    )
    lengths = load_prepared(run.folder).train.corpus.lengths
    batches = plan_batches(lengths, tokens=24, seed=1, epoch=0)
    (told,) = metrics(run, "skipped")
    assert told["lines"] == " ".join(str(row + 1) for batch in batches[2:4] for row in batch)
    assert (told["update"], told["loss"], told["gradient_norm"]) == (2, "nan", "nan")
    assert "update 2 skipped: loss nan, gradient norm nan; " in (run.folder / "train.log").read_text()


def test_hard_attention_compares_with_what_it_learnt_from(corpus):
    model = {**MODELS["drawing"], "encoder": faulty([4])["encoder"]}
    sound = {**model, "encoder": faulty()["encoder"]}
    before = trained(corpus, "before", model=sound, max_duration=["3 updates"], validation={"every": "99 updates"})
    after = trained(corpus, "after", model=model, max_duration=["4 updates"], validation={"every": "99 updates"})
    assert state_of(after)["reinforce_baseline"] == state_of(before)["reinforce_baseline"] is not None
    assert_same(last_weights(after), last_weights(before))


# ---------------------------------------------------------------------- many in a row

DRIFTING = {
    "model": {**CALM, "encoder": {"kind": "tests.laws.faults:Drifting", "limit": 0.057}},
    "max_grad_norm": None,
    "report_every": 1,
    "max_consecutive_skips": 2,
}
"""With SGD and a rate of 0.01 updates 7 and 8 are skipped; with half the rate none is before update 13."""


def sgd(rate):
    return {"kind": "sgd", "lr": rate}


def diverges(folder, run, **options):
    with pytest.raises(DivergedError) as caught:
        trained(folder, run, **options)
    return str(caught.value), RunDirectory(folder / run)


@pytest.mark.parametrize(("skips", "kept"), [(2, {}), (5, {"keep_last": 1})])
def test_it_ends_after_too_many_and_goes_on_from_the_last_sound_checkpoint(corpus, skips, kept):
    # Updates from 7 on are skipped, so one that is saved after update 8 would only diverge again.
    validation = {"every": "4 updates", "metric": "loss"}
    options = {**DRIFTING, "validation": validation, "checkpoints": kept, "max_consecutive_skips": skips}
    message, run = diverges(corpus, "run", max_duration=["99 updates"], optimizer=sgd(0.01), **options)
    assert f"{skips} updates in a row" in message and "checkpoint of update 4 is valid" in message
    assert f"training has diverged at update {6 + skips}" in (run.folder / "train.log").read_text()
    assert [line["update"] for line in metrics(run, "skipped")] == [*range(7, 7 + skips)]
    assert [c.train_state.update for c in list_checkpoints(run.folder)] == [4]
    trained(corpus, "run", max_duration=["8 updates"], optimizer=sgd(0.005), resume=True, **options)
    state = state_of(run)
    assert (state["update"], state["num_skipped"], state["consecutive_skips"]) == (8, 0, 0)


def test_the_error_tells_update_rate_loss_and_sentences(corpus):
    message, run = diverges(corpus, "run", model=faulty(range(3, 99)), max_consecutive_skips=2)
    train = load_prepared(run.folder).train
    batch = plan_batches(train.corpus.lengths, tokens=64, seed=1, epoch=0)[2]
    longest = max(batch, key=lambda row: train.corpus.lengths[row].max())
    (pair,) = (text for row, text in enumerate(read_text_pairs(train.text_path)) if row == longest)
    for needed in ("Update 3: loss nan", "learning rate 0.01", f"{train.text_path}:{longest + 1} (", *pair):
        assert needed in message
    assert "No checkpoint was saved" in message


def test_those_that_are_not_in_a_row_do_not_end_it(corpus):
    run = trained(corpus, "run", model=faulty([2, 4, 6]), max_duration=["8 updates"], max_consecutive_skips=2)
    assert state_of(run)["num_skipped"] == 3


def test_they_are_counted_over_an_interruption(corpus):
    options = {"model": faulty(range(3, 99)), "max_consecutive_skips": 3, "time_limit": "0.001 seconds"}
    for _ in range(4):
        with pytest.raises(TrainingInterrupted):
            trained(corpus, "run", resume="if-exists", **options)
    message, run = diverges(corpus, "run", resume="if-exists", **options)
    assert "3 updates in a row" in message
    assert list_checkpoints(run.folder)[-1].train_state.update == 2


@pytest.mark.parametrize("time_limit", [None, "0.001 seconds"])
def test_weights_that_are_not_finite_are_neither_validated_nor_saved(corpus, monkeypatch, time_limit):
    monkeypatch.setattr(trainer, "all_finite", lambda model, optimizer: False)
    options = {"max_duration": ["2 updates"], "validation": {"every": "1 update"}, "time_limit": time_limit}
    message, run = diverges(corpus, "run", **options)
    assert "weights or dev loss are not finite. Update 1:" in message
    assert not list_checkpoints(run.folder)


def test_a_dev_loss_that_is_not_finite_ends_it(corpus):
    model = {**CALM, "encoder": {"kind": "tests.laws.faults:Drifting", "limit": 0.057, "tried": True}}
    options = {**DRIFTING, "model": model, "validation": {"every": "1 update", "metric": "bleu"}}
    message, run = diverges(corpus, "run", max_duration=["7 updates"], optimizer=sgd(0.01), **options)
    assert "weights or dev loss are not finite. Update 6:" in message
    assert list_checkpoints(run.folder)[-1].train_state.update == 5


@pytest.mark.parametrize("optimizer", [sgd(0.01), {"kind": "adam", "lr": 0.01}])
def test_to_look_late_changes_nothing(corpus, monkeypatch, optimizer):
    # As on a card, where nobody waits to see whether an update was sound: after 7 and 8 was skipped, others are tried.
    options = {**DRIFTING, "optimizer": optimizer, "report_every": 99, "max_duration": ["20 updates"]}
    options["validation"] = {"every": "99 updates", "metric": "loss"}
    at_once, one = diverges(corpus, "run", **options)
    told = metrics(one, "skipped")
    shutil.rmtree(one.folder)
    monkeypatch.setitem(nonfinite.SYNC_EVERY, "cpu", 5)
    late, other = diverges(corpus, "run", **options)
    assert late == at_once
    assert metrics(other, "skipped") == told


@pytest.mark.parametrize(
    ("name", "optimizer", "rate"),
    [("recurrent", "adam", 1e30), ("transformer", "momentum", 1e6), ("transformer", "adadelta", 1e30)],
)
def test_a_rate_beyond_reason_ends_in_a_report(corpus, name, optimizer, rate):
    fast = {**OPTIMIZERS[optimizer], "lr": rate}
    validation = {"every": "2 updates", "metric": "loss"}
    with pytest.raises(DivergedError):
        trained(
            corpus,
            "run",
            model=MODELS[name],
            optimizer=fast,
            max_duration=["40 updates"],
            validation=validation,
        )
    for checkpoint in list_checkpoints(corpus / "run"):
        for path in (checkpoint.model_path, checkpoint.optimizer_path):
            tensors = load_tensors(path) if path.is_file() else {}
            assert [key for key, tensor in tensors.items() if not tensor.isfinite().all()] == []
    for line in (corpus / "run" / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)

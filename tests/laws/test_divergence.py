"""Laws of trainings that go wrong: what cannot be used is as if it had not been, and the way back is a straight one."""

from __future__ import annotations

import json
import math

import pytest
import torch

from seq2attn.data.batches import plan
from seq2attn.data.prepare import load_prepared
from seq2attn.experiment import Experiment
from seq2attn.model import build_model
from seq2attn.training import soundness
from seq2attn.training.checkpoint import list_checkpoints
from seq2attn.training.distributed import join_world
from seq2attn.training.diverged import DivergedError
from seq2attn.training.judge import Judge
from seq2attn.training.objective import Objective
from seq2attn.training.train import train
from seq2attn.weights import load_tensors, own_weights
from tests.laws import faults
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
    "adam": {"kind": "adam", "rate": 0.01},
    "adamw": {"kind": "adamw", "rate": 0.01, "weight_decay": 0.1},
    "sgd": {"kind": "sgd", "rate": 0.1},
    "momentum": {"kind": "sgd", "rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
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
    return load_tensors(list_checkpoints(run.folder)[-1].training)


def state_of(run):
    return {**vars(list_checkpoints(run.folder)[-1].state), "seconds": 0}


# ---------------------------------------------------------------------- one update


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("fault", ["states", "one gradient"])
def test_a_skipped_update_is_as_if_it_had_not_been(corpus, optimizer, fault):
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": {"every": "99 updates"}, "report_every": 1}
    before = trained(corpus, "before", model=faulty(), until=["3 updates"], **options)
    after = trained(corpus, "after", model=faulty([4], **FAULTS[fault]), until=["4 updates"], **options)
    assert_same(last_weights(after), last_weights(before))
    assert_same(optimizer_of(after), optimizer_of(before))
    assert metrics(after, "train") == metrics(before, "train")
    found = state_of(after)
    assert (found["update"], found["skipped"], found["in_a_row"]) == (4, 1, 1)
    assert found["words"] == state_of(before)["words"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_update_may_be_skipped(corpus, optimizer):
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": {"every": "1 update"}}
    run = trained(corpus, "run", model=faulty([1]), until=["1 update"], **options)
    config = Experiment.model_validate(content(corpus, "run", model=faulty([1])))
    prepared = load_prepared(run.folder)
    torch.manual_seed(config.training.seed)
    model = build_model(config.model, len(prepared.source.vocabulary), len(prepared.target.vocabulary))
    assert_same(last_weights(run), own_weights(model))
    assert not any(tensor.any() for tensor in optimizer_of(run).values())


@pytest.mark.parametrize(("clip", "part"), [(None, 0), (0.1, 2)])
@pytest.mark.parametrize("fault", FAULTS)
def test_it_may_go_wrong_anywhere(corpus, clip, part, fault):
    parts = {"batch": {"tokens": 48, "at_once": 24, "accumulate": 2}, "clip": clip, "report_every": 99}
    model = faulty([2], part=part, **FAULTS[fault])
    run = trained(
        corpus, "run", model=model, until=["3 updates"], validation={"every": "99 updates"}, **parts
    )
    plain = trained(corpus, "plain", model=faulty(), until=["1 update"], **parts)
    first, last = (list_checkpoints(r.folder)[-1] for r in (plain, run))
    assert (last.state.skipped, last.state.in_a_row) == (1, 0)
    weights = last_weights(run)
    assert all(tensor.isfinite().all() for tensor in [*weights.values(), *optimizer_of(run).values()])
    assert any(not torch.equal(weights[name], tensor) for name, tensor in load_tensors(first.model).items())
    (train,) = metrics(run, "train")
    assert math.isfinite(train["loss"]) and math.isfinite(train["gradient_norm"]) and train["skipped"] == 1


def test_what_was_skipped_is_told(corpus):
    run = trained(corpus, "run", model=faulty([2]), until=["3 updates"], batch={"tokens": 48, "at_once": 24})
    lengths = load_prepared(run.folder).train.corpus.lengths
    batches = plan(lengths, tokens=24, seed=1, epoch=0)
    (told,) = metrics(run, "skipped")
    assert told["lines"] == " ".join(str(row + 1) for batch in batches[2:4] for row in batch)
    assert (told["update"], told["loss"], told["gradient_norm"]) == (2, "nan", "nan")
    assert "update 2 skipped: loss nan, gradient norm nan; " in (run.folder / "train.log").read_text()


def test_hard_attention_compares_with_what_it_learnt_from(corpus):
    model = {**MODELS["drawing"], "encoder": faulty([4])["encoder"]}
    sound = {**model, "encoder": faulty()["encoder"]}
    before = trained(corpus, "before", model=sound, until=["3 updates"], validation={"every": "99 updates"})
    after = trained(corpus, "after", model=model, until=["4 updates"], validation={"every": "99 updates"})
    assert state_of(after)["baseline"] == state_of(before)["baseline"] is not None
    assert_same(last_weights(after), last_weights(before))


# ---------------------------------------------------------------------- going back

DRIFTING = {
    "model": {**CALM, "encoder": {"kind": "tests.laws.faults:Drifting", "limit": 0.057}},
    "clip": None,
    "report_every": 1,
    "divergence": {"in_a_row": 2},
}
"""With SGD and a rate of 0.01 updates 7 and 8 are skipped; with half the rate from update 4 on or before, none is."""


def sgd(rate):
    return {"kind": "sgd", "rate": rate}


def test_training_goes_back_and_on_with_half_the_rate(corpus):
    validation = {"every": "4 updates", "metric": "loss"}
    run = trained(corpus, "run", until=["8 updates"], optimizer=sgd(0.01), validation=validation, **DRIFTING)
    trained(corpus, "straight", until=["4 updates"], optimizer=sgd(0.01), validation=validation, **DRIFTING)
    straight = trained(
        corpus,
        "straight",
        until=["8 updates"],
        optimizer=sgd(0.005),
        validation=validation,
        go_on=True,
        **DRIFTING,
    )
    assert_same(last_weights(run), last_weights(straight))
    assert_same(load_tensors(run.weights), load_tensors(straight.weights))
    assert (state_of(run)["returns"], state_of(run)["skipped"], state_of(run)["in_a_row"]) == (1, 2, 0)
    (told,) = metrics(run, "return")
    assert (told["update"], told["from"], told["returns"]) == (4, 8, 1)
    rates = [(line["update"], line["learning_rate"]) for line in metrics(run, "train")]
    assert rates == [(n, 0.01) for n in range(1, 7)] + [(n, 0.005) for n in range(5, 9)]
    assert metrics(run, "validation") == metrics(straight, "validation")


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_without_a_checkpoint_it_begins_anew(corpus, kind):
    options = {**DRIFTING, "until": ["9 updates"], "validation": {"every": "99 updates", "metric": "loss"}}
    run = trained(corpus, "run", optimizer={"kind": kind, "rate": 0.01}, **options)
    slow = trained(corpus, "slow", optimizer={"kind": kind, "rate": 0.005}, **options)
    assert_same(last_weights(run), last_weights(slow))
    assert metrics(run, "return")[0]["update"] == 0


def test_it_goes_back_to_no_validation_among_skipped_updates(corpus):
    # Updates 7 to 11 are skipped. What was validated after update 8 is as wrong as it was before update 7.
    options = {**DRIFTING, "divergence": {"in_a_row": 5}, "checkpoints": {"keep_last": 1}}
    validation = {"every": "4 updates", "metric": "loss"}
    run = trained(corpus, "run", until=["11 updates"], optimizer=sgd(0.01), validation=validation, **options)
    assert [(line["update"], line["from"]) for line in metrics(run, "return")] == [(4, 11)]


def test_it_goes_back_from_a_validation_that_is_no_number(corpus):
    model = {**CALM, "encoder": {"kind": "tests.laws.faults:Drifting", "limit": 0.057, "tried": True}}
    options = {**DRIFTING, "model": model, "validation": {"every": "1 update", "metric": "bleu"}}
    run = trained(corpus, "run", until=["7 updates"], optimizer=sgd(0.01), **options)
    assert [(line["update"], line["from"]) for line in metrics(run, "return")] == [(5, 6), (6, 7), (6, 7)]


def test_what_translates_goes_back_as_well(corpus):
    run = trained(corpus, "run", until=["8 updates"], validation={"every": "4 updates", "metric": "loss"})
    first, second = list_checkpoints(run.folder)
    assert_same(load_tensors(run.weights), load_tensors(second.model))
    config = Experiment.model_validate(content(corpus, "run"))
    objective = Objective(run.model()[0])
    with join_world(torch.device("cpu")) as world:
        judge = Judge(config.training, run, load_prepared(run.folder), objective, None, world, None)
        judge.take_back(first.state)
    assert_same(load_tensors(run.weights), load_tensors(first.model))
    assert run.origin()["checkpoints"] == [first.folder.name]


@pytest.mark.parametrize("every", ["4 updates", "99 updates"])
@pytest.mark.parametrize("lives", [5, 9, 13])
def test_killed_in_the_midst_of_it_is_never_killed(corpus, every, lives):
    options = {**DRIFTING, "optimizer": sgd(0.01), "validation": {"every": every, "metric": "loss"}}
    whole = trained(corpus, "whole", until=["8 updates"], **options)
    faults.LIVES[:] = [lives]
    with pytest.raises(faults.Killed):
        trained(corpus, "parts", until=["8 updates"], **options)
    parts = trained(corpus, "parts", until=["8 updates"], go_on="auto", **options)
    assert metrics(parts) == metrics(whole)
    assert_same(last_weights(parts), last_weights(whole))
    assert state_of(parts) == state_of(whole)
    assert state_of(whole)["returns"] == 1


@pytest.mark.parametrize("optimizer", [sgd(0.01), {"kind": "adam", "rate": 0.01}])
def test_to_look_late_changes_nothing(corpus, monkeypatch, optimizer):
    # As on a card, where nobody waits to see whether an update was sound: 6 and 7 are skipped, and 8 is tried as well.
    model = {**CALM, "encoder": {"kind": "tests.laws.faults:Drifting", "limit": 0.047}}
    options = {**DRIFTING, "model": model, "optimizer": optimizer, "report_every": 99}
    options |= {
        "divergence": {"in_a_row": 2, "returns": 9},
        "validation": {"every": "4 updates", "metric": "loss"},
    }
    at_once = trained(corpus, "at once", until=["8 updates"], **options)
    monkeypatch.setitem(soundness.LOOK, "cpu", 5)
    late = trained(corpus, "late", until=["8 updates"], **options)
    assert [line["from"] for line in metrics(at_once, "return")][:1] == [7]
    assert [line["from"] for line in metrics(late, "return")][:1] == [8]
    assert metrics(late, "skipped") == metrics(at_once, "skipped")
    assert_same(last_weights(late), last_weights(at_once))
    assert state_of(late) == state_of(at_once)


# ---------------------------------------------------------------------- giving up


def test_it_gives_up_and_tells_which_text_it_was(corpus):
    (corpus / "train.src").write_text("ba " * 50 + "\n\n" + (corpus / "train.src").read_text())
    (corpus / "train.tgt").write_text("ba\nba\n" + (corpus / "train.tgt").read_text())
    config = content(corpus, "run", model=faulty(range(3, 99)), divergence={"in_a_row": 2, "returns": 2})
    config["data"]["filters"] = {"max_length": 20}
    with pytest.raises(DivergedError) as caught:
        train(Experiment.model_validate(config))
    message = str(caught.value)
    report = json.loads((corpus / "run" / "divergence.json").read_text())
    assert (report["update"], report["returns"], report["loss"]) == (3, 2, "nan")
    assert report["learning_rate"] == pytest.approx(0.01 / 4)
    batches = plan(load_prepared(corpus / "run").train.corpus.lengths, tokens=64, seed=1, epoch=0)
    assert len(report["pairs"]) == len(batches[2])
    lines = [(corpus / f"train.{side}").read_text().split("\n") for side in ("src", "tgt")]
    for pair in report["pairs"]:
        path, _, number = pair["place"].rpartition(":")
        assert path == str(corpus / "train.src")
        assert [side[int(number) - 1] for side in lines] == [pair["source"], pair["target"]]
    lengths = [pair["tokens"] for pair in report["pairs"]]
    assert lengths == sorted(lengths, reverse=True)
    for needed in ("update 3 ", "is nan", "rate of 0.0025", report["pairs"][0]["place"], "divergence.json"):
        assert needed in message


@pytest.mark.parametrize(
    ("name", "optimizer"), [("recurrent", "adam"), ("transformer", "momentum"), ("transformer", "adadelta")]
)
@pytest.mark.parametrize("rate", [1e6, 1e30])
def test_a_rate_beyond_reason_ends_in_a_report(corpus, name, optimizer, rate):
    fast = {**OPTIMIZERS[optimizer], "rate": rate}
    validation = {"every": "2 updates", "metric": "loss"}
    with pytest.raises(DivergedError):
        trained(
            corpus, "run", model=MODELS[name], optimizer=fast, until=["40 updates"], validation=validation
        )
    for checkpoint in list_checkpoints(corpus / "run"):
        for path in (checkpoint.model, checkpoint.training):
            tensors = load_tensors(path) if path.is_file() else {}
            assert [key for key, tensor in tensors.items() if not tensor.isfinite().all()] == []
    for line in (corpus / "run" / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)

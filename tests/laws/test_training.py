"""Laws of `train` on a small text: sums, resuming, kept checkpoints."""

import itertools
import json
import math
import shutil
import time
from functools import partial

import numpy as np
import pytest
import torch
from tqdm import tqdm

from seq2attn.config.duration import Duration
from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.prepared_data import load_prepared
from seq2attn.data.training_set import TrainingSet
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.io.weights import load_tensors
from seq2attn.training.checkpoints.averaging import average, newest_checkpoints
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.memory import MemoryTrial
from seq2attn.training.train import train
from seq2attn.training.train_state import TrainState, fraction_done, is_due
from seq2attn.training.validation import Validator
from tests.support.marks import slow_but
from tests.support.trainings import (
    BPE_DROPOUT,
    assert_exact_resume,
    assert_near,
    assert_same,
    content,
    last_state,
    last_weights,
    log_of,
    metrics,
    train_run,
)

SGD = {"optimizer": {"kind": "sgd", "lr": 0.5}, "max_duration": ["3 epochs"], "validation": {"every": "1 epoch"}}


@pytest.mark.parametrize("clip", slow_but([0.1], [None, 0.1]))
def test_accumulating_batches_is_one_large_batch(corpus, clip):
    parts = train_run(corpus, "parts", batch={"tokens": 24, "gradient_accumulation": 1000}, max_grad_norm=clip, **SGD)
    whole = train_run(corpus, "whole", batch={"tokens": 10_000}, max_grad_norm=clip, **SGD)
    lengths = load_prepared(whole.folder).train.corpus.lengths
    assert len(plan_batches(lengths, tokens=24, seed=1, epoch=0)) > 10
    assert len(plan_batches(lengths, tokens=10_000, seed=1, epoch=0)) == 1
    assert_near(last_weights(parts), last_weights(whole))
    assert last_state(parts).update == 3


def test_micro_batches_equal_accumulated_batches(corpus):
    options = {**SGD, "max_duration": ["2 epochs"]}
    parts = train_run(corpus, "parts", batch={"tokens": 240, "micro_batch_tokens": 24}, **options)
    joined = train_run(corpus, "joined", batch={"tokens": 24, "gradient_accumulation": 10}, **options)
    assert last_state(parts).update > 3
    assert_same(last_weights(parts), last_weights(joined))


def test_a_resumed_training_keeps_the_tokens_that_fitted(corpus):
    options = {"batch": {"tokens": 44}, "validation": {"every": "4 updates", "metric": "loss"}}
    whole = train_run(corpus, "whole", max_duration=["8 updates"], **options)
    train_run(corpus, "parts", max_duration=["4 updates"], **options)
    parts = train_run(
        corpus, "parts", max_duration=["8 updates"], **{**options, "batch": {"tokens": "fit"}}, resume=True
    )
    assert_same(last_weights(parts), last_weights(whole))
    with pytest.raises(UserError, match="needs a CUDA GPU; set a number"):
        train_run(corpus, "new", batch={"tokens": "fit"})


def test_an_epoch_is_resumed_at_the_same_fraction_with_other_batches(corpus):
    run = train_run(corpus, "run", max_duration=["1.5 epochs"], batch={"tokens": 24})
    before = last_state(run)
    assert before.updates_in_epoch > 5
    after = last_state(train_run(corpus, "run", max_duration=["2 epochs"], batch={"tokens": 150}, resume=True))
    whole = len(plan_batches(load_prepared(run.folder).train.corpus.lengths, tokens=150, seed=1, epoch=1))
    assert (after.epoch, after.updates_in_epoch) == (2, 0)
    assert after.update - before.update == pytest.approx(whole / 2, abs=1)


def test_the_time_of_training_includes_segmentation_and_validation_once(corpus, monkeypatch):
    seconds, now = [], time.monotonic

    def slow(owner, name, duration):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: seconds.append(duration) or original(*arguments))

    slow(TrainingSet, "epoch_corpus", 3600)
    slow(Validator, "validate", 60)
    slow(MemoryTrial, "fits", 9 * 3600)  # which does not count
    monkeypatch.setattr(time, "monotonic", lambda: now() + sum(seconds))
    validation = {"every": "1 hour", "metric": "loss"}
    run = train_run(corpus, "run", max_duration=["2 epochs", "9 hours"], validation=validation)
    assert last_state(run).seconds // 60 == 2 * 60 + 3
    length = last_state(run).update // 2
    assert [line["update"] for line in metrics(run, "validation")] == [1, length + 1, 2 * length]
    run = train_run(corpus, "run", max_duration=["9 epochs", "5 hours"], validation=validation, resume=True)
    assert last_state(run).update == 4 * length + 1


def test_a_report_is_the_mean_over_the_tokens_of_its_updates(corpus):
    lines = metrics(train_run(corpus, "each", max_duration=["3 updates"], report_every=1), "train")
    (report,) = metrics(train_run(corpus, "once", max_duration=["3 updates"], report_every=4), "train")
    tokens = np.diff([0, *(line["target_tokens"] for line in lines)])
    assert np.average([line["loss"] for line in lines], weights=tokens) == pytest.approx(report["loss"])
    nats = [math.log(line["perplexity"]) for line in lines]
    assert np.average(nats, weights=tokens) == pytest.approx(math.log(report["perplexity"]))
    assert report["gradient_norm"] == lines[-1]["gradient_norm"]


def test_the_progress_bar_has_the_speed_of_each_update(corpus, monkeypatch):
    texts, seconds = [], itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(tqdm, "set_postfix_str", lambda _, text, refresh: texts.append(text))
    run = train_run(corpus, "run", max_duration=["6 updates"], report_every=2)
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    reports = [line for line in lines if line["kind"] == "train"]
    speeds = [int(text.partition(" target tokens/s")[0]) for text in texts]
    assert len(speeds) == 6 and all(speeds)
    for before, after in itertools.pairwise([{"seconds": 0, "target_tokens": 0}, *reports[:2]]):  # before a validation
        rate = (after["target_tokens"] - before["target_tokens"]) / (after["seconds"] - before["seconds"])
        assert after["target_tokens_per_second"] == pytest.approx(rate)
    assert speeds[1::2] == [round(one["target_tokens_per_second"]) for one in reports]
    assert texts[1].endswith(f", {2 * reports[0]['seconds']:.0f} s left")  # a third is done


def test_the_best_checkpoints_are_kept_and_translate(corpus):
    options = {"max_duration": ["20 updates"], "optimizer": {"kind": "adam", "lr": 0.3}}  # it overshoots
    validation, checkpoints = {"every": "2 updates", "metric": "loss"}, {"keep_last": 1, "keep_best": 3}
    run = train_run(corpus, "run", validation=validation, checkpoints=checkpoints, **options)
    by_update = {line["update"]: line["loss"] for line in metrics(run, "validation")}
    assert len(by_update) == 10
    assert all(f"validation at update {number}: loss {loss:.3f}" in log_of(run) for number, loss in by_update.items())
    ranked = sorted(by_update, key=by_update.get)
    assert ranked != sorted(by_update)
    kept = {checkpoint.train_state.update: checkpoint for checkpoint in list_checkpoints(run.folder)}
    assert set(kept) == {*ranked[:3], 18, 20}  # the second to last is kept for resuming
    best = kept[ranked[0]]
    assert_same(load_tensors(run.weights_path), load_tensors(best.model_path))
    assert run.weights_origin() == {
        "checkpoints": [best.folder.name],
        "metric": "loss",
        "scores": {"loss": by_update[ranked[0]], "perplexity": best.train_state.scores["perplexity"]},
    }


def assert_mean(weights, run, names):
    parts = [load_tensors(run.folder / "checkpoints" / name / "model.safetensors") for name in names]
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, sum(part[name].double() for part in parts).div(len(parts)).float())


@pytest.mark.parametrize(
    ("kind", "kept", "updates"), [("last", {"keep_last": 3}, 6), pytest.param("best", {}, 12, marks=pytest.mark.slow)]
)  # by default the best three
def test_averages_are_means_of_checkpoints(corpus, kind, kept, updates):
    options = {"max_duration": [f"{updates} updates"], "optimizer": {"kind": "adam", "lr": 0.3}}  # it overshoots
    validation = {"every": "2 updates", "metric": "loss"}
    run = train_run(corpus, "run", validation=validation, checkpoints={"average": kind, **kept}, **options)
    validated = [(line["loss"], f"{line['update']:08}") for line in metrics(run, "validation")]
    names = [name for _, name in (validated[-3:] if kind == "last" else sorted(validated)[:3])]
    assert run.weights_origin()["checkpoints"] == names and "the mean of 3 checkpoints" in log_of(run)
    mean = load_tensors(run.weights_path)
    assert_mean(mean, run, names)
    average(run.folder, last=3 if kind == "last" else None, best=3 if kind == "best" else None)
    assert_same(load_tensors(run.weights_path), mean)
    message = r"has \d checkpoints, not 9; average fewer, .*`training.checkpoints.keep_best`"
    with pytest.raises(RunError, match=message):
        average(run.folder, last=None, best=9)


def test_the_newest_checkpoints_have_no_gap(corpus):
    """By default the best three are kept beside the newest two."""
    validation = {"every": "2 updates", "metric": "loss"}
    run = train_run(corpus, "run", max_duration=["12 updates"], validation=validation, checkpoints={"keep_last": 9})
    shutil.rmtree(run.folder / "checkpoints" / "00000008")
    assert str(average(run.folder, last=2, best=None)).endswith("00000010, 00000012")
    with pytest.raises(RunError, match="of the newest 3 checkpoints, update 8 was removed; average fewer"):
        average(run.folder, last=3, best=None)
    average(run.folder, last=None, best=3)


def test_without_kept_checkpoints_the_best_is_the_average(corpus):
    """The best of several, and not the newest; its file is kept though `keep_best` asks for none."""
    options = {"max_duration": ["12 updates"], "optimizer": {"kind": "adam", "lr": 0.3}}  # it overshoots
    options |= {"validation": {"every": "2 updates", "metric": "loss"}}
    run = train_run(corpus, "none", checkpoints={"keep_best": 0, "average": "best"}, **options)
    losses = {line["update"]: line["loss"] for line in metrics(run, "validation")}
    best = min(losses, key=losses.get)
    assert len(losses) == 6 and best < 10
    assert run.weights_origin()["checkpoints"] == [f"{best:08}"]
    assert_mean(load_tensors(run.weights_path), run, [f"{best:08}"])
    assert [checkpoint.train_state.update for checkpoint in list_checkpoints(run.folder)] == [best, 10, 12]


def test_the_average_of_the_last_has_no_gap(corpus):
    """Where fewer were kept before a resumption, older ones are of the best, with others between."""
    options = {"optimizer": {"kind": "adam", "lr": 0.3}, "validation": {"every": "2 updates", "metric": "loss"}}
    run = train_run(corpus, "run", max_duration=["14 updates"], checkpoints={"keep_last": 2, "keep_best": 3}, **options)
    kept = [checkpoint.train_state.update for checkpoint in list_checkpoints(run.folder)]
    assert kept[-2:] == [12, 14] and 10 not in kept and len(kept) > 3
    more = {"checkpoints": {"keep_last": 6, "average": "last"}, "resume": True}
    train_run(corpus, "run", max_duration=["18 updates"], **options, **more)
    names = [f"{update:08}" for update in (12, 14, 16, 18)]
    assert "the mean of 4 checkpoints" in log_of(run)
    assert [checkpoint.folder.name for checkpoint in newest_checkpoints(run, 6)] == names
    assert log_of(run).count("warning: the mean is of the checkpoints since the last one that was removed") == 1
    train_run(corpus, "run", max_duration=["24 updates"], **options, **more)
    assert [checkpoint.train_state.update for checkpoint in newest_checkpoints(run, 6)] == [*range(14, 25, 2)]
    assert "since the last one that was removed" not in log_of(run)  # which was logged after the last checkpoint


@pytest.mark.parametrize("unit", ["epochs", "updates", "hours"])
@pytest.mark.parametrize("parts", [1, 7, 49])
def test_a_duration_is_due_at_each_multiple(unit, parts):
    every = Duration(1 / parts, unit)
    due = [is_due(every, {unit: k / parts}, {unit: (k + 1) / parts}) for k in range(3 * parts)]
    assert all(due)
    finer = [is_due(every, {unit: k / parts / 4}, {unit: (k + 1) / parts / 4}) for k in range(12 * parts)]
    assert finer == [False, False, False, True] * 3 * parts


@pytest.mark.parametrize("length", [7, 10, 50])
def test_a_limit_in_epochs_is_reached_at_its_update(length):
    for update in range(1, 40 * length):
        training = TrainingConfig(max_duration=Duration(update / length, "epochs"))
        before, now = (
            TrainState(epoch=done // length, updates_in_epoch=done % length, updates_per_epoch=length)
            for done in (update - 1, update)
        )
        assert fraction_done(before, training) < 1 <= fraction_done(now, training)


def train_on(folder, run, corpora, *, resume=False, **options):
    config = content(folder, run, **options)
    config["data"]["train"] = corpora
    return train(ExperimentConfig.model_validate(config), resume=resume)


def part(folder, name, start, stop, times=1, **options):
    """Lines of the training text as a corpus, each written `times` times."""
    files = {}
    for side, end in (("source", "src"), ("target", "tgt")):
        lines = (folder / f"train.{end}").read_text().splitlines()[start:stop]
        files[side] = folder / f"{name}.{end}"
        files[side].write_text("".join(f"{line}\n" * times for line in lines))
    return {"kind": "plain", **{side: str(file) for side, file in files.items()}, **options}


def test_repeated_corpora_equal_repeated_lines(corpus):
    # The automatic warm-up is a tenth of the updates of an epoch.
    options = {"max_duration": ["1 epoch"], "batch": {"tokens": 32}, "lr_schedule": {"kind": "inverse-sqrt"}}
    first, second = part(corpus, "first", 0, 30), part(corpus, "second", 30, 48)
    repeated = train_on(corpus, "repeated", [first, {**second, "repeat": 3}], **options)
    options["tokenizer"] = {"run_dir": str(repeated.folder)}  # repeated lines would give another order of words
    written = train_on(corpus, "written", [first, part(corpus, "thrice", 30, 48, 3)], **options)
    once = train_on(corpus, "once", [first, second], **options)
    assert metrics(repeated) == metrics(written) != metrics(once)
    assert_same(last_weights(repeated), last_weights(written))


@pytest.mark.slow
def test_resumed_training_equals_uninterrupted(corpus):
    first = part(corpus, "first", 0, 30, repeat=0.5, tag="half")
    corpora = [first, part(corpus, "second", 30, 48, repeat=1.5, tag="more")]
    validation = {"every": "7 updates", "metric": "loss"}  # an epoch has fewer
    options = {"tokenizer": BPE_DROPOUT, "batch": {"tokens": 160}, "report_every": 1, "validation": validation}
    assert_exact_resume(corpus, 14, train=partial(train_on, corpora=corpora), **options)

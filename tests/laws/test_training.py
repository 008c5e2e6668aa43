"""Laws of training, each through `train` on a small text: what is added up, where one goes on, what is kept."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import yaml

from seq2attn.config.duration import Duration
from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.prepare import load_prepared
from seq2attn.errors import RunError, UserError
from seq2attn.io.weights import load_tensors
from seq2attn.run_directory import RunDirectory
from seq2attn.training.checkpoints.averaging import average_run
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from seq2attn.training.train_state import is_due
from tests.laws.small import (
    BAHDANAU,
    WORDS,
    assert_near,
    assert_same,
    content,
    corpus,
    last_weights,
    metrics,
    trained,
)

__all__ = ["corpus"]  # a fixture

# ---------------------------------------------------------------------- sums

SGD = {
    "optimizer": {"kind": "sgd", "lr": 0.5},
    "max_duration": ["3 epochs"],
    "validation": {"every": "1 epoch"},
}


@pytest.mark.parametrize("clip", [None, 0.1])
def test_accumulating_batches_is_one_large_batch(corpus, clip):
    parts = trained(corpus, "parts", batch={"tokens": 24, "gradient_accumulation": 1000}, max_grad_norm=clip, **SGD)
    whole = trained(corpus, "whole", batch={"tokens": 10_000}, max_grad_norm=clip, **SGD)
    lengths = load_prepared(whole.folder).train.corpus.lengths
    assert len(plan_batches(lengths, tokens=24, seed=1, epoch=0)) > 10
    assert len(plan_batches(lengths, tokens=10_000, seed=1, epoch=0)) == 1
    assert_near(last_weights(parts), last_weights(whole))
    assert list_checkpoints(parts.folder)[-1].train_state.update == 3


def test_a_batch_in_parts_is_the_whole_batch(corpus):
    parts = trained(corpus, "parts", batch={"tokens": 240, "micro_batch_tokens": 24}, **SGD)
    joined = trained(corpus, "joined", batch={"tokens": 24, "gradient_accumulation": 10}, **SGD)
    assert list_checkpoints(parts.folder)[-1].train_state.update > 3
    assert_same(last_weights(parts), last_weights(joined))


def test_a_cpu_does_not_say_how_much_it_holds(corpus):
    with pytest.raises(UserError, match="needs a CUDA GPU; set a number"):
        trained(corpus, "run", batch={"tokens": "fit"})


def test_a_training_that_was_fitted_goes_on_with_what_fitted(corpus):
    whole = trained(corpus, "whole", max_duration=["2 epochs"], batch={"tokens": 44})
    trained(corpus, "parts", max_duration=["1 epoch"], batch={"tokens": 44})
    parts = trained(corpus, "parts", max_duration=["2 epochs"], batch={"tokens": "fit"}, resume=True)
    assert_same(last_weights(parts), last_weights(whole))


def test_two_processes_are_one_that_accumulates(corpus):
    # Two ranks take every other batch of one plan, when these are even in number, so that each update of both learns
    # from the same two batches; the loss is divided by the words of both.
    alone = trained(corpus, "alone", batch={"tokens": 44, "gradient_accumulation": 2}, **SGD)
    lengths = load_prepared(alone.folder).train.corpus.lengths
    assert [len(plan_batches(lengths, tokens=44, seed=1, epoch=e)) % 2 for e in range(3)] == [0, 0, 0]
    config = corpus / "config.yaml"
    config.write_text(yaml.safe_dump(content(corpus, "together", batch={"tokens": 44}, **SGD)))
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("-m", "seq2attn", "train", str(config)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=corpus, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    together = RunDirectory(corpus / "together")
    assert_near(last_weights(together), last_weights(alone))
    for ours, theirs in zip(metrics(together), metrics(alone), strict=True):
        assert ours.pop("signature", None) == theirs.pop("signature", None)
        assert ours.pop("kind") == theirs.pop("kind")
        assert ours == pytest.approx(theirs, rel=1e-4)
    assert {p.name for p in together.folder.iterdir()} == {p.name for p in alone.folder.iterdir()}
    assert "in 2 processes" in (together.folder / "train.log").read_text()


# ---------------------------------------------------------------------- going on


def test_resuming_in_an_epoch_with_other_batches_keeps_its_share(corpus):
    first = trained(corpus, "run", max_duration=["1.5 epochs"], batch={"tokens": 24})
    before = list_checkpoints(first.folder)[-1].train_state
    assert before.updates_in_epoch > 5
    after = list_checkpoints(
        trained(corpus, "run", max_duration=["2 epochs"], batch={"tokens": 150}, resume=True).folder
    )[-1].train_state
    lengths = load_prepared(first.folder).train.corpus.lengths
    whole = len(plan_batches(lengths, tokens=150, seed=1, epoch=1))
    assert (after.epoch, after.updates_in_epoch) == (2, 0)
    assert after.update - before.update == pytest.approx(whole / 2, abs=1)


def test_a_training_that_is_over_stays_as_it_is(corpus):
    run = trained(corpus, "run", max_duration=["4 updates"])
    before, lines = last_weights(run), metrics(run)
    trained(corpus, "run", max_duration=["4 updates"], resume=True)
    assert_same(last_weights(run), before)
    assert metrics(run) == lines


# ---------------------------------------------------------------------- what is kept, and when it ends


def test_the_best_weights_are_the_best(corpus):
    run = trained(
        corpus,
        "run",
        max_duration=["20 updates"],
        optimizer={"kind": "adam", "lr": 0.3},  # too fast, so that it gets worse now and then
        validation={"every": "2 updates", "metric": "loss"},
        checkpoints={"keep_last": 1, "keep_best": 3},
    )
    by_update = {line["update"]: line["loss"] for line in metrics(run, "validation")}
    assert len(by_update) == 10
    ranked = sorted(by_update, key=by_update.get)
    assert ranked != sorted(by_update)
    kept = {checkpoint.train_state.update: checkpoint for checkpoint in list_checkpoints(run.folder)}
    assert set(kept) == {*ranked[:3], 18, 20}  # the one before the last is there to go on from as well
    best = kept[ranked[0]]
    assert_same(load_tensors(run.weights_path), load_tensors(best.model_path))
    assert run.weights_origin() == {
        "checkpoints": [best.folder.name],
        "metric": "loss",
        "scores": {"loss": by_update[ranked[0]], "perplexity": best.train_state.scores["perplexity"]},
    }


@pytest.mark.parametrize("how", ["last", "best"])
def test_averages_are_means_of_the_files(corpus, how):
    checkpoints = {"keep_last": 3, "keep_best": 3, "average": how}
    options = {"max_duration": ["12 updates"], "optimizer": {"kind": "adam", "lr": 0.2}}
    run = trained(corpus, "run", validation={"every": "2 updates"}, checkpoints=checkpoints, **options)
    chosen = [
        load_tensors(run.folder / "checkpoints" / name / "model.safetensors")
        for name in run.weights_origin()["checkpoints"]
    ]
    assert len(chosen) == 3
    mean = load_tensors(run.weights_path)
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, sum(weights[name].double() for weights in chosen).div(3).float())
    assert "the mean of 3 checkpoints" in (run.folder / "train.log").read_text()
    average_run(run.folder, last=3 if how == "last" else None, best=3 if how == "best" else None)
    assert_same(load_tensors(run.weights_path), mean)


def test_by_default_the_best_three_can_be_averaged(corpus):
    """Rates that rise and overshoot: the best are not the newest."""
    run = trained(corpus, "run", max_duration=["20 updates"], optimizer={"kind": "adam", "lr": 0.3})
    validations = metrics(run, "validation")
    assert len(validations) == 5
    best = sorted(validations, key=lambda line: line["loss"])[:3]
    weights = [load_tensors(run.folder / "checkpoints" / f"{line['update']:08}" / "model.safetensors") for line in best]
    average_run(run.folder, last=None, best=3)
    for name, tensor in load_tensors(run.weights_path).items():
        torch.testing.assert_close(tensor, sum(each[name].double() for each in weights).div(3).float())
    with pytest.raises(RunError, match=r"has \d checkpoints, not 6; average fewer, .*`training.checkpoints.keep_best`"):
        average_run(run.folder, last=None, best=6)


def test_the_mean_of_the_best_needs_none_kept_as_best(corpus):
    checkpoints = {"keep_best": 0, "average": "best"}
    run = trained(corpus, "run", max_duration=["4 updates"], checkpoints=checkpoints)
    assert len(run.weights_origin()["checkpoints"]) == 1


# ---------------------------------------------------------------------- first weights


def test_pretrained_vectors_are_what_words_begin_as(corpus):
    known = {word: [(i + j) / 10 for j in range(8)] for i, word in enumerate(WORDS[:30])}
    (corpus / "vectors.txt").write_text(
        "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in known.items())
    )
    model = {**BAHDANAU, "embeddings": {"dim": 8, "source_vectors": str(corpus / "vectors.txt")}}
    run = trained(corpus, "run", model=model, max_duration=["1 update"], optimizer={"kind": "sgd", "lr": 1e-12})
    net, source, _ = run.load_model()
    ids = torch.tensor([source.vocabulary.id(word) for word in known])
    assert len(set(ids.tolist())) == 30
    torch.testing.assert_close(net.source_embedding(ids), torch.tensor(list(known.values())))
    size = len(source.vocabulary)
    log = (run.folder / "train.log").read_text()
    assert f"source vectors: pretrained vectors for 30 of {size} tokens ({30 / size:.1%}); none for <pad>" in log
    assert "target vectors" not in log
    others = torch.tensor(sorted(set(range(size)) - set(ids.tolist())))
    assert net.source_embedding(others).std() > 0.5  # as drawn: scaled to a variance of one


@pytest.mark.parametrize("unit", ["epochs", "updates", "hours"])
@pytest.mark.parametrize("parts", [1, 7, 49])
def test_what_is_done_every_so_often_is_done_as_often(unit, parts):
    every = Duration(1 / parts, unit)
    due = [is_due(every, {unit: k / parts}, {unit: (k + 1) / parts}) for k in range(3 * parts)]
    assert all(due)
    finer = [is_due(every, {unit: k / parts / 4}, {unit: (k + 1) / parts / 4}) for k in range(12 * parts)]
    assert finer == [False, False, False, True] * 3 * parts

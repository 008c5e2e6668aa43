"""Guided alignment: its formula, with any decoder, accumulation, exact resume and config errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from seq2attn.data.collate import collate
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig, guided_alignment_loss
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.training.train import train
from tests.support.models import ALIGNS, DECODERS, model
from tests.support.trainings import (
    BAHDANAU,
    BPE_DROPOUT,
    MODELS,
    assert_exact_resume,
    assert_near,
    content,
    last_weights,
    metrics,
)

PAIRS = [([4, 5, 6, 7], [7, 8]), ([9], [3, 4, 5, 6]), ([3, 4, 5], [6])]
SGD = {"optimizer": {"kind": "sgd", "lr": 0.5}, "max_duration": ["2 epochs"], "validation": {"every": "1 epoch"}}
LUONG, TRANSFORMER = {"kind": "luong", "dim": 8}, MODELS["transformer"]["decoder"]


def random_alignment(rows, steps, sources, seed=0):
    """Rows that sum to 1 or are empty."""
    rng = np.random.default_rng(seed)
    alignment = (rng.random((rows, steps, sources)) < 0.4).astype(float)
    alignment[:, ::3] = 0
    return alignment / np.maximum(alignment.sum(-1, keepdims=True), 1)


def test_the_loss_is_the_cross_entropy_of_aligned_rows():
    alignment, weights = random_alignment(3, 5, 4), np.random.default_rng(1).dirichlet(np.ones(4), (3, 5))
    loss, num_aligned = guided_alignment_loss(torch.tensor(weights), torch.tensor(alignment))
    assert 0 < num_aligned == (alignment.sum(-1) > 0).sum() < 15
    torch.testing.assert_close(loss, torch.tensor(-(alignment * np.log(weights)).sum()))


@pytest.mark.parametrize(
    ("head", "layer", "pick"),
    [
        (1, None, lambda w: w[:, 1, 0]),  # the second to last
        (2, 3, lambda w: w[:, 2, 1]),
        ("mean", 1, lambda w: (w[:, 0, 0] + w[:, 0, 1]) / 2),
    ],
)
def test_one_head_is_guided(head, layer, pick):
    weights = torch.rand(2, 3, 2, 4, 5)
    config = GuidedAlignmentConfig(head=head, layer=layer)
    torch.testing.assert_close(config.select_attention(weights), pick(weights))
    assert GuidedAlignmentConfig().resolve_layer(1) == 1


def test_weights_of_zero_have_a_finite_loss_and_no_gradient():
    weights = torch.tensor([[[0.0, 1.0], [0.5, 0.5], [1e-30, 1.0]]], requires_grad=True)
    loss, _ = guided_alignment_loss(weights, torch.tensor([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]]))
    (gradient,) = torch.autograd.grad(loss, weights)
    assert loss.isfinite() and gradient.isfinite().all()
    assert loss > 80
    assert gradient[0, 0].tolist() == [0, 0]
    assert gradient[0, 1, 0] == pytest.approx(-2)
    assert gradient[0, 2, 0] < -1e29


def aligned_batch():
    batch = collate(PAIRS)
    alignment = random_alignment(*batch.labels.shape, batch.source.size(1))
    for row, (source, target) in enumerate(PAIRS):
        alignment[row, len(target) :] = 0
        alignment[row, :, len(source) :] = 0
    alignment /= np.maximum(alignment.sum(-1, keepdims=True), 1e-9)
    return replace(batch, alignment_targets=torch.tensor(alignment))


@pytest.mark.parametrize(
    ("decoder", "align"),
    [*((d, "global") for d in DECODERS), *(("luong-feeding", a) for a in ALIGNS if a != "global")],
)
def test_the_objective_adds_the_loss_for_any_decoder(decoder, align):
    net, batch = model("gru", decoder, "multi-head", align), aligned_batch()
    train_guided = GuidedAlignmentConfig(weight=0.3)
    plain, both = TrainingLoss(net, 0.1)(batch), TrainingLoss(net, 0.1, train_guided)(batch)
    attention = net(batch.source, batch.sequences, batch.target, need_weights=True).cross_attention
    layer = attention[:, max(0, attention.size(1) - 2), 0]
    logs = torch.where(layer > 0, layer.clamp_min(1e-300).log(), np.log(np.finfo(float).tiny))
    torch.testing.assert_close(both.guided_alignment, -(batch.alignment_targets * logs).sum())
    torch.testing.assert_close(both.loss, plain.loss + 0.3 * both.guided_alignment)
    torch.testing.assert_close(both.negative_log_likelihood, plain.negative_log_likelihood)
    assert plain.guided_alignment == plain.num_guided_tokens == 0
    assert both.num_guided_tokens == (batch.alignment_targets.sum(-1) > 0).sum() > 0
    gradients = torch.autograd.grad(both.loss, [*net.parameters()], allow_unused=True)
    assert all(g.isfinite().all() for g in gradients if g is not None)
    torch.testing.assert_close(TrainingLoss(net, 0.1, train_guided)(collate(PAIRS)).loss, plain.loss)


@pytest.mark.parametrize("align", ["hard-reinforce", "hard-gumbel"])
def test_hard_attention_is_guided_by_its_distribution(align):
    """Not by the sample: a linked position that it misses has a weight, and a gradient."""
    net, batch = model("gru", "luong-feeding", "additive", align).train(), aligned_batch()
    weights = net(batch.source, batch.sequences, batch.target, need_weights=True).cross_attention
    reached = batch.sequences.mask[:, None, None, None].expand_as(weights)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert ((weights > 0) == reached).all()
    scores = [value for key, value in net.named_parameters() if ".score." in key]
    loss, _ = guided_alignment_loss(weights[:, 0, 0], batch.alignment_targets)
    assert loss < 20 and all(gradient.any() for gradient in torch.autograd.grad(loss, scores))


def train_guided(folder, run, *, resume=False, guide=None, **options):
    """A training on reversed text, with its word alignments."""
    lines = (folder / "train.src").read_text().splitlines()
    links = [" ".join(f"{len(line.split()) - 1 - t}-{t}" for t in range(len(line.split()))) for line in lines]
    (folder / "train.align").write_text("".join(f"{line}\n" for line in links))
    values = content(folder, run, **options)
    values["data"]["train"]["alignment"] = str(folder / "train.align")
    values["training"]["guided_alignment"] = guide or {"weight": 0.5}
    return train(ExperimentConfig.model_validate(values), resume=resume)


@pytest.mark.slow
def test_accumulated_batches_equal_one_large_batch(corpus):
    parts = train_guided(corpus, "parts", batch={"tokens": 24, "gradient_accumulation": 1000}, **SGD)
    whole = train_guided(corpus, "whole", batch={"tokens": 10_000}, **SGD)
    assert_near(last_weights(parts), last_weights(whole))
    for one, other in zip(metrics(parts, "train"), metrics(whole, "train"), strict=True):
        assert one["guided_alignment_loss"] == pytest.approx(other["guided_alignment_loss"], rel=1e-4)
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_a_report_is_the_mean_over_the_aligned_tokens_of_its_updates(corpus):
    """Without label smoothing the losses of guided alignment are what the loss has more than the log-perplexity."""
    options = {"max_duration": ["3 updates"], "label_smoothing": 0}
    lines = metrics(train_guided(corpus, "each", report_every=1, **options), "train")
    (report,) = metrics(train_guided(corpus, "once", report_every=3, **options), "train")
    tokens = np.diff([0, *(line["target_tokens"] for line in lines)])
    sums = tokens * [line["loss"] - np.log(line["perplexity"]) for line in lines]
    num_aligned = sums / [line["guided_alignment_loss"] for line in lines]
    assert report["guided_alignment_loss"] == pytest.approx(sums.sum() / num_aligned.sum(), rel=1e-3)


@pytest.mark.slow
def test_a_resumed_guided_training_equals_an_uninterrupted_one(corpus):
    options = {"model": MODELS["transformer"], "tokenizer": BPE_DROPOUT, "guide": {"weight": 1, "head": 2}}
    validation = {"every": "6 updates", "metric": "loss"}  # in the second epoch
    assert_exact_resume(
        corpus, 12, train=train_guided, batch={"tokens": 160}, report_every=1, validation=validation, **options
    )


@pytest.mark.parametrize(
    ("decoder", "guide", "message"),
    [
        (LUONG, {}, r"guided_alignment: needs word alignments: set"),
        ({"kind": "fixed-context", "dim": 8}, {}, r"guided_alignment: guides attention, but the decoder has none"),
        (TRANSFORMER, {"layer": 3}, r"guided_alignment\.layer: there is no layer 3; the decoder has 1"),
        (TRANSFORMER, {"head": 5}, r"guided_alignment\.head: there is no head 5; a layer has 2"),
        (LUONG, {"head": 2}, r"guided_alignment\.head: there is no head 2; a layer has 1"),
    ],
)
def test_models_that_cannot_be_guided_are_refused(tmp_path, decoder, guide, message):
    values = content(tmp_path, "run", model=BAHDANAU | {"decoder": decoder}, guided_alignment=guide)
    values["data"]["train"] |= {} if "needs" in message else {"alignment": "links"}
    with pytest.raises(ValueError, match=message):
        ExperimentConfig.model_validate(values)


def test_a_plug_in_decoder_is_checked_before_training(corpus):
    decoder = {"kind": "tests.support.faults:Blind"}
    with pytest.raises(UserError, match=r"`training.guided_alignment` guides attention, but the decoder has none"):
        train_guided(corpus, "run", model={**BAHDANAU, "decoder": decoder})

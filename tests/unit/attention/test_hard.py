"""Hard attention: its samples, and the gradients of its two estimators."""

import math

import pytest
import torch

from seq2attn.attention.align_functions import masked_softmax
from seq2attn.attention.base import QueryInfo
from seq2attn.attention.hard import GumbelAlignment, ReinforceAlignment, ReinforceAlignmentConfig
from seq2attn.data.collate import collate
from seq2attn.losses.training_loss import TrainingLoss, reinforce_loss
from seq2attn.models import ModelConfig, build_model
from seq2attn.training.checkpoints.checkpoint import list_checkpoints
from tests.support.models import calm, model
from tests.support.trainings import MODELS, metrics, train_run

SCORES = torch.tensor([1.0, -0.5, 0.3, 2.0], dtype=torch.double)
MASK = torch.tensor([True, True, True, False])
INFO = QueryInfo(torch.empty(1, 1, 0), torch.zeros(1, 1))


@pytest.mark.parametrize("scores", [SCORES, (SCORES + 100).bfloat16()], ids=["double", "bfloat16"])
@pytest.mark.parametrize("align", [ReinforceAlignment(1.0, 0.0), GumbelAlignment(0.5)])
def test_samples_follow_the_softmax(align, scores):
    samples, expected = 20_000, masked_softmax(scores.double(), MASK)
    torch.manual_seed(0)
    weights = align.train()(scores.expand(samples, 1, 1, -1), MASK, INFO)[:, 0, 0]
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.sum(-1) == 1).all()
    sigma = (expected * (1 - expected) / samples).sqrt()
    assert ((weights.mean(0) - expected).abs() <= 4 * sigma).all()


def test_gumbel_has_the_gradient_of_its_relaxation():
    scores, value = SCORES.clone().requires_grad_(), torch.tensor([3.0, 1.0, 2.0, 9.0], dtype=torch.double)
    torch.manual_seed(1)
    (GumbelAlignment(0.7).train()(scores.expand(1, 1, 1, -1), MASK, INFO) * value).sum().backward()
    torch.manual_seed(1)
    noise = -torch.empty(1, 1, 1, 4, dtype=torch.double).exponential_().log().flatten()
    soft = scores.detach().clone().requires_grad_()
    (masked_softmax((soft + noise) / 0.7, MASK) * value).sum().backward()
    torch.testing.assert_close(scores.grad, soft.grad)


@pytest.mark.parametrize("baseline", [0.0, -3.0])
def test_reinforce_is_the_gradient_of_the_expectation(baseline):
    # Two tokens: the first sample affects both log-probabilities, the second only its own. Padding counts for nothing.
    scores = torch.stack([SCORES, SCORES.flip(0)]).requires_grad_()
    first = torch.tensor([-1.0, -2.0, -0.5, -4.0], dtype=torch.double)
    second = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    log_softmax, mask = scores.log_softmax(-1), torch.tensor([[True, True, False]])
    estimate = torch.zeros_like(scores)
    for i in range(4):
        for j in range(4):
            samples = torch.stack([log_softmax[0, i], log_softmax[1, j], log_softmax[1, j]])[None]
            log_probs = torch.stack([first[i], second[i, j], first[j]])[None]
            loss = reinforce_loss(samples, log_probs.masked_fill(~mask, 0.0), mask, baseline)
            assert loss == 0
            (gradient,) = torch.autograd.grad(loss, scores, retain_graph=True)
            estimate += samples[mask].sum().exp().detach() * gradient
    one, other = log_softmax.exp()
    expected = (one * first).sum() + (one[:, None] * other * second).sum()
    torch.testing.assert_close(estimate, -torch.autograd.grad(expected, scores)[0])


def test_the_baseline_is_a_moving_average(corpus):
    """In a training: of the log-probabilities per token of all updates so far, also over a resumption."""
    options = {
        "report_every": 1,
        "validation": {"every": "1 update", "metric": "loss"},
        "checkpoints": {"keep_last": 9},
    }
    for updates in (3, 6):
        run = train_run(
            corpus, "run", model=MODELS["hard"], max_duration=[f"{updates} updates"], resume="if-exists", **options
        )
    means = [-math.log(line["perplexity"]) for line in metrics(run, "train")]
    assert len({*means}) == 6
    expected = means[0]
    for mean, checkpoint in zip(means, list_checkpoints(run.folder), strict=True):
        expected = 0.9 * expected + 0.1 * mean
        assert checkpoint.train_state.reinforce_baseline == pytest.approx(expected, rel=1e-5)


def test_a_layer_that_is_skipped_is_not_trained_by_its_samples():
    attention = {"score": {"kind": "multi-head", "heads": 2}, "align": {"kind": "hard-reinforce"}}
    layers = {"kind": "transformer", "layers": 3, "heads": 2, "ffn_dim": 8, "attention": attention}
    parts = {"embeddings": {"dim": 8}, "encoder": {"kind": "gru", "dim": 8}, "decoder": layers}
    net = build_model(ModelConfig.model_validate(parts), 11, 11).train()
    batch, trains = collate([([3, 4, 5, 6, 7], [5, 4, 3])] * 4), []
    for p in (0.0, 0.5, 0.999):
        net.decoder.layer_drop.p = p
        for seed in range(6):
            net.zero_grad()
            torch.manual_seed(seed)
            TrainingLoss(net)(batch, -2.0).loss.backward()
            for layer in net.decoder.layers:  # the feed-forward layer has a gradient if the layer counts
                one, other = (
                    layer.feed_forward.down_proj.weight.grad,
                    layer.cross_attention.score.query_proj.weight.grad,
                )
                assert one.any() == other.any()
                trains.append((p, bool(one.any())))
    assert {*trains} == {(0.0, True), (0.5, True), (0.5, False), (0.999, False)}


def test_a_share_of_the_queries_has_the_expected_weights():
    torch.manual_seed(0)
    align = ReinforceAlignmentConfig(weight=0.5, expected_share=0.3).build(1).train()
    scores = SCORES.expand(2000, 1, 1, -1)
    weights = align(scores, MASK, INFO)
    expected = masked_softmax(SCORES, MASK)
    is_expected = torch.isclose(weights, expected).all(-1)
    assert ((weights[~is_expected] == 0) | (weights[~is_expected] == 1)).all()
    assert 0.25 < is_expected.double().mean() < 0.35
    log_prob = align.sample_log_prob(scores, MASK, weights)
    assert (log_prob[is_expected] == 0).all()
    torch.testing.assert_close(log_prob[~is_expected], 0.5 * expected.log()[weights[~is_expected].argmax(-1)])


@pytest.mark.parametrize("decoder", ["bahdanau-gru", "luong", "transformer", "convolutional"])
def test_scores_are_trained_by_the_samples(decoder):
    net = calm(model("gru", decoder, "multi-head", "hard-reinforce"))
    objective, batch = TrainingLoss(net), collate([([3, 4, 5, 6, 7], [5, 4, 3])] * 4)
    loss = objective(batch, -2.0)
    assert loss.samples_attention
    loss.loss.backward()
    torch.testing.assert_close(loss.loss, loss.negative_log_likelihood)
    assert [n for n, p in net.named_parameters() if p.grad is None] == []
    assert not objective.eval()(batch).samples_attention
    assert not TrainingLoss(calm(model("gru", decoder)))(batch).samples_attention

"""Hard attention: what it draws, and what it learns from it."""

from __future__ import annotations

import pytest
import torch

from seq2attn.attention import QueryInfo
from seq2attn.attention.alignment import masked_softmax
from seq2attn.attention.hard import GumbelAlignment, ReinforceAlignment
from seq2attn.data.collate import collate
from seq2attn.training.loss import TrainingLoss
from seq2attn.training.reinforce import reinforce_loss, update_baseline
from tests.laws.parts import calm, model

SCORES = torch.tensor([1.0, -0.5, 0.3, 2.0], dtype=torch.double)
MASK = torch.tensor([True, True, True, False])
ASKED = QueryInfo(torch.empty(1, 1, 0), torch.zeros(1, 1))


@pytest.mark.parametrize("align", [ReinforceAlignment(1.0, 0.0), GumbelAlignment(0.5)])
def test_words_are_drawn_as_often_as_their_softmax_says(align):
    draws, likely = 20_000, masked_softmax(SCORES, MASK)
    torch.manual_seed(0)
    weights = align.train()(SCORES.expand(draws, 1, 1, -1), MASK, ASKED)[:, 0, 0]
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.sum(-1) == 1).all()
    sigma = (likely * (1 - likely) / draws).sqrt()
    assert ((weights.mean(0) - likely).abs() <= 4 * sigma).all()


@pytest.mark.parametrize("align", [ReinforceAlignment(1.0, 0.0), GumbelAlignment(0.5)])
def test_after_training_the_likeliest_is_taken(align):
    weights = align.eval()(SCORES.expand(5, 1, 1, -1), MASK, ASKED)
    assert (weights == torch.tensor([1.0, 0, 0, 0])).all()
    assert align.sample_log_prob(SCORES, MASK, weights) is None


def test_gumbels_gradient_is_that_of_its_relaxation():
    scores, value = SCORES.clone().requires_grad_(), torch.tensor([3.0, 1.0, 2.0, 9.0], dtype=torch.double)
    torch.manual_seed(1)
    (GumbelAlignment(0.7).train()(scores.expand(1, 1, 1, -1), MASK, ASKED) * value).sum().backward()
    torch.manual_seed(1)
    noise = -torch.empty(1, 1, 1, 4, dtype=torch.double).exponential_().log().flatten()
    soft = scores.detach().clone().requires_grad_()
    (masked_softmax((soft + noise) / 0.7, MASK) * value).sum().backward()
    torch.testing.assert_close(scores.grad, soft.grad)


@pytest.mark.parametrize("baseline", [0.0, -3.0])
def test_reinforce_is_on_average_the_gradient_of_what_is_to_be_expected(baseline):
    # Two words: what is drawn for the first has a say in both log-probabilities, what is drawn for the second in one.
    scores = torch.stack([SCORES, SCORES.flip(0)]).requires_grad_()
    first = torch.tensor([-1.0, -2.0, -0.5, -4.0], dtype=torch.double)
    second = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    likely = scores.log_softmax(-1)
    words = torch.ones(1, 2, dtype=torch.bool)
    estimate = torch.zeros_like(scores)
    for i in range(4):
        for j in range(4):
            drawn, log_probs = (
                torch.stack([likely[0, i], likely[1, j]])[None],
                torch.stack([first[i], second[i, j]])[None],
            )
            loss = reinforce_loss(drawn, log_probs, words, baseline)
            assert loss == 0
            (gradient,) = torch.autograd.grad(loss, scores, retain_graph=True)
            estimate += drawn.sum().exp().detach() * gradient
    one, other = likely.exp()
    expected = (one * first).sum() + (one[:, None] * other * second).sum()
    torch.testing.assert_close(estimate, -torch.autograd.grad(expected, scores)[0])


def test_padding_has_no_say():
    drawn = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0]], requires_grad=True)
    log_probs = torch.tensor([[-1.0, -2.0, 0.0], [-1.0, -2.0, -7.0]])
    words = torch.tensor([[True, True, False], [True, True, True]])
    gradient = torch.autograd.grad(reinforce_loss(drawn, log_probs, words, -1.5), drawn)[0]
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0.5, 0.0], [5.5, 6.0, 5.5]]))


def test_the_baseline_moves_towards_the_mean():
    assert update_baseline(None, -4.0) == -4.0
    assert update_baseline(-4.0, -2.0) == pytest.approx(-3.8)


def test_a_share_of_the_queries_is_given_the_expected_weights():
    torch.manual_seed(0)
    align = ReinforceAlignment(0.5, 0.3).train()
    scores = SCORES.expand(2000, 1, 1, -1)
    weights = align(scores, MASK, ASKED)
    likely = masked_softmax(SCORES, MASK)
    is_expected = torch.isclose(weights, likely).all(-1)
    assert ((weights[~is_expected] == 0) | (weights[~is_expected] == 1)).all()
    assert 0.25 < is_expected.double().mean() < 0.35
    drawn = align.sample_log_prob(scores, MASK, weights)
    assert (drawn[is_expected] == 0).all()
    chosen = weights[~is_expected].argmax(-1)
    torch.testing.assert_close(drawn[~is_expected], 0.5 * likely.log()[chosen])


@pytest.mark.parametrize("decoder", ["bahdanau-gru", "luong", "transformer", "convolutional"])
def test_scores_learn_from_what_was_drawn(decoder):
    net = calm(model("gru", decoder, "multi-head", "hard-reinforce"))
    objective, batch = TrainingLoss(net), collate([([3, 4, 5, 6, 7], [5, 4, 3])] * 4)
    loss = objective(batch, -2.0)
    assert loss.samples_attention
    loss.loss.backward()
    torch.testing.assert_close(loss.loss, loss.negative_log_likelihood)
    assert [n for n, p in net.named_parameters() if p.grad is None] == []
    assert not objective.eval()(batch).samples_attention
    assert not TrainingLoss(calm(model("gru", decoder)))(batch).samples_attention

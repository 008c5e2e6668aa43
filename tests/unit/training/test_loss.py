"""The output layer with its cross-entropy against PyTorch's cross-entropy of all logits at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from seq2attn.data.collate import IGNORE_INDEX, collate
from seq2attn.training import loss as loss_module
from seq2attn.training.loss import TrainingLoss, linear_cross_entropy
from tests.launches import Launches
from tests.laws.parts import model

ROWS, DIM, WORDS = 13, 4, 7
CHUNKS = {"one": 10_000, "several": 3 * WORDS, "a row each": 1}


@pytest.fixture(params=CHUNKS)
def chunk(request, monkeypatch):
    monkeypatch.setitem(loss_module.CHUNK_LOGITS, "cpu", CHUNKS[request.param])


def given(dtype=torch.double, scale=1.0):
    """hidden, weight, bias, labels"""
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, DIM), (WORDS, DIM), (WORDS,))
    tensors = [torch.randn(*s, generator=generator, dtype=torch.double) * scale for s in shapes]
    labels = torch.randint(0, WORDS, (ROWS,), generator=generator)
    return *(x.to(dtype).requires_grad_() for x in tensors), labels


def plain(hidden, weight, bias, labels, smoothing):
    """Both from the whole table of logits."""
    logits = F.linear(hidden, weight, bias)
    return (
        F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum"),
        -F.cross_entropy(logits, labels, reduction="none"),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_values_and_gradients(chunk, smoothing):
    *tensors, labels = given()
    ours, theirs = (f(*tensors, labels, smoothing) for f in (linear_cross_entropy, plain))
    torch.testing.assert_close(ours, theirs)
    # Scaled, as training divides by the number of words.
    one, other = (torch.autograd.grad(loss * 0.37, tensors) for loss in (ours[0], theirs[0]))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_by_differences(chunk, smoothing):
    *tensors, labels = given()
    assert torch.autograd.gradcheck(lambda *x: linear_cross_entropy(*x, labels, smoothing)[0], tensors)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_that_are_embeddings_too(chunk, smoothing):
    *_, weight, bias, labels = given()
    read = torch.arange(ROWS) % WORDS
    losses = [f(weight[read] * 2, weight, bias, labels, smoothing)[0] for f in (linear_cross_entropy, plain)]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(loss, (weight, bias)) for loss in losses))


def test_without_gradients(chunk):
    *tensors, labels = given()
    with torch.no_grad():
        ours = linear_cross_entropy(*tensors, labels, 0.1)
    assert not any(x.requires_grad for x in ours)
    torch.testing.assert_close(ours, plain(*(x.detach() for x in tensors), labels, 0.1))


def test_large_logits_stay_finite(chunk):
    *tensors, labels = given(torch.float32, scale=300.0)
    ours, theirs = (f(*tensors, labels, 0.1) for f in (linear_cross_entropy, plain))
    torch.testing.assert_close(ours, theirs)
    assert all(g.isfinite().all() for g in torch.autograd.grad(ours[0], tensors))


def test_only_the_objective_has_gradients(chunk):
    *tensors, labels = given()
    for smoothing in (0.0, 0.1):
        loss, log_probs = linear_cross_entropy(*tensors, labels, smoothing)
        assert loss.requires_grad
        assert not log_probs.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_is_roughly_float32(chunk, smoothing):
    *tensors, labels = given(torch.float32)
    full = linear_cross_entropy(*tensors, labels, smoothing)
    with torch.autocast("cpu", torch.bfloat16):
        low = linear_cross_entropy(*tensors, labels, smoothing)
    assert all(x.dtype == torch.float32 for x in low)
    torch.testing.assert_close(low, full, rtol=0.02, atol=0.02)
    ours, theirs = (torch.autograd.grad(loss[0], tensors) for loss in (low, full))
    assert all(g.dtype == torch.float32 for g in ours)
    torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("words", [8_000, 32_000])
def test_a_card_is_told_little_to_make_the_loss_of_many_words(words):
    """Of 24,000 words, of which a chunk as small as a CPU likes it would take thousands of launches."""
    with torch.device("meta"):
        hidden, weight, bias = (torch.zeros(*s, requires_grad=True) for s in ((24_000, 8), (words, 8), (words,)))
        labels = torch.zeros(24_000, dtype=torch.long)
    with Launches() as launches:
        linear_cross_entropy(hidden, weight, bias, labels, 0.1)[0].backward()
    assert hidden.grad is not None and launches.by_name["softmax"] + launches.by_name["_softmax"] > 1
    assert launches.count < 400


def test_the_loss_of_a_batch_is_that_of_its_words():
    net = model("gru", "luong")
    pairs = [([4, 5, 6], [7, 8]), ([9], [3, 4, 5, 6])]
    batch = collate(pairs)
    loss = TrainingLoss(net, 0.1)(batch)
    assert loss.num_target_tokens == (2 + 1) + (4 + 1)  # with the end of each
    alone = [TrainingLoss(net, 0.1)(collate([pair])) for pair in pairs]
    torch.testing.assert_close(loss.loss, sum(one.loss for one in alone))
    torch.testing.assert_close(loss.negative_log_likelihood, sum(one.negative_log_likelihood for one in alone))
    logits = net.output_projection(net(batch.source, batch.source_mask, batch.target).hidden).flatten(0, 1)
    expected = F.cross_entropy(
        logits, batch.labels.flatten(), label_smoothing=0.1, ignore_index=IGNORE_INDEX, reduction="sum"
    )
    torch.testing.assert_close(loss.loss, expected)


def test_what_stands_in_padding_has_no_gradient():
    """Nor does it cost a row of the output layer."""
    net = model("gru", "luong")
    batch = collate([([4, 5], [7, 8, 3]), ([9], [3])])
    assert len(batch.label_index) == 4 + 2
    read = []
    net.target_embedding.register_forward_hook(lambda module, given, words: words.retain_grad() or read.append(words))
    TrainingLoss(net, 0.1)(batch).loss.backward()
    (words,) = read
    assert (words.grad[1, 2:] == 0).all()
    assert (words.grad[1, :2] != 0).any(-1).all()

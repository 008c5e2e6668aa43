"""The output layer with its cross-entropy against PyTorch's cross-entropy of all logits at once."""

import pytest
import torch
import torch.nn.functional as F

from seq2attn.nn.kernels import cross_entropy
from seq2attn.nn.kernels.cross_entropy import linear_cross_entropy, symmetric_kl

ROWS, DIM, WORDS = 13, 4, 7
CHUNKS = {"one": 10_000, "several": 3 * WORDS, "a row each": 1}


@pytest.fixture(params=CHUNKS)
def chunk(request, monkeypatch):
    monkeypatch.setitem(cross_entropy.CHUNK_LOGITS, "cpu", CHUNKS[request.param])
    monkeypatch.setattr(cross_entropy, "MIN_CHUNK_ROWS", 1)


def inputs(dtype=torch.double, scale=1.0):
    """hidden, weight, bias, labels"""
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, DIM), (WORDS, DIM), (WORDS,))
    tensors = [torch.randn(*s, generator=generator, dtype=torch.double) * scale for s in shapes]
    labels = torch.randint(0, WORDS, (ROWS,), generator=generator)
    return *(x.to(dtype).requires_grad_() for x in tensors), labels


def reference(hidden, weight, bias, labels, smoothing):
    """Loss and log-probabilities from all logits."""
    logits = F.linear(hidden, weight, bias)
    return (
        F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum"),
        -F.cross_entropy(logits, labels, reduction="none"),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_values_and_gradients(chunk, smoothing):
    *tensors, labels = inputs()
    ours, theirs = (f(*tensors, labels, smoothing) for f in (linear_cross_entropy, reference))
    torch.testing.assert_close(ours, theirs)
    assert ours[0].requires_grad and not ours[1].requires_grad
    one, other = (torch.autograd.grad(loss * 0.37, tensors) for loss in (ours[0], theirs[0]))
    torch.testing.assert_close(one, other)


def test_large_logits_stay_finite(chunk):
    *tensors, labels = inputs(torch.float32, scale=300.0)
    ours, theirs = (f(*tensors, labels, 0.1) for f in (linear_cross_entropy, reference))
    torch.testing.assert_close(ours, theirs)
    assert all(g.isfinite().all() for g in torch.autograd.grad(ours[0], tensors))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_is_roughly_float32(chunk, smoothing):
    *tensors, labels = inputs(torch.float32)
    full = linear_cross_entropy(*tensors, labels, smoothing)
    with torch.autocast("cpu", torch.bfloat16):
        low = linear_cross_entropy(*tensors, labels, smoothing)
    assert all(x.dtype == torch.float32 for x in low)
    torch.testing.assert_close(low, full, rtol=0.02, atol=0.02)
    ours, theirs = (torch.autograd.grad(loss[0], tensors) for loss in (low, full))
    assert all(g.dtype == torch.float32 for g in ours)
    torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("device", "tokens", "words", "most"),
    [("meta", 24_000, 8_000, 12), ("meta", 24_000, 32_000, 12), ("cpu", 512, 32_000, 2)],
)
def test_the_loss_has_few_chunks(device, tokens, words, most, monkeypatch):
    """On a GPU (here the meta device) each takes thirty kernel launches, on a CPU a sum of the weight's gradient."""
    chunks, softmax = [], torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda *args, **out: chunks.append(args) or softmax(*args, **out))
    with torch.device(device):
        hidden, weight, bias = (torch.zeros(*s, requires_grad=True) for s in ((tokens, 8), (words, 8), (words,)))
        labels = torch.zeros(tokens, dtype=torch.long)
    linear_cross_entropy(hidden, weight, bias, labels, 0.1)[0].backward()
    assert hidden.grad is not None and 1 < len(chunks) <= most


def test_symmetric_kl_is_the_mean_of_both_divergences(chunk):
    hidden, weight, bias, _ = inputs()
    other = torch.randn(ROWS, DIM, dtype=torch.double, requires_grad=True)
    output = torch.nn.Linear(DIM, WORDS).double()
    output.load_state_dict({"weight": weight.detach(), "bias": bias.detach()})
    p, q = (torch.log_softmax(output(x), -1) for x in (hidden, other))
    expected = sum(F.kl_div(*pair, log_target=True, reduction="sum") for pair in ((p, q), (q, p))) / 2
    found, tensors = symmetric_kl(hidden, other, output), (hidden, other, *output.parameters())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    one, reference = (torch.autograd.grad(value, tensors) for value in (found, expected))
    torch.testing.assert_close(one, reference, rtol=1e-4, atol=1e-6)

"""Linear layers and dropout: PyTorch's results, in a product or prepacked, and an even sample of zeros."""

import copy

import pytest
import torch
import torch.nn.functional as F

from seq2attn.nn.kernels.linear import (
    HAS_ONEDNN,
    MIN_ROWS,
    MIN_TOTAL_ROWS,
    ROW_MULTIPLE,
    Linear,
    PrepackedLinear,
    PrepackedWeight,
    linear_input_grad,
    prefers_onednn,
    prepack_linears,
)
from seq2attn.nn.layers import Dropout, FeedForward, linear_relu
from seq2attn.nn.packing import Sequences
from tests.support.models import WORDS, model

NEAR = {"rtol": 1e-4, "atol": 1e-4}


def inputs(rows, bias=True, dtype=torch.float32):
    torch.manual_seed(rows)
    x, layer = torch.randn(rows, 24, requires_grad=True, dtype=dtype), torch.nn.Linear(24, 40, bias, dtype=dtype)
    return x, layer, torch.randn(rows, 40, dtype=dtype)


def assert_same(ours, theirs, d, x, ours_of, theirs_of):
    torch.testing.assert_close(ours, theirs, **NEAR)
    one, other = (torch.autograd.grad((y * d).sum(), (x, *of)) for y, of in ((ours, ours_of), (theirs, theirs_of)))
    torch.testing.assert_close(one, other, **NEAR)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, ROW_MULTIPLE, MIN_ROWS, MIN_ROWS + 1])
def test_a_linear_layer_is_pytorchs(rows, bias):
    assert HAS_ONEDNN, "this PyTorch has other operators for oneDNN, without which training is slow"
    x, layer, d = inputs(rows, bias)
    ours = Linear(24, 40, bias=bias)
    ours.load_state_dict(layer.state_dict())
    assert_same(ours(x.view(1, rows, 24))[0], layer(x), d, x, list(ours.parameters()), list(layer.parameters()))
    torch.testing.assert_close(linear_input_grad(d, layer.weight), d @ layer.weight, **NEAR)


@pytest.mark.parametrize(("rows", "p"), [(MIN_ROWS, 0.0), (10 * ROW_MULTIPLE, 0.25)])
def test_a_relu_and_dropout_in_the_product_are_the_three_layers(rows, p):
    x, layer, d = inputs(rows)
    y, plain = linear_relu(x, layer.weight, layer.bias, p), F.relu(layer(x))
    mask = ((y > 0) | (plain == 0)).float() / (1 - p)
    assert ((y == 0).float().mean() > (plain == 0).float().mean() + 0.05) == bool(p)
    assert_same(y, plain * mask, d, x, *[list(layer.parameters())] * 2)


def test_feed_forward_is_the_same_in_training_and_inference():
    layer = FeedForward(16, 48, 0.0, "relu")
    x = torch.randn(2, MIN_ROWS, 16)
    assert prefers_onednn(x)
    torch.testing.assert_close(layer.train()(x), layer.eval()(x))


@pytest.mark.parametrize(("rows", "dtype"), [(1, torch.float32), (MIN_TOTAL_ROWS, torch.float32), (1, torch.float64)])
def test_products_with_a_prepacked_weight(rows, dtype):
    x, layer, d = inputs(rows, dtype=dtype)
    weight, x = layer.weight.detach(), x.detach()
    prepacked = PrepackedWeight(weight, rows, 2)
    for n in (rows, 1):
        torch.testing.assert_close(prepacked.forward(x[:n], d[:n]), d[:n] + x[:n] @ weight.T, **NEAR)
    torch.testing.assert_close(prepacked.backward(d), d @ weight, **NEAR)


@pytest.mark.parametrize("decoder", ["bahdanau-gru", "transformer"])
def test_a_prepacked_model_computes_the_same(decoder):
    net = model("gru", decoder).float().eval()
    prepacked = copy.deepcopy(net)
    prepack_linears(prepacked)
    assert PrepackedLinear in {type(module) for module in prepacked.modules()}
    source, target = torch.randint(4, WORDS, (3, 5)), torch.randint(4, WORDS, (3, 4))
    sequences = Sequences(torch.ones_like(source, dtype=torch.bool))
    with torch.no_grad():
        ours, theirs = (m.output_projection(m(source, sequences, target).hidden) for m in (prepacked, net))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert prepacked(source, sequences, target).hidden.requires_grad


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_is_p_and_the_mean_is_unchanged(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 999)
    y = Dropout(p)(x)
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=4 * (p * (1 - p) / x.numel()) ** 0.5)
    assert y.mean().item() == pytest.approx(1.0, abs=4 * (p / (1 - p) / x.numel()) ** 0.5)
    assert y.unique().numel() == 2


def test_neighbors_are_independent():
    """Four elements share one random number."""
    torch.manual_seed(0)
    dropped = (Dropout(0.5)(torch.ones(400_000)) == 0).view(-1, 4).double()
    assert torch.corrcoef(dropped.T).fill_diagonal_(0).abs().max() < 4 / len(dropped) ** 0.5


def test_the_gradient_is_the_mask_which_the_seed_determines():
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    y = Dropout(0.4)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)
    torch.manual_seed(3)
    assert torch.equal(Dropout(0.4)(x), y)


@pytest.mark.parametrize("layer", [Dropout(0.5).eval(), Dropout(0.0)])
def test_without_dropout_the_input_is_returned(layer):
    x = torch.randn(3, 2)
    assert layer(x) is x

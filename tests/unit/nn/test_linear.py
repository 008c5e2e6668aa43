"""Products by oneDNN against PyTorch's own, with their gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from seq2attn.nn.layers import FeedForward
from seq2attn.nn.linear import MIN_ROWS, ROW_MULTIPLE, Linear, linear_input_grad, linear_relu, prefers_onednn

ROWS = [1, ROW_MULTIPLE, MIN_ROWS, MIN_ROWS + 1, 3 * ROW_MULTIPLE]


def given(rows, bias=True):
    torch.manual_seed(rows)
    x, layer = torch.randn(rows, 24, requires_grad=True), torch.nn.Linear(24, 40, bias=bias)
    return x, layer, torch.randn(rows, 40)


def gradients(y, d, *of):
    return torch.autograd.grad((y * d).sum(), of)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", ROWS)
def test_a_linear_layer_is_pytorchs(rows, bias):
    x, layer, d = given(rows, bias)
    ours = Linear(24, 40, bias=bias)
    ours.load_state_dict(layer.state_dict())
    y, expected = ours(x.view(1, rows, 24)), layer(x)
    torch.testing.assert_close(y[0], expected)
    torch.testing.assert_close(
        gradients(y[0], d, x, *ours.parameters()), gradients(expected, d, x, *layer.parameters())
    )


@pytest.mark.parametrize("rows", ROWS)
def test_the_product_with_a_weight_turned_round(rows):
    _, layer, d = given(rows)
    torch.testing.assert_close(linear_input_grad(d, layer.weight), d @ layer.weight)


def test_a_relu_joined_to_its_product_is_both():
    x, layer, d = given(MIN_ROWS)
    y, expected = linear_relu(x, layer.weight, layer.bias, 0.0), F.relu(layer(x))
    torch.testing.assert_close(y, expected)
    of = (x, layer.weight, layer.bias)
    torch.testing.assert_close(gradients(y, d, *of), gradients(expected, d, *of))


def test_what_is_dropped_of_a_relu_has_no_gradient_and_the_rest_grows():
    x, layer, d = given(10 * ROW_MULTIPLE)
    y, plain = linear_relu(x, layer.weight, layer.bias, 0.25), F.relu(layer(x))
    kept = ((y > 0) | (plain == 0)).float() / 0.75
    assert (y == 0).float().mean() > (plain == 0).float().mean() + 0.05
    torch.testing.assert_close(y, plain * kept)
    of = (x, layer.weight, layer.bias)
    torch.testing.assert_close(gradients(y, d, *of), gradients(plain * kept, d, *of))


def test_a_feed_forward_part_learns_as_it_translates():
    part = FeedForward(16, 48, 0.0, "relu")
    x = torch.randn(2, MIN_ROWS, 16)
    assert prefers_onednn(x)
    torch.testing.assert_close(part.train()(x), part.eval()(x))

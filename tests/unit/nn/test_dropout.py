"""Dropout: an even sample of elements is zeroed, the mean is unchanged, and the gradient has the same mask."""

import pytest
import torch

from seq2attn.nn.layers import Dropout


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

"""Dropout: what is zeroed is drawn evenly, the mean stays, and the gradient is the mask."""

from __future__ import annotations

import pytest
import torch

from seq2attn.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_as_many_are_zeroed_as_asked_for_and_the_mean_stays(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 999)
    y = Dropout(p)(x)
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=4 * (p * (1 - p) / x.numel()) ** 0.5)
    assert y.mean().item() == pytest.approx(1.0, abs=4 * (p / (1 - p) / x.numel()) ** 0.5)
    assert y.unique().numel() == 2


def test_neighbours_are_drawn_apart():
    """Four numbers share one draw; whether one of them goes says nothing of the others."""
    torch.manual_seed(0)
    gone = (Dropout(0.5)(torch.ones(400_000)) == 0).view(-1, 4).double()
    assert torch.corrcoef(gone.T).fill_diagonal_(0).abs().max() < 4 / len(gone) ** 0.5


def test_the_gradient_is_the_mask():
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


def test_the_same_seed_zeroes_the_same():
    def drawn() -> torch.Tensor:
        torch.manual_seed(3)
        return Dropout(0.2)(torch.ones(11, 3))

    assert torch.equal(drawn(), drawn())


@pytest.mark.parametrize("layer", [Dropout(0.5).eval(), Dropout(0.0)])
def test_nothing_is_done_where_nothing_is_to_be_dropped(layer):
    x = torch.randn(3, 2)
    assert layer(x) is x


def test_bfloat16_stays_bfloat16():
    assert Dropout(0.5)(torch.ones(9, dtype=torch.bfloat16)).dtype == torch.bfloat16

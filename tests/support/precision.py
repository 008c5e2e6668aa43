"""Losses and gradients of bfloat16."""

import pytest
import torch

from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.nn.layers import FeedForward
from tests.support.models import BATCH, calm


def loss_and_gradients(objective, device, *, autocast=False, words=1.0):
    """The loss, and all gradients divided by a number of tokens."""
    objective.zero_grad()
    with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
        loss = objective(BATCH.to(device)).loss
    (loss / words).backward()
    return loss.item(), {name: p.grad.double() for name, p in objective.named_parameters() if p.grad is not None}


def check_bfloat16_gradients(net, device):
    """Rounding everything in bfloat16 changes the gradient at most four times as much as rounding the weights.

    Without ReLU: a value that is rounded to the other side of zero changes a gradient by any amount.
    """
    objective = TrainingLoss(calm(net).to(device), 0.1)
    for module in objective.modules():
        if isinstance(module, FeedForward):
            module.activation = "gelu"
    full, exact = loss_and_gradients(objective, device)
    half, ours = loss_and_gradients(objective, device, autocast=True)
    for weight in objective.parameters():
        weight.data = weight.data.bfloat16().float()
    _, rounded = loss_and_gradients(objective, device)
    assert half == pytest.approx(full, rel=0.02) and ours.keys() == exact.keys()
    error, scale = (sum((x[name] - exact[name]).square().sum() for name in exact).sqrt() for x in (ours, rounded))
    assert 0 < error < 4 * scale

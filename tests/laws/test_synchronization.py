"""Updates and steps of a search read nothing from their device, as they would wait: the meta device has nothing."""

from __future__ import annotations

import pytest
import torch

from seq2attn.nn.decoding_state import repeat_rows, with_fixed_capacity
from seq2attn.training.loss import TrainingLoss
from tests.laws.parts import BATCH, ENCODERS, EVERY_DECODER, PLUGGED, model


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [*((name, "bahdanau-gru") for name in ENCODERS if name != "gru"), *(("gru", name) for name in EVERY_DECODER)],
)
def test_losses_and_gradients_wait_for_nothing(encoder, decoder):
    net = model(encoder, decoder).float()
    objective = TrainingLoss(net.to("meta"), 0.1)
    objective(BATCH.to("meta")).loss.backward()
    assert all(weight.grad is not None for weight in objective.parameters())


@torch.no_grad()
@pytest.mark.parametrize(("decoder", "score", "align"), PLUGGED)
def test_steps_of_a_search_wait_for_nothing(decoder, score, align):
    net, batch = model("gru", decoder, score, align).float().to("meta"), BATCH.to("meta")
    memory, state = net.encode(batch.source, batch.source_mask, torch.from_numpy(batch.source_lengths))
    _, state = net.step(batch.target[:, 0], state, memory)
    for state_of_three in (repeat_rows(state, 3), with_fixed_capacity(repeat_rows(state, 3), 8)):
        log_probs, _ = net.step(batch.target[:, 0].repeat(3), state_of_three, memory)
        assert len(log_probs) == 3 * len(batch.target)

"""An update reads nothing from its device, which it would wait for: on the meta device there is nothing to read."""

from __future__ import annotations

import pytest

from seq2attn.data.collate import collate
from seq2attn.training.loss import TrainingLoss
from tests.laws.parts import ENCODERS, EVERY_DECODER, FIXED, model

BATCH = collate([([4, 5, 6], [5, 6, 7, 8]), ([4], [9]), ([7, 8, 9, 10, 3], [4, 4])])


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [*((name, "bahdanau-gru") for name in ENCODERS if name != "gru"), *(("gru", name) for name in EVERY_DECODER)],
)
def test_losses_and_gradients_wait_for_nothing(encoder, decoder):
    net = model(encoder, decoder, *(("none", "none") if decoder in FIXED else ())).float()
    objective = TrainingLoss(net.to("meta"), 0.1)
    objective(BATCH.to("meta")).loss.backward()
    assert all(weight.grad is not None for weight in objective.parameters())

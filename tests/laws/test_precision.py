"""bfloat16 is float32 with fewer digits, for whatever is plugged in."""

from __future__ import annotations

import pytest
import torch

from seq2attn.data.batches import collate
from seq2attn.training.objective import Objective
from tests.laws.parts import DECODERS, PLUGGED, calm, model

BATCH = collate([([4, 5, 6], [5, 6, 7, 8]), ([4], [9]), ([7, 8, 9, 10, 3], [4, 4])])


ENCODED = [(e, d, "multi-head", "global") for e in ("lstm", "transformer") for d in DECODERS]


@pytest.mark.parametrize(
    ("encoder", "decoder", "score", "align"), [*[("gru", *p) for p in PLUGGED], *ENCODED]
)
def test_bfloat16_is_float32_with_fewer_digits(encoder, decoder, score, align):
    net = model(encoder, decoder, score, align).float()
    objective = Objective(net, 0.1)
    full = objective(BATCH).objective
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = objective(BATCH).objective
        calm(net)  # in which all parameters learn
        objective(BATCH, -2.0).objective.backward()
    torch.testing.assert_close(half, full, rtol=0.02, atol=0.0)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in objective.parameters())

"""bfloat16 is float32 with fewer digits, for whatever is plugged in."""

from __future__ import annotations

import pytest
import torch

from seq2attn.attention.entmax import masked_entmax
from seq2attn.data.collate import collate
from seq2attn.training.loss import TrainingLoss
from tests.laws.parts import FIXED, PLUGGED, calm, model

BATCH = collate([([4, 5, 6], [5, 6, 7, 8]), ([4], [9]), ([7, 8, 9, 10, 3], [4, 4])])


ENCODED = [(e, d, "multi-head", "global") for e in ("lstm", "transformer") for d in ("luong", "transformer")]


@pytest.mark.parametrize(("encoder", "decoder", "score", "align"), [*[("gru", *p) for p in PLUGGED], *ENCODED])
def test_bfloat16_is_float32_with_fewer_digits(encoder, decoder, score, align):
    net = model(encoder, decoder, score, align).float()
    objective = TrainingLoss(net, 0.1)
    full = objective(BATCH).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = objective(BATCH).loss
        calm(net)  # in which all parameters learn
        objective(BATCH, -2.0).loss.backward()
    torch.testing.assert_close(half, full, rtol=0.02, atol=0.0)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in objective.parameters())


@pytest.mark.parametrize("encoder", ["gru", "lstm"])
@pytest.mark.parametrize("decoder", ["recurrent-previous-whole", *FIXED])
def test_pytorchs_own_rnns_run_in_float32_outside_autocast(encoder, decoder):
    """As cuDNN's would run in float16 within it."""
    net = model(encoder, decoder, *(("none", "none") if decoder in FIXED else ())).float()
    found = []
    for name, part in net.named_modules():
        if isinstance(part, torch.nn.RNNBase):

            def ran(rnn, given, gave, name=name):
                outputs, last = gave
                last = last if isinstance(last, tuple) else (last,)
                kinds = {x.dtype for x in (given[0].data, outputs.data, *last)}
                found.append((name, kinds, torch.is_autocast_enabled("cpu")))

            part.register_forward_hook(ran)
    with torch.no_grad():
        full = net(BATCH.source, BATCH.source_mask, BATCH.target).hidden
        del found[:]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = net(BATCH.source, BATCH.source_mask, BATCH.target).hidden
            assert torch.is_autocast_enabled("cpu")
    assert found == [(name, {torch.float32}, False) for name in ("encoder.rnn", "decoder.rnn.rnn")]
    torch.testing.assert_close(half.float(), full, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_entmax_of_bfloat16_counts_more_words_than_bfloat16_can(alpha):
    """All of 601 words share the weight, which needs their number."""
    scores = (torch.arange(601.0) % 2 / 4096).to(torch.bfloat16)[None, None, None]
    found = masked_entmax(scores, torch.ones_like(scores, dtype=torch.bool), alpha)
    exact = masked_entmax(scores.double(), torch.ones_like(scores, dtype=torch.bool), alpha)
    torch.testing.assert_close(found.double(), exact, rtol=1e-2, atol=0.0)
    torch.testing.assert_close(found.sum(), torch.ones(()), rtol=1e-3, atol=0.0)

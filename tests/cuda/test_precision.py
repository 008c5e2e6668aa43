"""Gradients under autocast on CUDA equal those in float32; cuDNN's RNNs do not run in float16."""

from __future__ import annotations

import pytest
import torch

from seq2attn.data.collate import collate
from seq2attn.training.loss import TrainingLoss
from tests.cuda import DEVICE, MARKS, relative_distance
from tests.laws.parts import DECODERS, ENCODERS, FIXED, PLUGGED, calm, model, sources

pytestmark = MARKS
BATCH = collate([([4, 5, 6], [5, 6, 7, 8]), ([4], [9]), ([7, 8, 9, 10, 3], [4, 4])])
SAMPLED = ("hard-reinforce", "hard-gumbel", "monotonic")
"""Alignments that sample, or are discontinuous."""
SMOOTH = [("gru", *p) for p in PLUGGED if p[2] not in SAMPLED]
ENCODED = [(e, d, "multi-head", "global") for e in ENCODERS if e != "gru" for d in DECODERS]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_encoder_gives_float16(encoder):
    net = model(encoder, "luong").float().to(DEVICE)
    words, mask = (x.to(DEVICE) for x in sources())
    with torch.autocast(DEVICE.type, torch.bfloat16):
        encoded = net.encoder(net.source_embedding(words), mask)
    kinds = {x.dtype for x in (encoded.keys, encoded.values, *encoded.final_state)}
    assert kinds <= {torch.bfloat16, torch.float32}


def loss_and_gradients(objective, autocast, words=1.0):
    """The loss, and all gradients divided by a number of tokens."""
    objective.zero_grad()
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=autocast):
        loss = objective(BATCH.to(DEVICE)).loss
    (loss / words).backward()
    grads = {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}
    return float(loss), {name: grad.clone() for name, grad in grads.items()}


@pytest.mark.parametrize(("encoder", "decoder", "score", "align"), [*SMOOTH, *ENCODED])
def test_bfloat16_has_the_loss_and_gradients_of_float32(encoder, decoder, score, align):
    objective = TrainingLoss(calm(model(encoder, decoder, score, align).float()).to(DEVICE), 0.1)
    (full, exact), (half, ours) = (loss_and_gradients(objective, autocast) for autocast in (False, True))
    assert half == pytest.approx(full, rel=0.02)
    assert ours.keys() == exact.keys()
    assert relative_distance(*(torch.cat([grads[name].flatten() for name in exact]) for grads in (ours, exact))) < 0.05


@pytest.mark.parametrize("encoder", ["gru", "lstm"])
@pytest.mark.parametrize("decoder", ["bahdanau-gru", "luong", "transformer", *FIXED])
def test_no_gradient_is_too_small_for_its_type(encoder, decoder):
    """Divided by the words of a large update, as in training, half of float16's range is gone."""
    parts = (encoder, decoder, "none", "none") if decoder in FIXED else (encoder, decoder)
    objective = TrainingLoss(calm(model(*parts).float()).to(DEVICE), 0.1)
    (_, exact), (_, ours) = (loss_and_gradients(objective, autocast, words=24_000.0) for autocast in (False, True))
    for name, grad in exact.items():
        if name.startswith("encoder."):
            assert relative_distance(ours[name], grad) < 0.1, name

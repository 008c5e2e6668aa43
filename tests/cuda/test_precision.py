"""Gradients under autocast on CUDA equal those in float32; cuDNN's RNNs do not run in float16."""

import pytest
import torch

from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.nn.packing import Sequences
from tests.support.gpu import DEVICE, MARKS, relative_distance
from tests.support.models import DECODERS, ENCODERS, FIXED, PLUGGED, calm, model, sources
from tests.support.precision import check_bfloat16_gradients, loss_and_gradients

pytestmark = MARKS
SAMPLED = ("hard-reinforce", "hard-gumbel", "monotonic")
"""Alignments that sample, or are discontinuous."""
SMOOTH = [("gru", *p) for p in PLUGGED if p[2] not in SAMPLED]
ENCODED = [(e, d, "multi-head", "global") for e in ENCODERS if e != "gru" for d in DECODERS]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_encoder_gives_float16(encoder):
    net = model(encoder, "luong").float().to(DEVICE)
    words, sequences = sources()
    with torch.autocast(DEVICE.type, torch.bfloat16):
        embedded = net.source_embedding(words.to(DEVICE))
        encoded = net.encoder(embedded, Sequences(sequences.mask.to(DEVICE)))
    kinds = {x.dtype for x in (encoded.keys, encoded.values, *encoded.final_state)}
    assert kinds <= {torch.bfloat16, torch.float32}


@pytest.mark.parametrize(("encoder", "decoder", "score", "align"), [*SMOOTH, *ENCODED])
def test_bfloat16_has_the_loss_and_gradients_of_float32(encoder, decoder, score, align):
    check_bfloat16_gradients(model(encoder, decoder, score, align).float(), DEVICE)


@pytest.mark.parametrize("encoder", ["gru", "lstm"])
@pytest.mark.parametrize("decoder", ["bahdanau-gru", "luong", "transformer", *FIXED])
def test_no_gradient_is_too_small_for_its_type(encoder, decoder):
    """Divided by the words of a large update, as in training, half of float16's range is gone."""
    objective = TrainingLoss(calm(model(encoder, decoder).float()).to(DEVICE), 0.1)
    exact, ours = (loss_and_gradients(objective, DEVICE, autocast=x, words=24_000.0)[1] for x in (False, True))
    for name, grad in exact.items():
        if name.startswith("encoder."):
            assert relative_distance(ours[name], grad) < 0.1, name

"""bfloat16 equals float32 up to rounding, for all components."""

import itertools

import pytest
import torch

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.coverage import CoverageScoreConfig
from seq2attn.attention.entmax import masked_entmax
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.search.search_config import BeamConfig, LengthsConfig
from tests.support.marks import covering, slow_but
from tests.support.models import (
    BATCH,
    DECODERS,
    EVERY_DECODER,
    FIXED,
    PLUGGED,
    REPRESENTATIVE,
    calm,
    model,
    rand,
    shuffle_weights,
)
from tests.support.precision import check_bfloat16_gradients

ENCODED = [(e, d, "multi-head", "global") for e in ("lstm", "transformer") for d in ("luong", "transformer")]


@pytest.mark.parametrize(
    ("encoder", "decoder", "score", "align"), covering([*[("gru", *p) for p in PLUGGED], *ENCODED])
)
def test_bfloat16_equals_float32_up_to_rounding(encoder, decoder, score, align):
    net = model(encoder, decoder, score, align).float()
    objective = TrainingLoss(net, 0.1)
    full = objective(BATCH).loss
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = objective(BATCH).loss
        calm(net)  # so that all parameters have gradients
        objective(BATCH, -2.0).loss.backward()
    torch.testing.assert_close(half, full, rtol=0.02, atol=0.0)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in objective.parameters())


@pytest.mark.parametrize(("encoder", "decoder"), covering(itertools.product(["gru", "transformer"], DECODERS)))
def test_gradients_of_bfloat16_are_those_of_float32_up_to_rounding(encoder, decoder):
    check_bfloat16_gradients(model(encoder, decoder).float(), torch.device("cpu"))


@pytest.mark.parametrize("encoder", ["gru", "lstm"])
@pytest.mark.parametrize("decoder", ["recurrent-previous-whole", *FIXED])
def test_rnns_of_pytorch_run_in_float32_outside_autocast(encoder, decoder):
    """Within it, those of cuDNN would run in float16."""
    net = model(encoder, decoder).float()
    calls = []
    for name, module in net.named_modules():
        if isinstance(module, torch.nn.RNNBase):

            def record(rnn, inputs, result, name=name):
                outputs, state = result
                state = state if isinstance(state, tuple) else (state,)
                dtypes = {x.dtype for x in (inputs[0].data, outputs.data, *state)}
                calls.append((name, dtypes, torch.is_autocast_enabled("cpu")))

            module.register_forward_hook(record)
    with torch.no_grad():
        full = net(BATCH.source, BATCH.sequences, BATCH.target).hidden
        calls.clear()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = net(BATCH.source, BATCH.sequences, BATCH.target).hidden
            assert torch.is_autocast_enabled("cpu")
    assert calls == [(name, {torch.float32}, False) for name in ("encoder.rnn", "decoder.rnn.rnn")]
    torch.testing.assert_close(half.float(), full, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("decoder", slow_but(REPRESENTATIVE, EVERY_DECODER))
def test_a_search_in_bfloat16_has_the_scores_of_float32(decoder, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # a batch for each
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # that of later tests stays
    net = model("gru", decoder).float().eval()
    search = BeamConfig(beam_size=3, lengths=LengthsConfig(max_length=6))
    engines = NativeEngine(net), NativeEngine(net, "bfloat16")
    full, half = ([best[0].log_prob for best in e.translate([[4, 5, 6], [7]], search, budget=1)] for e in engines)
    assert half != full and half == pytest.approx(full, rel=0.05)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_entmax_of_bfloat16_over_601_positions_sums_to_one(alpha):
    """bfloat16 cannot count that far."""
    scores = (torch.arange(601.0) % 2 / 4096).to(torch.bfloat16)[None, None, None]
    weights = masked_entmax(scores, torch.ones_like(scores, dtype=torch.bool), alpha)
    exact = masked_entmax(scores.double(), torch.ones_like(scores, dtype=torch.bool), alpha)
    torch.testing.assert_close(weights.double(), exact, rtol=1e-2, atol=0.0)
    torch.testing.assert_close(weights.sum(), torch.ones(()), rtol=1e-3, atol=0.0)


def test_coverage_scores_keep_their_digits_under_autocast():
    score = shuffle_weights(CoverageScoreConfig(dim=64).build(8, 12)).float()
    q, k = rand(3, 1, 9, 64).bfloat16(), rand(3, 1, 7, 65, seed=1).bfloat16()
    sums = 2 + rand(3, 1, 9, 7, seed=2).float()
    info = QueryInfo(rand(3, 9, 8), torch.arange(9).expand(3, 9), score_state=sums)
    plain = score(q.float(), k.float(), info)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(score(q, k, info), plain)

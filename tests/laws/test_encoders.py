"""Laws of an encoder's self-attention weights, for each encoder."""

from __future__ import annotations

import pytest
import torch

from tests.laws.parts import ENCODERS, model, sources

LENGTHS = (5, 3, 1, 7)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_weights_are_a_distribution_over_tokens_and_do_not_change_the_output(encoder):
    net = model(encoder, "luong")
    ids, mask = sources(LENGTHS, garbage=9)
    embedded = net.source_embedding(ids)
    output, (with_weights, weights) = net.encoder(embedded, mask), net.encoder.forward_with_weights(embedded, mask)
    for name in ("keys", "values"):
        torch.testing.assert_close(getattr(with_weights, name)[mask], getattr(output, name)[mask])
    torch.testing.assert_close(with_weights.final_state, output.final_state)
    assert (weights is None) == (ENCODERS[encoder]["kind"] not in ("transformer", "bert"))
    if weights is None:
        return
    config = {"layers": 2, "heads": 4} if encoder == "bert" else ENCODERS[encoder]
    assert weights.shape == (len(LENGTHS), config["layers"], config["heads"], max(LENGTHS), max(LENGTHS))
    assert (weights >= 0).all()
    weights = net.encoder_self_attention(ids, mask)
    assert (weights[~mask[:, None, None, None].expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    for i, n in enumerate(LENGTHS):
        alone = net.encoder_self_attention(ids[i : i + 1, :n], mask[i : i + 1, :n])
        torch.testing.assert_close(weights[i : i + 1, ..., :n, :n], alone)

"""Laws of where an encoder's own words looked, whatever the encoder."""

from __future__ import annotations

import pytest
import torch

from tests.laws.parts import ENCODERS, model, sources

LENGTHS = (5, 3, 1, 7)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_asking_where_it_looked_changes_nothing(encoder):
    net = model(encoder, "luong")
    words, mask = sources(LENGTHS, garbage=9)
    vectors = net.source_embedding(words)
    silent, (asked, _) = net.encoder(vectors, mask), net.encoder.forward_with_weights(vectors, mask)
    torch.testing.assert_close(asked.keys[mask], silent.keys[mask])
    torch.testing.assert_close(asked.values[mask], silent.values[mask])
    torch.testing.assert_close(asked.final_state, silent.final_state)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_self_attention_is_a_distribution_over_words(encoder):
    net = model(encoder, "luong")
    words, mask = sources(LENGTHS, garbage=9)
    weights = net.encoder_self_attention(words, mask)
    assert (weights is None) == (ENCODERS[encoder]["kind"] not in ("transformer", "bert"))
    if weights is None:
        return
    kind = {"layers": 2, "heads": 4} if encoder == "bert" else ENCODERS[encoder]
    longest = max(LENGTHS)
    assert weights.shape == (len(LENGTHS), kind["layers"], kind["heads"], longest, longest)
    assert (weights >= 0).all()
    assert (weights[~mask[:, None, None, None].expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    for i, n in enumerate(LENGTHS):
        alone = net.encoder_self_attention(words[i : i + 1, :n], mask[i : i + 1, :n])
        torch.testing.assert_close(weights[i : i + 1, ..., :n, :n], alone)

"""Laws of an encoder's self-attention weights, for each encoder."""

from __future__ import annotations

import pytest
import torch

from tests.laws.parts import ENCODERS, calm, model, sources, targets

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


def test_gradients_to_the_encoder_of_a_convolutional_decoder_are_scaled(monkeypatch):
    gradients = []
    for unscaled in (False, True):
        if unscaled:
            name = "seq2attn.decoders.convolutional.scale_gradient"
            monkeypatch.setattr(name, lambda x, share: x if share == 1 / 4 else None)
        net = model("gru", "convolutional")
        memory, state = net.encode(*sources())
        net.decode(targets(4, 5), state, memory).hidden.pow(2).sum().backward()
        gradients.append(net.source_embedding.embedding.weight.grad)
    torch.testing.assert_close(gradients[0] * 4, gradients[1])


@pytest.mark.parametrize("decoder", ["transformer", "convolutional"])
def test_log_probabilities_of_samples_are_summed_over_layers(decoder):
    net, log_probs = calm(model("gru", decoder, "multi-head", "hard-reinforce")), []
    for layer in net.decoder.layers:
        layer.cross_attention.register_forward_hook(lambda _, args, output: log_probs.append(output.sample_log_prob))
    memory, state = net.encode(*sources())
    total = net.decode(targets(4, 5), state, memory).sample_log_prob
    torch.testing.assert_close(total, log_probs[0] + log_probs[1])

"""Linear layers of 8 bits against their formula in NumPy, and against the model that they are made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from seq2attn.model.int8 import Int8Linear, int8
from seq2attn.search.batched import translate_ids
from seq2attn.search.config import BeamConfig, LengthsConfig
from tests.laws.parts import EVERY_DECODER, WORDS, model, sources, targets


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_its_formula(bias):
    torch.manual_seed(0)
    layer = nn.Linear(24, 40, bias)
    x = torch.randn(3, 7, 24) * torch.tensor([1e-3, 1.0, 50.0])[:, None, None]
    x[0, 0] = 0
    with torch.no_grad():
        found = Int8Linear(layer)(x).numpy()
    inputs, weights = x.numpy(), layer.weight.detach().numpy()
    unit_in = np.maximum(np.abs(inputs).max(-1, keepdims=True), 1e-30) / 127
    unit = np.abs(weights).max(-1, keepdims=True) / 127
    added = layer.bias.detach().numpy() if bias else 0.0
    expected = (np.rint(inputs / unit_in) @ np.rint(weights / unit).T) * unit_in * unit.T + added
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    exact = layer(x).detach().numpy()
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.parametrize("tie", ["none", "all"])
@pytest.mark.parametrize("decoder", EVERY_DECODER)
def test_a_model_guesses_nearly_the_same(decoder, tie):
    net = model("transformer", decoder, "multi-head", tie=tie).float()
    rounded = int8(net)
    assert any(isinstance(part, Int8Linear) for part in rounded.modules())
    assert not any(isinstance(part, Int8Linear) for part in net.modules())
    assert (rounded.output.weight is rounded.target.table.weight) == (tie == "all")
    with torch.no_grad():
        one, other = (m.output(m(*sources(), targets(4, 6)).hidden).softmax(-1) for m in (net, rounded))
    assert 0 < (one - other).abs().max() < 0.05


def test_a_batch_gives_each_sentence_what_it_gets_alone():
    net = int8(model("transformer", "transformer", "multi-head").float())
    nn.init.normal_(net.output.bias, std=2.0)
    draw = torch.Generator().manual_seed(0)
    lines = [torch.randint(3, WORDS, (1 + i % 9,), generator=draw).tolist() for i in range(12)]
    config = BeamConfig(kind="beam", width=3, lengths=LengthsConfig(max_length=9))
    together, alone = (translate_ids(net, lines, config, budget=budget) for budget in (1000, 1))
    assert [[h.tokens for h in found] for found in together] == [[h.tokens for h in found] for found in alone]

"""SSRU: its formula, its gradients and its dtypes."""

import numpy as np
import pytest
import torch

from seq2attn.encoders.base import EncoderOutput
from seq2attn.nn.kernels.ssru import SSRU, ssru_recurrence
from tests.support.models import WIDTH, model, rand, shuffle_weights


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_it_is_its_formula(steps):
    unit, x, cell = shuffle_weights(SSRU(5)), rand(3, steps, 5, seed=1), rand(3, 5, seed=2)
    hidden, last = unit(x, cell)
    weight, gate, bias = (p.detach().numpy() for p in (unit.input_proj.weight, *unit.forget_gate.parameters()))
    for row in range(3):
        c = cell[row].numpy()
        for t in range(steps):
            forget = 1 / (1 + np.exp(-(gate @ x[row, t].numpy() + bias)))
            c = forget * c + (1 - forget) * (weight @ x[row, t].numpy())
            np.testing.assert_allclose(hidden[row, t].detach(), np.maximum(c, 0))
        np.testing.assert_allclose(last[row].detach(), c)


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_gradients_are_those_of_finite_differences(steps):
    inputs = [rand(3, steps, 4, seed=seed).requires_grad_() for seed in (1, 2)] + [rand(3, 4, seed=3).requires_grad_()]
    assert torch.autograd.gradcheck(ssru_recurrence, inputs)


@pytest.mark.parametrize("steps", [1, 300])
def test_cells_of_bfloat16_inputs_are_float32(steps):
    inputs, gates, cell = torch.ones(1, steps, 2), torch.full((1, steps, 2), 6.0), torch.zeros(1, 2)
    half, last = ssru_recurrence(inputs.bfloat16(), gates.bfloat16(), cell)
    expected, expected_last = ssru_recurrence(inputs, gates, cell)
    assert half.dtype == torch.bfloat16 and last.dtype == torch.float32
    torch.testing.assert_close(last, expected_last)  # cells in bfloat16 would stay at 0.87
    torch.testing.assert_close(half, expected.bfloat16())


def test_cells_of_a_source_in_bfloat16_are_float32():
    keys, mask = torch.zeros(2, 3, WIDTH, dtype=torch.bfloat16), torch.ones(2, 3, dtype=torch.bool)
    _, state = model("gru", "ssru").decoder.bfloat16().init_state(EncoderOutput(keys, keys, mask, ()))
    assert {cell.dtype for cell in state.cache.layers} == {torch.float32}

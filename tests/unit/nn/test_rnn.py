"""RNNs and SSRUs: those of PyTorch or of their formula, their bridge and initial weights."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from seq2attn.decoders.bridge import Bridge
from seq2attn.decoders.fixed_context import FixedContextDecoder, FixedContextDecoderConfig
from seq2attn.encoders.base import EncoderOutput
from seq2attn.encoders.recurrent import RecurrentEncoderConfig
from seq2attn.nn.kernels.ssru import SSRU, ssru_recurrence
from seq2attn.nn.packing import Sequences
from seq2attn.nn.stacked_rnn import InputFedRNN, stack_layer_states, unstack_layer_states
from tests.support.models import OWN_EMBEDDINGS, PAIRS, WIDTH, model, rand, shuffle_weights

TOKEN, FEED, DIM, STEPS, ROWS = 5, 4, 6, 7, 3
CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}


def torchs(ours, kind, layers):
    """PyTorch's RNN with the weights of `ours`; the fed vector is a part of its input."""
    rnn = CELLS[kind](TOKEN + FEED, DIM, layers, batch_first=True).double()
    lowest = torch.cat([ours.input_proj.weight, ours.feed_proj.weight], 1)
    inputs = [(lowest, ours.input_proj.bias), *((layer.weight, layer.bias) for layer in ours.upper_input_proj)]
    with torch.no_grad():
        for i, ((weight, bias), hidden) in enumerate(zip(inputs, ours.hidden_proj, strict=True)):
            parts = {"weight_ih": weight, "bias_ih": bias, "weight_hh": hidden.weight, "bias_hh": hidden.bias}
            for name, value in parts.items():
                getattr(rnn, f"{name}_l{i}").copy_(value)
    return rnn


@pytest.mark.parametrize("grad", [True, False], ids=["fused", "reference"])
@pytest.mark.parametrize(("kind", "layers"), [("gru", 1), ("gru", 3), ("lstm", 3)])
def test_fed_cells_are_torchs(kind, layers, grad):
    rnn = shuffle_weights(InputFedRNN(kind, TOKEN, FEED, DIM, layers, 0.0))
    x, feed = rand(ROWS, STEPS, TOKEN), rand(ROWS, STEPS, FEED, seed=1)
    initial = tuple(rand(ROWS, layers, DIM, seed=5 + i) for i in range(1 if kind == "gru" else 2))
    with torch.set_grad_enabled(grad):
        step, states, outputs = rnn.steps(x), unstack_layer_states(initial), []
        for t in range(STEPS):
            output, states = step(t, feed[:, t], states)
            outputs.append(output)
    h = tuple(part.transpose(0, 1).contiguous() for part in initial)
    expected, final = torchs(rnn, kind, layers)(torch.cat([x, feed], -1), h if kind == "lstm" else h[0])
    torch.testing.assert_close(torch.stack(outputs, 1), expected)
    for ours, theirs in zip(stack_layer_states(states), final if kind == "lstm" else (final,), strict=True):
        torch.testing.assert_close(ours, theirs.transpose(0, 1))


@pytest.mark.parametrize(
    ("kind", "layers", "bidirectional"), [("gru", 1, False), ("gru", 2, True), ("lstm", 2, True), ("lstm", 2, False)]
)
def test_the_encoder_is_torchs_on_each_sentence(kind, layers, bidirectional):
    config = {"kind": kind, "dim": DIM, "layers": layers, "bidirectional": bidirectional}
    encoder = shuffle_weights(RecurrentEncoderConfig.model_validate(config).build(TOKEN))
    rnn = CELLS[kind](TOKEN, DIM // (1 + bidirectional), layers, bidirectional=bidirectional).double()
    rnn.load_state_dict(encoder.rnn.state_dict())
    lengths, x = (4, 1, 7), rand(3, 7, TOKEN)
    encoded = encoder(x, Sequences(torch.arange(7) < torch.tensor(lengths)[:, None]))
    assert encoded.keys is encoded.values
    for row, n in enumerate(lengths):
        outputs, final = rnn(x[row, :n])
        torch.testing.assert_close(encoded.values[row, :n], outputs)
        for ours, theirs in zip(encoded.final_state, final if kind == "lstm" else (final,), strict=True):
            torch.testing.assert_close(ours[row], theirs.unflatten(0, (layers, -1)).flatten(1))


@pytest.mark.parametrize(("encoder_parts", "kind"), [(2, "gru"), (1, "lstm"), (2, "lstm")])
def test_the_bridge_projects_the_top_layer_for_each_layer(encoder_parts, kind):
    layers, final_dim = 3, 5
    bridge = shuffle_weights(Bridge(kind, final_dim, DIM, layers))
    final = tuple(rand(ROWS, 2, final_dim, seed=i) for i in range(encoder_parts))
    state = bridge(final)
    assert len(state) == (1 if kind == "gru" else 2)
    for i, (part, projection) in enumerate(zip(state, bridge.projections, strict=True)):
        top = final[min(i, encoder_parts - 1)][:, -1]  # an LSTM after a GRU has its c from h as well
        for layer in range(layers):
            rows = slice(layer * DIM, (layer + 1) * DIM)
            expected = torch.tanh(top @ projection.weight[rows].T + projection.bias[rows])
            torch.testing.assert_close(part[:, layer], expected)
    decoder = FixedContextDecoder(FixedContextDecoderConfig(cell=kind, dim=DIM), TOKEN, final_dim)
    (memory,), _ = decoder.double().init_state(EncoderOutput(final[0], final[0], final[0], final))
    torch.testing.assert_close(memory.values[:, 0, 0], final[0][:, -1])


def assert_glorot(weight, gates=1):
    for block in weight.chunk(gates):
        bound = math.sqrt(6 / sum(block.shape))
        assert block.abs().max() <= bound
        assert block.abs().max() > 0.9 * bound  # one of hundreds of uniform numbers is close


def assert_orthogonal(weight, gates):
    for block in weight.chunk(gates):
        torch.testing.assert_close(block @ block.T, torch.eye(len(block), dtype=block.dtype), atol=1e-6, rtol=0)


def assert_gate_biases(bias_of_input, bias_of_hidden, gates):
    for gate, bias in enumerate((bias_of_input + bias_of_hidden).chunk(gates)):
        assert (bias == (1.0 if gates == 4 and gate == 1 else 0.0)).all()  # input, forget, new, output


def check_rnn(rnn):
    gates = 3 if isinstance(rnn, nn.GRU) else 4
    for layer, end in itertools.product(range(rnn.num_layers), ["", "_reverse"][: 1 + rnn.bidirectional]):
        weights = {n: getattr(rnn, f"{n}_l{layer}{end}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        assert_glorot(weights["weight_ih"], gates)
        assert_orthogonal(weights["weight_hh"], gates)
        assert_gate_biases(weights["bias_ih"], weights["bias_hh"], gates)


def check_fed(fed):
    assert_glorot(fed.feed_proj.weight, fed.num_gates)
    for linear, hidden in zip((fed.input_proj, *fed.upper_input_proj), fed.hidden_proj, strict=True):
        assert_glorot(linear.weight, fed.num_gates)
        assert_orthogonal(hidden.weight, fed.num_gates)
        assert_gate_biases(linear.bias, hidden.bias, fed.num_gates)


def check_layer(layer):
    if isinstance(layer, nn.Linear):
        assert_glorot(layer.weight)
        assert layer.bias is None or (layer.bias == 0).all()
    if isinstance(layer, nn.LayerNorm):
        assert (layer.weight == 1).all()
        assert (layer.bias == 0).all()
    if isinstance(layer, nn.Embedding):
        spread, count = layer.embedding_dim**-0.5, layer.weight.numel()
        assert layer.weight.std().item() == pytest.approx(spread, rel=4 / math.sqrt(2 * count))
        assert layer.weight.mean().abs() < 4 * spread / math.sqrt(count)


@pytest.mark.parametrize(
    ("encoder", "decoder", "tie"),
    [(e, d, "none") for e, d in PAIRS if e not in OWN_EMBEDDINGS] + [("gru", "luong", "all")],
)
def test_initial_weights(encoder, decoder, tie):
    net = model(encoder, decoder, words=200, tie=tie)
    checked = {net.output_projection} if tie == "all" else set()  # its weights are the embeddings'
    for part in net.modules():
        if isinstance(part, InputFedRNN):
            check_fed(part)
            checked |= set(part.modules())
    for part in net.modules():
        if isinstance(part, nn.GRU | nn.LSTM):
            check_rnn(part)
        elif part not in checked:
            check_layer(part)
    assert (net.output_projection.bias == 0).all()
    for name, v in net.named_parameters():
        if name.endswith("score.v"):
            assert v.abs().max() <= 0.1
            assert v.std() > 0.02


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

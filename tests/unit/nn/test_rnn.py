"""Recurrent parts against PyTorch's with the same weights, and first weights as the table in `initial` has them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from seq2attn.encoders import RecurrentEncoderConfig
from seq2attn.nn.rnn.stacked import Bridge, InputFedRNN, TorchRNN, stack_layer_states, unstack_layer_states
from tests.laws.parts import OWN_EMBEDDINGS, PAIRS, model

WORD, FEED, DIM, STEPS, ROWS = 5, 4, 6, 7, 3
CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def shuffled(module):
    for i, parameter in enumerate(module.parameters()):
        with torch.no_grad():
            parameter.copy_(rand(*parameter.shape, seed=10 + i) * 0.5)
    return module.double()


def first_cells(kind, layers):
    return tuple(rand(ROWS, layers, DIM, seed=5 + i) for i in range(1 if kind == "gru" else 2))


def torchs(fed, kind, layers, *, with_feed):
    """PyTorch's cells with the weights of ours; what is fed is a part of its input, or left out."""
    rnn = CELLS[kind](WORD + FEED * with_feed, DIM, layers, batch_first=True).double()
    lowest = torch.cat([fed.input_proj.weight, fed.feed_proj.weight], 1) if with_feed else fed.input_proj.weight
    inputs = [
        (lowest, fed.input_proj.bias),
        *((linear.weight, linear.bias) for linear in fed.upper_input_proj),
    ]
    with torch.no_grad():
        for layer, (weight, bias) in enumerate(inputs):
            for name, value in {
                "weight_ih": weight,
                "bias_ih": bias,
                "weight_hh": fed.hidden_proj[layer].weight,
                "bias_hh": fed.hidden_proj[layer].bias,
            }.items():
                getattr(rnn, f"{name}_l{layer}").copy_(value)
    return rnn


def run_fed(fed, words, feed, cells):
    outputs, cells, read = [], unstack_layer_states(cells), fed.steps(words)
    for t in range(words.size(1)):
        output, cells = read(t, feed[:, t], cells)
        outputs.append(output)
    return torch.stack(outputs, 1), stack_layer_states(cells)


def run_torchs(rnn, inputs, cells):
    first = tuple(part.transpose(0, 1).contiguous() for part in cells)
    outputs, last = rnn(inputs, first if len(first) == 2 else first[0])
    return outputs, tuple(part.transpose(0, 1) for part in (last if isinstance(last, tuple) else (last,)))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("with_feed", [True, False])
def test_fed_cells_are_torchs(kind, layers, with_feed):
    fed = shuffled(InputFedRNN(kind, WORD, FEED, DIM, layers, 0.0))
    if not with_feed:
        nn.init.zeros_(fed.feed_proj.weight)
    words, feed = rand(ROWS, STEPS, WORD).requires_grad_(), rand(ROWS, STEPS, FEED, seed=1)
    cells = first_cells(kind, layers)
    inputs = torch.cat([words, feed], -1) if with_feed else words
    ours = run_fed(fed, words, feed, cells)
    theirs = run_torchs(torchs(fed, kind, layers, with_feed=with_feed), inputs, cells)
    torch.testing.assert_close(ours, theirs)
    one, other = (torch.autograd.grad(out[0].pow(2).sum(), words)[0] for out in (ours, theirs))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", CELLS)
def test_whole_cells_go_on_from_rows_first_cells(kind, layers):
    whole = shuffled(TorchRNN(kind, WORD, DIM, layers, 0.0))
    words, cells = rand(ROWS, STEPS, WORD), first_cells(kind, layers)
    torch.testing.assert_close(whole(words, cells), run_torchs(whole.rnn, words, cells))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", CELLS)
def test_the_encoder_is_torchs_on_each_sentence_alone(kind, layers, bidirectional):
    config = {"kind": kind, "dim": DIM, "layers": layers, "bidirectional": bidirectional}
    encoder = shuffled(RecurrentEncoderConfig.model_validate(config).build(WORD))
    rnn = CELLS[kind](WORD, DIM // (1 + bidirectional), layers, bidirectional=bidirectional).double()
    rnn.load_state_dict(encoder.rnn.state_dict())
    lengths, words = (4, 1, 7), rand(3, 7, WORD)
    encoded = encoder(words, torch.arange(7) < torch.tensor(lengths)[:, None])
    assert encoded.keys is encoded.values
    for row, n in enumerate(lengths):
        outputs, final = rnn(words[row, :n])
        torch.testing.assert_close(encoded.values[row, :n], outputs)
        for ours, theirs in zip(encoded.final_state, final if kind == "lstm" else (final,), strict=True):
            for layer in range(layers):  # torch's order: layer by layer, forwards before backwards
                ends = theirs[layer * (1 + bidirectional) : (layer + 1) * (1 + bidirectional)]
                torch.testing.assert_close(ours[row, layer], ends.flatten())


@pytest.mark.parametrize(("encoder_parts", "kind"), [(1, "gru"), (2, "gru"), (1, "lstm"), (2, "lstm")])
def test_the_bridge_gives_each_layer_its_own_view_of_the_top(encoder_parts, kind):
    layers, final_dim = 3, 5
    bridge = shuffled(Bridge(kind, final_dim, DIM, layers))
    final = tuple(rand(ROWS, 2, final_dim, seed=i) for i in range(encoder_parts))
    cells = bridge(final)
    assert len(cells) == (1 if kind == "gru" else 2)
    for i, (cell, part) in enumerate(zip(cells, bridge.projections, strict=True)):
        top = final[min(i, encoder_parts - 1)][:, -1]  # an LSTM after a GRU makes its c from h as well
        for layer in range(layers):
            rows = slice(layer * DIM, (layer + 1) * DIM)
            expected = torch.tanh(top @ part.weight[rows].T + part.bias[rows])
            torch.testing.assert_close(cell[:, layer], expected)


# ---------------------------------------------------------------------- first weights


def assert_glorot(weight, gates=1):
    for block in weight.chunk(gates):
        bound = math.sqrt(6 / sum(block.shape))
        assert block.abs().max() <= bound
        assert block.abs().max() > 0.9 * bound  # of hundreds of uniform numbers one comes near


def assert_orthogonal(weight, gates):
    for block in weight.chunk(gates):
        torch.testing.assert_close(block @ block.T, torch.eye(len(block), dtype=block.dtype), atol=1e-6, rtol=0)


def assert_gate_biases(bias_of_input, bias_of_hidden, gates):
    total = (bias_of_input + bias_of_hidden).chunk(gates)
    for gate, bias in enumerate(total):
        assert (bias == (1.0 if gates == 4 and gate == 1 else 0.0)).all()  # input, forget, new, output


def check_rnn(rnn):
    gates = 3 if isinstance(rnn, nn.GRU) else 4
    for layer, end in itertools.product(range(rnn.num_layers), ["", "_reverse"][: 1 + rnn.bidirectional]):
        own = {n: getattr(rnn, f"{n}_l{layer}{end}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        assert_glorot(own["weight_ih"], gates)
        assert_orthogonal(own["weight_hh"], gates)
        assert_gate_biases(own["bias_ih"], own["bias_hh"], gates)


def check_fed(fed):
    assert_glorot(fed.feed_proj.weight, fed.num_gates)
    for linear, hidden in zip((fed.input_proj, *fed.upper_input_proj), fed.hidden_proj, strict=True):
        assert_glorot(linear.weight, fed.num_gates)
        assert_orthogonal(hidden.weight, fed.num_gates)
        assert_gate_biases(linear.bias, hidden.bias, fed.num_gates)


def check_other(part):
    if isinstance(part, nn.Linear):
        assert_glorot(part.weight)
        assert part.bias is None or (part.bias == 0).all()
    if isinstance(part, nn.LayerNorm):
        assert (part.weight == 1).all()
        assert (part.bias == 0).all()
    if isinstance(part, nn.Embedding):
        spread, count = part.embedding_dim**-0.5, part.weight.numel()
        assert part.weight.std().item() == pytest.approx(spread, rel=4 / math.sqrt(2 * count))
        assert part.weight.mean().abs() < 4 * spread / math.sqrt(count)


@pytest.mark.parametrize(
    ("encoder", "decoder", "tie"),
    [(e, d, "none") for e, d in PAIRS if e not in OWN_EMBEDDINGS] + [("gru", "luong", "all")],
)
def test_first_weights_are_as_stated(encoder, decoder, tie):
    net = model(encoder, decoder, words=200, tie=tie)
    seen = {net.output_projection} if tie == "all" else set()  # its weights are the embeddings'
    for part in net.modules():
        if isinstance(part, InputFedRNN):
            check_fed(part)
            seen |= set(part.modules())
    for part in net.modules():
        if isinstance(part, nn.GRU | nn.LSTM):
            check_rnn(part)
        elif part not in seen:
            check_other(part)
    assert (net.output_projection.bias == 0).all()
    for name, v in net.named_parameters():
        if name.endswith("score.v"):
            assert v.abs().max() <= 0.1
            assert v.std() > 0.02

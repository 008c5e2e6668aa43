"""Fused RNNs and additive scores against PyTorch and the plain formulas: values, and all gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from seq2attn.nn.kernels import additive as additive_kernel
from seq2attn.nn.kernels.rnn_cells import FUSED_CELLS, DeferredLinear
from seq2attn.nn.packed_rnn import run_packed
from seq2attn.nn.stacked_rnn import FusedSteps, InputFedRNN, ReferenceSteps, stack_layer_states, unstack_layer_states
from tests.support.models import rand

CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}


def gradients(outputs, inputs):
    """Gradients of a sum of the outputs in which each element has another factor."""
    total = sum((out * rand(*out.shape, seed=50 + i).to(out)).sum() for i, out in enumerate(outputs))
    return torch.autograd.grad(total, inputs, retain_graph=True, allow_unused=True)


def assert_same(ours, theirs, inputs, **near):
    torch.testing.assert_close(ours, theirs, **near)
    torch.testing.assert_close(gradients(ours, inputs), gradients(theirs, inputs), **near)


def chain(product, base, weight, rows):
    """A recurrence in which the input of a step is the output of the previous one, with fewer or more rows."""
    outputs, x = [], base.new_ones(rows[0], weight.size(1))
    for step, n in enumerate(rows):
        x = F.pad(x, (0, 0, 0, max(0, n - x.size(0))))[:n]
        x = torch.tanh(product(step, x))
        outputs.append(x)
    return outputs


def plain(base, weight, rows):
    split = base.split(rows)
    return lambda step, x: split[step] + x @ weight.T


@pytest.mark.parametrize("rows", [[4, 2, 1], [1, 3, 3]])
def test_a_deferred_weight_has_the_gradient_of_a_plain_one(rows):
    base, weight = rand(sum(rows), 5).requires_grad_(), rand(5, 5, seed=1).requires_grad_()
    ours = chain(DeferredLinear(base, weight, rows), base, weight, rows)
    theirs = chain(plain(base, weight, rows), base, weight, rows)
    assert_same(ours, theirs, (base, weight))


def test_deferred_steps_in_any_order_some_unused_with_frozen_weights_and_several_backward_passes():
    rows = [2, 2, 2]
    base, weight = rand(6, 5).requires_grad_(), rand(5, 5, seed=1).requires_grad_()
    deferred, formula = DeferredLinear(base, weight, rows), plain(base, weight, rows)
    ours, theirs = (
        {t: p(t, rand(2, 5, seed=t).tanh()) for t in (2, 0, 1)} for p in (deferred, formula)
    )  # step 1 is not used below
    for of in ((base,), (weight,), (base, weight), (weight,)):
        one, other = (torch.autograd.grad((o[2] * o[0]).sum(), of, retain_graph=True) for o in (ours, theirs))
        torch.testing.assert_close(one, other)
    frozen = weight.detach()
    ours, theirs = (
        chain(p, base, frozen, rows) for p in (DeferredLinear(base, frozen, rows), plain(base, frozen, rows))
    )
    assert_same(ours, theirs, (base,))


@pytest.mark.parametrize(
    ("kind", "gates"),
    [("gru", [0.0, 5.54, 0.5]), ("lstm", [-7.6, 30.0, 0.5, 0.0])],  # nearly all of the state is kept, or all
)
@pytest.mark.parametrize("is_fused", [True, False])
def test_small_changes_of_the_state_are_not_lost_in_bfloat16(kind, gates, is_fused):
    dim, steps, last = 4, 800, []
    for autocast in (False, True):
        base = torch.tensor(gates).repeat_interleave(dim).expand(steps, -1)
        hidden, bias = torch.zeros(len(gates) * dim, dim), torch.zeros(len(gates) * dim)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            gate = base.to(torch.bfloat16) if autocast else base
            cells = tuple(gate.new_zeros(1, dim) for _ in range(1 if kind == "gru" else 2))  # as from a bridge
            if is_fused:
                cell = FUSED_CELLS[kind](gate, None, hidden, bias, [1] * steps)
                for step in range(steps):
                    cells = cell(step, None, cells)
            else:
                rnn = InputFedRNN(kind, dim, dim, dim, 1, 0.0)
                for parameter in rnn.parameters():
                    nn.init.zeros_(parameter)
                rnn.input_proj.bias.data.copy_(base[0])
                reference, states = ReferenceSteps(rnn, gate.new_zeros(1, steps, dim)), [cells]
                with torch.no_grad():
                    for step in range(steps):
                        _, states = reference(step, gate.new_zeros(1, dim), states)
                (cells,) = states
        last.append(cells[-1].float())
    assert last[0].min() > 0.15
    torch.testing.assert_close(last[1], last[0], rtol=0.02, atol=0.0)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", CELLS)
def test_fused_steps_are_the_formula(kind, layers):
    fed = InputFedRNN(kind, 5, 4, 6, layers, 0.0).double()
    for parameter in fed.parameters():
        nn.init.normal_(parameter)
    words, feed = rand(3, 7, 5).requires_grad_(), rand(3, 4).requires_grad_()
    first = tuple(rand(3, layers, 6, seed=i).requires_grad_() for i in range(1 if kind == "gru" else 2))
    results = []
    for steps in (FusedSteps(fed, words), ReferenceSteps(fed, words)):
        cells, x, outputs = unstack_layer_states(first), feed, []
        for t in range(7):
            output, cells = steps(t, x, cells)
            x = output[:, :4]
            outputs.append(output)
        results.append((torch.stack(outputs), *stack_layer_states(cells)))
    assert_same(*results, (*fed.parameters(), words, feed, *first))


@pytest.mark.parametrize(("lengths", "layers", "bidirectional"), [((5,), 1, False), ((6, 2, 2, 1), 2, True)])
@pytest.mark.parametrize("kind", CELLS)
def test_a_packed_rnn_is_torchs(kind, layers, bidirectional, lengths):
    rnn = CELLS[kind](5, 4, layers, bidirectional=bidirectional, batch_first=True).double()
    words = rand(len(lengths), max(lengths), 5).requires_grad_()
    packed = pack_padded_sequence(words, torch.tensor(lengths), batch_first=True)
    ours, final = run_packed(rnn, packed)
    theirs, their_final = rnn(packed)
    their_final = their_final if kind == "lstm" else (their_final,)
    assert_same((ours.data, *final), (theirs.data, *their_final), (words, *rnn.parameters()))


@pytest.mark.parametrize("chunk_size", [1, 50, 2**18])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("device", additive_kernel.METHODS)
def test_additive_scores_are_the_formula_in_chunks_of_any_size(device, queries, chunk_size, monkeypatch):
    monkeypatch.setitem(additive_kernel.METHODS, "cpu", additive_kernel.METHODS[device])
    monkeypatch.setitem(additive_kernel.CHUNK_SIZE, "cpu", chunk_size)
    q, k, v = rand(5, 2, queries, 6), rand(5, 2, 4, 6, seed=1), rand(2, 1, 6, seed=2)
    inputs = tuple(part.requires_grad_() for part in (q, k, v))
    formula = (torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) * v.unsqueeze(-2)).sum(-1)
    assert_same((additive_kernel.additive_scores(*inputs),), (formula,), inputs)


@pytest.mark.parametrize("device", additive_kernel.METHODS)
def test_additive_scores_of_bfloat16_inputs_are_computed_in_float32(device, monkeypatch):
    """The sum of v is large: a method that subtracts it would lose the digits of the scores."""
    monkeypatch.setitem(additive_kernel.METHODS, "cpu", additive_kernel.METHODS[device])
    q, k, v = 3 * rand(5, 1, 3, 64), 3 * rand(5, 1, 4, 64, seed=1), 1 + rand(1, 1, 64, seed=2)
    rounded = [x.to(torch.bfloat16).requires_grad_() for x in (q, k)]
    v = v.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = additive_kernel.additive_scores(*rounded, v)
    exact = [x.detach().double().requires_grad_() for x in (*rounded, v)]
    formula = (torch.tanh(exact[0].unsqueeze(-2) + exact[1].unsqueeze(-3)) * exact[2].unsqueeze(-2)).sum(-1)
    torch.testing.assert_close(output.double(), formula, rtol=1e-5, atol=3e-5)
    for one, other in zip(gradients((output,), (*rounded, v)), gradients((formula,), exact), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=4e-3, atol=1e-3)
    on_meta = [x.detach().to("meta") for x in (*rounded, v)]
    assert additive_kernel.additive_scores(*on_meta).dtype == torch.float32

"""Fast recurrences against PyTorch's own and plain formulas: values, and the gradient of everything."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from seq2attn.attention import additive_kernel
from seq2attn.nn.linear import (
    HAS_ONEDNN,
    MIN_ROWS,
    MIN_TOTAL_ROWS,
    PrepackedLinear,
    PrepackedWeight,
    linear,
    prepack_linears,
)
from seq2attn.nn.rnn import FUSED_CELLS, DeferredLinear, gru_cell, lstm_cell, run_packed
from seq2attn.nn.rnn.cells import fused_gru_cell, fused_lstm_cell
from seq2attn.nn.rnn.stacked import (
    FusedSteps,
    InputFedRNN,
    ReferenceSteps,
    stack_layer_states,
    unstack_layer_states,
)
from tests.laws.parts import WORDS, model

CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}


def rand(*shape, seed=0, dtype=torch.double):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def gradients(outputs, inputs):
    """Of a sum in which every number of the outputs counts differently."""
    total = sum((out * rand(*out.shape, seed=50 + i).to(out)).sum() for i, out in enumerate(outputs))
    return torch.autograd.grad(total, inputs, retain_graph=True, allow_unused=True)


def assert_same(ours, theirs, inputs, **near):
    torch.testing.assert_close(ours, theirs, **near)
    torch.testing.assert_close(gradients(ours, inputs), gradients(theirs, inputs), **near)


# ---------------------------------------------------------------------- weights whose gradient waits


def chain(product, base, weight, rows):
    """A recurrence in which a step hands on what it made, to fewer rows or to more."""
    made, x = [], base.new_ones(rows[0], weight.size(1))
    for step, n in enumerate(rows):
        x = F.pad(x, (0, 0, 0, max(0, n - x.size(0))))[:n]
        x = torch.tanh(product(step, x))
        made.append(x)
    return made


def plain(base, weight, rows):
    split = base.split(rows)
    return lambda step, x: split[step] + x @ weight.T


@pytest.mark.parametrize("rows", [[3, 3, 3], [4, 2, 1], [1, 3, 3], [2]])
def test_a_late_weight_has_the_gradient_of_a_plain_one(rows):
    base, weight = rand(sum(rows), 5).requires_grad_(), rand(5, 5, seed=1).requires_grad_()
    ours = chain(DeferredLinear(base, weight, rows), base, weight, rows)
    theirs = chain(plain(base, weight, rows), base, weight, rows)
    assert_same(ours, theirs, (base, weight))


def test_a_late_weight_may_be_asked_backwards_used_in_part_frozen_and_asked_for_again():
    rows = [2, 2, 2]
    base, weight = rand(6, 5).requires_grad_(), rand(5, 5, seed=1).requires_grad_()
    late, formula = DeferredLinear(base, weight, rows), plain(base, weight, rows)
    ours, theirs = (
        {t: p(t, rand(2, 5, seed=t).tanh()) for t in (2, 0, 1)} for p in (late, formula)
    )  # the last is left out below
    for asked in ((base,), (weight,), (base, weight), (weight,)):
        one, other = (torch.autograd.grad((o[2] * o[0]).sum(), asked, retain_graph=True) for o in (ours, theirs))
        torch.testing.assert_close(one, other)
    frozen = weight.detach()
    ours, theirs = (
        chain(p, base, frozen, rows) for p in (DeferredLinear(base, frozen, rows), plain(base, frozen, rows))
    )
    assert_same(ours, theirs, (base,))


# ---------------------------------------------------------------------- steps


def test_a_fused_gru_is_the_formula():
    inputs, hidden, h = (rand(4, n, seed=n).requires_grad_() for n in (15, 16, 5))
    hidden = hidden[:, :15]
    assert_same((fused_gru_cell(inputs, hidden, h),), gru_cell(inputs, hidden, (h,)), (inputs, hidden, h))


def test_a_fused_lstm_is_the_formula():
    gates, c = rand(4, 20).requires_grad_(), rand(4, 5, seed=1).requires_grad_()
    ours, theirs = (
        fused_lstm_cell(gates, c),
        lstm_cell(gates, torch.zeros_like(gates), (torch.zeros_like(c), c)),
    )
    assert_same(ours, theirs, (gates, c))
    assert_same(ours[:1], theirs[:1], (gates, c))
    assert_same(ours[1:], theirs[1:], (c,))


@pytest.mark.parametrize(
    ("kind", "gates"),
    [("gru", [0.0, 5.54, 0.5]), ("lstm", [-7.6, 30.0, 0.5, 0.0])],  # all but a 256th is kept; all is
)
def test_what_a_cell_adds_up_slowly_is_not_lost_in_bfloat16(kind, gates):
    dim, steps, last = 4, 800, []
    for autocast in (False, True):
        base = torch.tensor(gates).repeat_interleave(dim).expand(steps, -1)
        hidden, bias = torch.zeros(len(gates) * dim, dim), torch.zeros(len(gates) * dim)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            gate = base.to(torch.bfloat16) if autocast else base
            cell = FUSED_CELLS[kind](gate, None, hidden, bias, [1] * steps)
            cells = tuple(torch.zeros(1, dim) for _ in range(1 if kind == "gru" else 2))
            for step in range(steps):
                cells = cell(step, None, cells)
        last.append(cells[-1].float())
    assert last[0].min() > 0.15
    torch.testing.assert_close(last[1], last[0], rtol=0.02, atol=0.0)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", CELLS)
def test_late_steps_are_plain_ones(kind, layers):
    fed = InputFedRNN(kind, 5, 4, 6, layers, 0.0).double()
    for parameter in fed.parameters():
        nn.init.normal_(parameter)
    words, feed = rand(3, 7, 5).requires_grad_(), rand(3, 4).requires_grad_()
    first = tuple(rand(3, layers, 6, seed=i).requires_grad_() for i in range(1 if kind == "gru" else 2))
    read = []
    for steps in (FusedSteps(fed, words), ReferenceSteps(fed, words)):
        cells, given, outputs = unstack_layer_states(first), feed, []
        for t in range(7):
            output, cells = steps(t, given, cells)
            given = output[:, :4]
            outputs.append(output)
        read.append((torch.stack(outputs), *stack_layer_states(cells)))
    assert_same(*read, (*fed.parameters(), words, feed, *first))


@pytest.mark.parametrize("lengths", [(3, 3, 3), (5,), (1, 2, 2, 6)])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize("kind", CELLS)
def test_reading_by_hand_is_torchs_reading(kind, layers, bidirectional, lengths):
    rnn = CELLS[kind](5, 4, layers, bidirectional=bidirectional, batch_first=True).double()
    words = rand(len(lengths), max(lengths), 5).requires_grad_()
    packed = pack_padded_sequence(words, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    ours, final = run_packed(rnn, packed)
    theirs, their_final = rnn(packed)
    torch.testing.assert_close(ours.unsorted_indices, theirs.unsorted_indices)
    their_final = their_final if kind == "lstm" else (their_final,)
    assert_same((ours.data, *final), (theirs.data, *their_final), (words, *rnn.parameters()))


# ---------------------------------------------------------------------- products


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, MIN_ROWS, MIN_TOTAL_ROWS])
def test_products_are_torchs(rows, dtype):
    """On a CPU float32 is oneDNN's where there are rows enough, all else is PyTorch's."""
    assert HAS_ONEDNN, "this PyTorch keeps oneDNN's products elsewhere: look for them, or they are slow"
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    x, weight, bias = (
        rand(rows, 24, dtype=dtype),
        rand(40, 24, seed=1, dtype=dtype),
        rand(40, seed=2, dtype=dtype),
    )
    base, repeated = rand(rows, 40, seed=3, dtype=dtype), PrepackedWeight(weight, rows, 2)
    torch.testing.assert_close(repeated.forward(x, base), base + x @ weight.T, **near)
    torch.testing.assert_close(repeated.forward(x[:1], base[:1]), base[:1] + x[:1] @ weight.T, **near)
    torch.testing.assert_close(repeated.backward(base), base @ weight, **near)
    inputs = tuple(part.requires_grad_() for part in (x, weight, bias))
    assert_same((linear(*inputs),), (F.linear(*inputs),), inputs, **near)
    several = linear(x.unflatten(0, (1, rows)), weight, bias)
    torch.testing.assert_close(several, F.linear(x, weight, bias).unsqueeze(0), **near)


# ---------------------------------------------------------------------- additive scores


@pytest.mark.parametrize("near", [1, 50, 200, 2**18])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("scores", [additive_kernel.scores_by_sigmoid, additive_kernel.scores_by_tanh])
def test_additive_scores_are_the_formula_in_pieces_of_any_size(scores, queries, near, monkeypatch):
    monkeypatch.setitem(additive_kernel.CHUNK_SIZE, "cpu", near)
    q, k, v = rand(5, 2, queries, 6), rand(5, 2, 4, 6, seed=1), rand(2, 1, 6, seed=2)
    inputs = tuple(part.requires_grad_() for part in (q, k, v))
    formula = (torch.tanh(q.unsqueeze(-2) + k.unsqueeze(-3)) * v.unsqueeze(-2)).sum(-1)
    assert_same((scores(*inputs),), (formula,), inputs)


def test_additive_scores_of_bfloat16_are_exact_but_on_a_cpu():
    """Where the queries and keys are rounded, nothing else is; within autocast too."""
    q, k, v = 3 * rand(5, 1, 3, 64), 3 * rand(5, 1, 4, 64, seed=1), rand(1, 1, 64, seed=2)
    rounded = [x.to(torch.bfloat16).requires_grad_() for x in (q, k)]
    v = v.float().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = additive_kernel.scores_by_tanh(*rounded, v)
    exact = [x.detach().double().requires_grad_() for x in (*rounded, v)]
    formula = additive_kernel.scores_by_sigmoid(*exact)
    torch.testing.assert_close(found.double(), formula, rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients((found,), (*rounded, v)), gradients((formula,), exact), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=4e-3, atol=1e-3)
    elsewhere = [x.detach().to("meta") for x in (*rounded, v)]
    assert additive_kernel.additive_scores(*elsewhere).dtype == torch.float32


@pytest.mark.parametrize("decoder", ["bahdanau-gru", "luong-feeding", "transformer"])
def test_a_model_laid_out_for_search_says_the_same(decoder):
    net = model("gru", decoder).float().eval()
    laid = copy.deepcopy(net)
    prepack_linears(laid)
    kinds = {type(part) for part in laid.modules()}
    assert PrepackedLinear in kinds
    source, target = torch.randint(4, WORDS, (3, 5)), torch.randint(4, WORDS, (3, 4))
    mask = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad():
        ours, theirs = (m.output_projection(m(source, mask, target).hidden) for m in (laid, net))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert laid(source, mask, target).hidden.requires_grad

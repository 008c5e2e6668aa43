"""Kernels on CUDA against float64 on the CPU."""

import numpy as np
import pytest
import torch

from seq2attn.attention.dispatch import attend_in_groups
from seq2attn.attention.entmax import masked_entmax
from seq2attn.nn.kernels.additive import additive_scores
from seq2attn.nn.kernels.cross_entropy import linear_cross_entropy
from seq2attn.nn.kernels.rnn_cells import FUSED_CELLS
from seq2attn.nn.kernels.varlen import padded_attention, varlen_attention
from seq2attn.nn.packed_rnn import run_rnn
from seq2attn.nn.packing import SequenceLayout
from tests.support.gpu import BFLOAT16, DEVICE, FLOAT32, MARKS, exact
from tests.support.models import rand

pytestmark = [*MARKS, pytest.mark.usefixtures("exact")]
__all__ = ["exact"]  # a fixture
KINDS = {"float32": (torch.float32, FLOAT32), "bfloat16": (torch.bfloat16, BFLOAT16)}


def results_on_both_devices(function, inputs, kind):
    """Value and gradients of rounded inputs: on the device in a type, and on the CPU in float64."""
    results = []
    for device, dtype in ((DEVICE, kind), (torch.device("cpu"), torch.double)):
        tensors = [x.to(kind).to(device, dtype).requires_grad_() for x in inputs]
        value = function(*tensors)
        weights = rand(*value.shape, seed=9).to(value)
        grads = torch.autograd.grad((value * weights).sum(), tensors)
        results.append([x.double().cpu() for x in (value, *grads)])
    return results


def assert_near(function, inputs, name):
    kind, near = KINDS[name]
    for ours, theirs in zip(*results_on_both_devices(function, inputs, kind), strict=True):
        scale = float(theirs.abs().max().clamp_min(1.0))
        torch.testing.assert_close(ours / scale, theirs / scale, **near)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 300, 24_001])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss(kind, rows, smoothing):
    inputs = rand(rows, 16), rand(37, 16, seed=1), rand(37, seed=2)
    labels = torch.randint(0, 37, (rows,), generator=torch.Generator().manual_seed(3))

    def loss(hidden, weight, bias):
        return linear_cross_entropy(hidden, weight, bias, labels.to(hidden.device), smoothing)[0] / rows

    assert_near(loss, inputs, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [5, 12, 64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_within_sentences_of_many_lengths(kind, width, causal):
    rng = np.random.default_rng(0)
    queries = rng.integers(1, 301, 20)
    keys = queries if causal else rng.integers(1, 301, 20)
    layout = SequenceLayout.from_lengths(queries), SequenceLayout.from_lengths(keys)
    inputs = [rand(1, 2, int(n.sum()), width, seed=seed) for seed, n in enumerate((queries, keys, keys))]

    def attend(q, k, v):
        here = [part.map_tensors(lambda x: x.to(q.device)) for part in layout]
        attention = padded_attention if q.device.type == "cpu" else varlen_attention
        return attention(q, k, v, here, causal=causal)

    assert_near(attend, inputs, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 1, 9), (3, 4, 9)], ids=str)
def test_heads_that_share_keys(kind, shape):
    mask = (rand(*shape, 7, seed=3) > 0).index_fill(-1, torch.tensor([0]), True)
    inputs = rand(3, 4, 9, 16), rand(3, 2, 7, 16, seed=1), rand(3, 2, 7, 16, seed=2)
    assert_near(lambda q, k, v: attend_in_groups(q, k, v, mask.to(q.device), 0.0), inputs, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("queries", [1, 30])
def test_additive_scores(kind, queries):
    inputs = rand(5, 2, queries, 64), rand(5, 2, 40, 64, seed=1), rand(2, 1, 64, seed=2)
    assert_near(additive_scores, inputs, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_entmax(kind, alpha):
    mask = torch.arange(600) < torch.tensor([600, 300, 1])[:, None, None, None]
    inputs = [rand(3, 2, 4, 600) / 50]
    assert_near(lambda scores: masked_entmax(scores, mask.to(scores.device), alpha), inputs, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_cells_step_by_step(kind, cell):
    gates, rows, dim = (3 if cell == "gru" else 4), [5] * 20, 16
    inputs = rand(100, gates * dim), rand(gates * dim, dim, seed=1) / 4, rand(gates * dim, seed=2)

    def read(base, hidden, bias):
        step = FUSED_CELLS[cell](base, None, hidden, bias, rows)
        cells = tuple(base.new_zeros(5, dim) for _ in range(1 if cell == "gru" else 2))
        outputs = []
        for t in range(20):
            cells = step(t, None, cells)
            outputs.append(cells[0])
        return torch.stack(outputs)

    assert_near(read, inputs, kind)


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.LSTM])
def test_rnns_within_autocast_are_those_outside(kind):
    rnn, words = kind(16, 16, batch_first=True).to(DEVICE), rand(4, 30, 16).float().to(DEVICE)
    outputs, last = run_rnn(rnn, words)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        same, cells = run_rnn(rnn, words)
    torch.testing.assert_close(same, outputs)
    assert [x.dtype for x in cells] == [x.dtype for x in last] == [torch.float32] * len(last)

"""Padding-free batches: losses, gradients and trainings equal those of padded batches."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from seq2attn.data.collate import collate
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.nn.kernels.varlen import padded_attention, varlen_attention
from seq2attn.nn.packing import SequenceLayout
from tests.support import models as parts
from tests.support.marks import slow_but
from tests.support.packed_models import ATTENTIONS, KINDS, PAIRS, SSRU, config, loss_and_gradients, objective
from tests.support.trainings import assert_near, content, last_weights, log_of, metrics, train_run


@pytest.mark.parametrize(
    "which",
    [*({"kind": kind} for kind in KINDS), *({"attention": name} for name in ATTENTIONS), {"decoder": SSRU}],
    ids=str,
)
def test_loss_and_gradients_equal_those_of_padded_sentences(which):
    net = objective(**which).double()
    loss, gradients = loss_and_gradients(net, collate(PAIRS))
    packed, packed_gradients = loss_and_gradients(net, collate(PAIRS, packed=True))
    assert packed.num_target_tokens == loss.num_target_tokens
    torch.testing.assert_close(packed.loss, loss.loss)
    torch.testing.assert_close(packed.negative_log_likelihood, loss.negative_log_likelihood)
    assert any(gradient.abs().max() > 0.1 for gradient in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(packed_gradients[name], gradient)


def test_a_row_has_no_padding():
    batch = collate(PAIRS, packed=True)
    assert batch.source.shape == (1, sum(len(source) + 1 for source, _ in PAIRS))
    assert batch.labels.shape == (1, sum(len(target) + 1 for _, target in PAIRS))
    of_source, of_target = batch.sequences.layout, batch.target_layout
    for row, layout, padded in (
        (batch.source, of_source, collate(PAIRS).source),
        (batch.target, of_target, collate(PAIRS).target),
        (batch.labels, of_target, collate(PAIRS).labels),
    ):
        bounds = layout.cu_seqlens.tolist()
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            assert row[0, start:end].equal(padded[number, : end - start])
            assert layout.positions[0, start:end].tolist() == list(range(end - start))


def inputs(dim=8, value_dim=8):
    layouts = [SequenceLayout.from_lengths(torch.tensor(lengths).numpy()) for lengths in ([3, 1, 5, 2], [4, 6, 1, 1])]
    shapes = ((11, dim), (12, dim), (12, value_dim))
    return *(parts.rand(1, 2, *shape, seed=i).requires_grad_() for i, shape in enumerate(shapes)), *layouts


def reference(q, k, v, query_layout, key_layout, *, causal=False):
    """Attention of each sentence in turn."""
    outputs = []
    bounds = (itertools.pairwise(layout.cu_seqlens.tolist()) for layout in (query_layout, key_layout))
    for (start, end), (first, last) in zip(*bounds, strict=True):
        queries, keys, values = q[:, :, start:end], k[:, :, first:last], v[:, :, first:last]
        outputs.append(F.scaled_dot_product_attention(queries, keys, values, is_causal=causal))
    return torch.cat(outputs, 2)


@pytest.mark.parametrize("attend", [padded_attention, varlen_attention])
@pytest.mark.parametrize("widths", [(8, 8), (5, 3)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_queries_attend_to_their_own_sentence(attend, widths):
    """Also without padding, as on a GPU."""
    q, k, v, *layouts = inputs(*widths)
    context, expected = attend(q, k, v, layouts, causal=False), reference(q, k, v, *layouts)
    torch.testing.assert_close(context, expected)
    gradients = (torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (context, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_causal_attention_is_to_earlier_positions_only():
    q, k, v, _, layout = inputs()
    q = torch.cat([q, q[:, :, :1]], 2)
    context = padded_attention(q, k, v, (layout, layout), causal=True)
    torch.testing.assert_close(context, reference(q, k, v, layout, layout, causal=True))


@pytest.mark.skipif(
    torch.backends.cuda.is_built() and not torch.cuda.is_available(),
    reason="a CUDA build of PyTorch needs a GPU for it",
)
@pytest.mark.parametrize("dtype", slow_but([torch.bfloat16], [torch.bfloat16, torch.float32]))
@pytest.mark.parametrize("which", [*({"kind": kind} for kind in KINDS), {"attention": "grouped keys"}], ids=str)
def test_shapes_on_a_gpu_are_those_of_flash_attention(which, dtype, monkeypatch):
    """On PyTorch's `meta` device, whose operation counter takes the path of FlashAttention.

    In 16 bits it is called directly: nested tensors take more time on the host than the kernel on the GPU.
    """
    if dtype == torch.bfloat16:
        monkeypatch.delattr(torch.nested, "nested_tensor_from_jagged")
    net, batch = objective(**which).model.to("meta", dtype), collate(PAIRS, packed=True).to("meta")
    with FlopCounterMode(display=False) as counter:
        decoded = net(batch.source, batch.sequences, batch.target, target_layout=batch.target_layout)
        decoded.hidden.sum().backward()
    assert decoded.hidden.shape == (*batch.target.shape, 16)
    flash = torch.ops.aten._flash_attention_forward, torch.ops.aten._flash_attention_backward
    counted = counter.get_flop_counts()["Global"]
    assert all(counted[kernel] > 0 for kernel in flash)
    assert [name for name, weight in net.decoder.named_parameters() if weight.grad is None] == []


def test_attention_dropout_is_for_training_only():
    torch.manual_seed(0)
    net = objective(attention_dropout=0.5).double()
    one, other = (net(collate(PAIRS, packed=True)).loss.item() for _ in range(2))
    assert one != other
    net.eval()
    padded = net(collate(PAIRS)).loss
    torch.testing.assert_close(net(collate(PAIRS, packed=True)).loss, padded)


def test_a_padding_free_training_equals_a_padded_one(corpus):
    options = {"model": config(), "max_duration": ["1 epoch"], "optimizer": {"kind": "sgd", "lr": 0.5}}
    padded = train_run(corpus, "padded", batch={"tokens": 64}, **options)
    packed = train_run(corpus, "packed", batch={"tokens": 64, "padding_free": True}, **options)
    assert_near(last_weights(packed), last_weights(padded))
    losses = [[line["loss"] for line in metrics(run, "train")] for run in (packed, padded)]
    assert len(losses[0]) > 2 and losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert [", padding: 0.0%" in log_of(run) for run in (packed, padded)] == [True, False]


ADDITIVE = {**config()["decoder"], "attention": {"score": {"kind": "additive", "dim": 8}}}
RELATIVE = {**config()["decoder"], "position_encoding": "relative"}


@pytest.mark.parametrize(
    ("model", "training", "message"),
    [
        ({"encoder": {"kind": "gru", "dim": 16}}, {}, "see `model.encoder`"),
        ({"decoder": RELATIVE}, {}, "see `model.decoder`"),
        ({"decoder": ADDITIVE}, {}, "see `model.decoder.attention`"),
        ({}, {"guided_alignment": {"weight": 0.2}}, "no attention weights, which `training.guided_alignment` needs"),
    ],
)
def test_models_without_padding_free_attention_are_refused(tmp_path, model, training, message):
    training = {"batch": {"tokens": 64, "padding_free": True}, **training}
    with pytest.raises(ValueError, match=message):
        ExperimentConfig.model_validate(content(tmp_path, "run", model=config() | model, **training))


def test_the_config_knows_which_attention_is_padding_free():
    for score, align in parts.ATTENTIONS:
        attention = parts.config("transformer", "transformer", score, align).decoder.attention
        built = attention.build(parts.WIDTH, parts.WIDTH, parts.WIDTH, parts.WIDTH)
        assert attention.supports_sdpa == built.supports_padding_free, (score, align)

"""Sentences in one row, without padding, are read as padded ones are: losses, gradients and whole trainings."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from seq2attn.data.collate import collate, collate_padding_free
from seq2attn.models import build_model
from seq2attn.models.config import ModelConfig
from seq2attn.nn.varlen import SequenceLayout, varlen_attention
from seq2attn.training.loss import TrainingLoss
from tests.laws import parts
from tests.laws.small import assert_near, corpus, last_weights, metrics, trained

__all__ = ["corpus"]  # a fixture

PAIRS = [([4, 5, 6], [7, 8]), ([9], [3, 4, 5, 6, 7]), ([8, 8, 4, 5, 9, 3], []), ([], [5])]
KINDS = {
    "post-norm": {"norm_order": "post"},
    "pre-norm": {},
    "learned positions": {"position_encoding": "learned", "max_positions": 4},
    "rotary, grouped keys": {"position_encoding": "rotary", "kv_heads": 2},
    "modern": {"activation": "swiglu", "norm_type": "rmsnorm"},
}
ATTENTIONS = {
    "multi-head": {"score": {"kind": "multi-head", "heads": 4}},
    "grouped keys": {"score": {"kind": "multi-head", "heads": 4, "kv_heads": 2}},
    "scaled dot": {"score": {"kind": "dot", "scaled": True, "heads": 2}},
    "scaled general": {"score": {"kind": "general", "scaled": True}},
}


def config(kind=None, attention=None, **options):
    part = {"kind": "transformer", "layers": 2, "heads": 4, "ffn_dim": 24, "dropout": 0.0}
    part |= KINDS[kind or "pre-norm"] | options
    decoder = {**part, "attention": ATTENTIONS[attention or "multi-head"]}
    return {"embeddings": {"dim": 16}, "encoder": part, "decoder": decoder}


def objective(**which):
    torch.manual_seed(1)
    return TrainingLoss(build_model(ModelConfig.model_validate(config(**which)), 12, 12), 0.1)


def learnt(objective, batch):
    objective.zero_grad()
    loss = objective(batch)
    loss.loss.backward()
    return loss, {name: parameter.grad.clone() for name, parameter in objective.named_parameters()}


@pytest.mark.parametrize(
    "which", [*({"kind": kind} for kind in KINDS), *({"attention": name} for name in ATTENTIONS)], ids=str
)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["float32", "float64"])
def test_loss_and_gradients_are_those_of_padded_sentences(which, dtype, near):
    net = objective(**which).to(dtype)
    loss, gradients = learnt(net, collate(PAIRS))
    packed, packed_gradients = learnt(net, collate_padding_free(PAIRS))
    assert packed.num_target_tokens == loss.num_target_tokens
    torch.testing.assert_close(packed.loss, loss.loss, rtol=near, atol=near)
    likelihood = loss.negative_log_likelihood
    torch.testing.assert_close(packed.negative_log_likelihood, likelihood, rtol=near, atol=near)
    assert any(gradient.abs().max() > 0.1 for gradient in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(packed_gradients[name], gradient, rtol=near, atol=near)


def test_a_row_is_its_sentences_alone():
    net = objective().double()
    together = net(collate_padding_free(PAIRS)).loss
    alone = [net(collate_padding_free([pair])).loss for pair in PAIRS]
    torch.testing.assert_close(together, sum(alone))


def test_there_is_no_padding():
    batch = collate_padding_free(PAIRS)
    assert batch.source.shape == (1, sum(len(source) + 1 for source, _ in PAIRS))
    assert batch.labels.shape == (1, sum(len(target) + 1 for _, target in PAIRS))
    of_source, of_target = batch.layouts
    for row, layout, padded in (
        (batch.source, of_source, collate(PAIRS).source),
        (batch.target, of_target, collate(PAIRS).target),
        (batch.labels, of_target, collate(PAIRS).labels),
    ):
        bounds = layout.cu_seqlens.tolist()
        for number, (start, end) in enumerate(itertools.pairwise(bounds)):
            assert row[0, start:end].equal(padded[number, : end - start])
            assert layout.positions[0, start:end].tolist() == list(range(end - start))


def given(seed=0, heads=2, dim=8, value_dim=8):
    asking, asked = (
        SequenceLayout.from_lengths(torch.tensor(lengths).numpy()) for lengths in ([3, 1, 5, 2], [4, 6, 1, 1])
    )
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(1, heads, words, width, generator=draw, dtype=torch.double).requires_grad_()
        for words, width in ((11, dim), (12, dim), (12, value_dim))
    )
    return q, k, v, asking, asked


def one_by_one(q, k, v, asking, asked, *, causal=False):
    found = []
    for number in range(len(asking.cu_seqlens) - 1):
        (here, end), (first, last) = (x.cu_seqlens[number : number + 2].tolist() for x in (asking, asked))
        own = (q[:, :, here:end], k[:, :, first:last], v[:, :, first:last])
        scores = own[0] @ own[1].transpose(-2, -1) / q.size(-1) ** 0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        found.append(scores.softmax(-1) @ own[2])
    return torch.cat(found, 2)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("widths", [(8, 8), (5, 3), (4, 12)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_each_query_asks_its_own_sentence(padded, widths):
    """Without padding is how a card is asked; on a CPU PyTorch has that too, slowly, where it is not causal."""
    q, k, v, asking, asked = given(0, 2, *widths)
    context = varlen_attention(q, k, v, asking, asked, padded=padded)
    expected = one_by_one(q, k, v, asking, asked)
    torch.testing.assert_close(context, expected)
    gradients = (torch.autograd.grad(x.square().sum(), (q, k, v)) for x in (context, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_causal_attention_looks_back_alone():
    q, k, v, _, asked = given()
    q = torch.cat([q, q[:, :, :1]], 2)
    context = varlen_attention(q, k, v, asked, asked, causal=True, padded=True)
    torch.testing.assert_close(context, one_by_one(q, k, v, asked, asked, causal=True))


@pytest.mark.skipif(
    torch.backends.cuda.is_built() and not torch.cuda.is_available(),
    reason="PyTorch for cards asks one first",
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("which", [*({"kind": kind} for kind in KINDS), {"attention": "grouped keys"}], ids=str)
def test_what_a_card_is_asked_has_the_shapes_of_its_kernel(which, dtype, monkeypatch):
    """Without numbers, on PyTorch's `meta` device, whose counter of operations takes FlashAttention's way.

    In 16 bits that is asked for directly: nested tensors take the host longer than the card.
    """
    if dtype == torch.bfloat16:
        monkeypatch.delattr(torch.nested, "nested_tensor_from_jagged")
    net, batch = objective(**which).model.to("meta", dtype), collate_padding_free(PAIRS).to("meta")
    with FlopCounterMode(display=False) as counter:
        decoded = net(batch.source, batch.source_mask, batch.target, layout=batch.layouts)
        decoded.hidden.sum().backward()
    assert decoded.hidden.shape == (*batch.target.shape, 16)
    flash = torch.ops.aten._flash_attention_forward, torch.ops.aten._flash_attention_backward
    counted = counter.get_flop_counts()["Global"]
    assert all(counted[kernel] > 0 for kernel in flash)
    assert [name for name, weight in net.decoder.named_parameters() if weight.grad is None] == []


def test_attention_that_leaves_out_weights_does_so_in_training_alone():
    torch.manual_seed(0)
    net = objective(attention_dropout=0.5).double()
    one, other = (net(collate_padding_free(PAIRS)).loss.item() for _ in range(2))
    assert one != other
    net.eval()
    padded = net(collate(PAIRS)).loss
    torch.testing.assert_close(net(collate_padding_free(PAIRS)).loss, padded)


def test_a_training_with_packed_batches_is_that_with_padded_ones(corpus):
    options = {"model": config(), "max_duration": ["3 epochs"], "optimizer": {"kind": "sgd", "lr": 0.5}}
    padded = trained(corpus, "padded", batch={"tokens": 64}, **options)
    packed = trained(corpus, "packed", batch={"tokens": 64, "padding_free": True}, **options)
    assert_near(last_weights(packed), last_weights(padded))
    losses = [[line["loss"] for line in metrics(run, "train")] for run in (packed, padded)]
    assert len(losses[0]) > 3 and losses[0] == pytest.approx(losses[1], rel=1e-4)


REFUSED = {
    "recurrent": ({"encoder": {"kind": "gru", "dim": 16}}, {}, "see `model.encoder`"),
    "relative": (
        {"decoder": {**config()["decoder"], "position_encoding": "relative"}},
        {},
        "see `model.decoder`",
    ),
    "additive": (
        {"decoder": {**config()["decoder"], "attention": {"score": {"kind": "additive", "dim": 8}}}},
        {},
        "see `model.decoder.attention`",
    ),
    "guided": (
        {},
        {"guided_alignment": {"weight": 0.2}},
        "computes no attention weights, which `training.guided_alignment` needs",
    ),
}


@pytest.mark.parametrize(("other", "training", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_packed_is_said_before_any_work(corpus, other, training, message):
    with pytest.raises(ValueError, match=message):
        trained(corpus, "run", model=config() | other, batch={"tokens": 64, "padding_free": True}, **training)
    assert not (corpus / "run").exists()


def test_configs_are_refused_for_just_the_attentions_that_cannot():
    for score, align in parts.ATTENTIONS:
        attention = parts.config("transformer", "transformer", score, align).decoder.attention
        built = attention.build(parts.WIDTH, parts.WIDTH, parts.WIDTH, parts.WIDTH)
        assert attention.supports_sdpa == built.supports_padding_free, (score, align)

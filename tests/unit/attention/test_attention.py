"""Scores, alignments and contexts against the papers' formulas, written out in NumPy.

B sentences, H heads, T queries, S keys; targets are longer than sources, and some sources shorter than windows.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from seq2attn.attention import Attention, QueryInfo
from seq2attn.attention.alignment import LocalMonotonicAlignment, LocalPredictiveAlignment, masked_softmax
from seq2attn.attention.config import AlignmentFunctionConfig, AttentionConfig, ScoreFunctionConfig
from seq2attn.attention.scores import DotScore, MultiHeadScore
from seq2attn.decoders.wiring import BAHDANAU_WIRING, LUONG_WIRING
from seq2attn.models import ModelConfig, build_model
from seq2attn.nn.decoding_state import repeat_rows
from tests.laws.formulas import plain_attention, plain_context, plain_scores, plain_weights
from tests.laws.parts import ALIGNS, ATTENTIONS, SCORES

B, T, S, QUERY, KEY, VALUE = 3, 9, 7, 8, 12, 4
LENGTHS = (7, 3, 1)
MODES = [(name, False) for name in ALIGNS] + [("monotonic", True)]
"""What an alignment does, after training and, where that is another thing that no chance decides, in it."""


def rand(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def inputs(key_dim=KEY):
    """query, keys, values, mask, position"""
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    position = torch.arange(T).expand(B, T)
    return rand(B, T, QUERY), rand(B, S, key_dim, seed=1), rand(B, S, VALUE, seed=2), mask, position


def shuffled(module):
    """Weights far from their first values, so that nothing is right by being zero."""
    for i, parameter in enumerate(module.parameters()):
        with torch.no_grad():
            parameter.copy_(rand(*parameter.shape, seed=10 + i) * 0.5)
    return module.double()


def key_dim(name):
    return QUERY if SCORES[name]["kind"] == "dot" else KEY


def config_of(score, align="global"):
    return {"score": SCORES[score], "align": ALIGNS[align]}


def build(score, align="global"):
    config = AttentionConfig.model_validate(config_of(score, align))
    return shuffled(config.build(QUERY, key_dim(score), VALUE)).eval()


@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    query, keys, *_ = inputs(key_dim(name))
    config = TypeAdapter(ScoreFunctionConfig).validate_python(SCORES[name])
    score = shuffled(config.build(QUERY, keys.size(-1)))
    position = torch.arange(T).expand(B, T)
    seen = rand(B, score.heads, T, S, seed=5).abs()
    info = QueryInfo(query, position, seen)
    ours = score(score.project_query(query, position), score.project_key(keys, position[:, :S]), info)
    for b, t in itertools.product(range(B), range(T)):
        plain = plain_scores(name, score, query[b, t].numpy(), keys[b].numpy(), t, seen[b, :, t].numpy())
        torch.testing.assert_close(ours[b, :, t].detach(), torch.from_numpy(plain))


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(("name", "training"), MODES)
def test_alignments(name, heads, training):
    query, _, _, mask, position = inputs()
    align = shuffled(TypeAdapter(AlignmentFunctionConfig).validate_python(ALIGNS[name]).build(QUERY))
    align.train(training)
    scores = rand(B, heads, T, S, seed=3)
    seen = rand(B, heads, T, S, seed=4).softmax(-1).masked_fill(~mask[:, None, None], 0.0)
    if not training:  # it looked at one word
        seen = torch.nn.functional.one_hot(seen.argmax(-1), S).double()
    ours = align(scores, mask[:, None, None], QueryInfo(query, position, seen)).detach()
    for b, t in itertools.product(range(B), range(T)):
        q, last = query[b, t].numpy(), seen[b, :, t].numpy()
        plain = plain_weights(name, align, scores[b, :, t].numpy(), LENGTHS[b], q, t, last)
        torch.testing.assert_close(ours[b, :, t], torch.from_numpy(plain))


@pytest.mark.parametrize(("score", "align"), [*ATTENTIONS, *(("coverage", align) for align in ALIGNS)])
def test_contexts(score, align):
    query, keys, values, mask, position = inputs(key_dim(score))
    attention = build(score, align)
    for training in (False, True) if align == "monotonic" else (False,):
        attention.train(training)
        memory = attention.project_memory(keys, values, mask)
        seen = attention.initial_state(memory)
        given = attention(query, memory, position, seen, need_weights=True)
        plain = plain_attention(score, align, attention, query.numpy(), keys.numpy(), LENGTHS)
        torch.testing.assert_close(given.weights.detach(), torch.from_numpy(plain))
        plain = plain_context(attention, plain, values.numpy())
        torch.testing.assert_close(given.context.detach(), torch.from_numpy(plain))
        torch.testing.assert_close(attention(query, memory, position, seen).context, given.context)


class Whole(nn.Module):
    """Projecting and asking in one call, as gradcheck wants it."""

    def __init__(self, attention, mask, position):
        super().__init__()
        self.attention, self.mask, self.position = attention, mask, position

    def forward(self, query, keys, values):
        memory = self.attention.project_memory(keys, values, self.mask)
        return self.attention(query, memory, self.position, self.attention.initial_state(memory)).context


@pytest.mark.parametrize(("score", "align"), ATTENTIONS)
def test_gradients(score, align):
    query, keys, values, mask, _ = inputs(key_dim(score))
    mask = mask[1:, :3]
    asked = Whole(build(score, align).train(align == "monotonic"), mask, torch.tensor([[0, 5]] * 2))
    names = [name for name, _ in asked.named_parameters()]

    def call(query, keys, values, *weights):
        named = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(asked, named, (query, keys, values))

    given = [query[1:, :2], keys[1:, :3], values[1:, :3], *asked.parameters()]
    given = [x.detach().clone().requires_grad_() for x in given]
    assert torch.autograd.gradcheck(call, given, fast_mode=True)


@pytest.mark.parametrize("name", ["scaled-dot", "dot-2-heads", "general-4-heads", "multi-head", "multi-head-2-groups"])
@pytest.mark.parametrize("hypotheses", [1, 3])
def test_fused_attention_is_written_out_attention(name, hypotheses, monkeypatch):
    monkeypatch.setattr("seq2attn.attention.attention.UNFUSED_MAX_SCORES", 0)
    _, keys, values, mask, _ = inputs(key_dim(name))
    attention = build(name)
    query = rand(B * hypotheses, T, QUERY, seed=4).requires_grad_()
    position = torch.arange(T).expand(B * hypotheses, T)
    memory = attention.project_memory(keys, values, mask)
    fused, _, none, _ = attention(query, memory, position)
    written, _, weights, _ = attention(query, memory, position, need_weights=True)
    assert none is None
    assert weights.shape == (B * hypotheses, attention.score.heads, T, S)
    torch.testing.assert_close(fused, written)
    ours, theirs = (torch.autograd.grad(x.pow(2).sum(), query, retain_graph=True)[0] for x in (fused, written))
    torch.testing.assert_close(ours, theirs)
    tiled, _, again, _ = attention(query, repeat_rows(memory, hypotheses), position, need_weights=True)
    torch.testing.assert_close(tiled, written)
    torch.testing.assert_close(again, weights)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ALIGNS)
def test_a_row_without_words_gets_no_weight_and_no_nan(name, training):
    config = TypeAdapter(AlignmentFunctionConfig).validate_python(ALIGNS[name])
    align = config.build(QUERY).double().train(training)
    query, _, _, mask, position = inputs()
    mask = mask.clone()
    mask[1] = False
    scores = rand(B, 2, T, S, seed=3).requires_grad_()
    first = align.initial_state(scores.new_zeros(B, 2, S))
    seen = None if first is None else first.unsqueeze(2).expand(-1, -1, T, -1)
    weights = align(scores, mask[:, None, None], QueryInfo(query, position, seen))
    assert (weights[1] == 0).all()
    (weights.pow(2).sum() + 0 * scores.sum()).backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[1] == 0).all()


@pytest.mark.parametrize("name", ["scaled-dot", "multi-head"])
def test_fused_attention_to_nothing_is_written_out_attention_to_nothing(name):
    query, keys, values, mask, position = inputs(key_dim(name))
    mask = mask.clone()
    mask[1] = False
    attention = build(name)
    memory = attention.project_memory(keys, values, mask)
    written = attention(query, memory, position, need_weights=True).context
    torch.testing.assert_close(attention(query, memory, position).context, written)
    assert written.isfinite().all()


def test_masked_words_weigh_nothing_however_high_their_scores():
    scores = torch.tensor([[1e30, 0.0, 0.0, 3e38], [-3e38, -3e38, 9.0, 3e38]])
    mask = torch.tensor([[False, True, True, False], [True, True, False, False]])
    half = torch.tensor([[0.0, 0.5, 0.5, 0.0], [0.5, 0.5, 0.0, 0.0]])
    torch.testing.assert_close(masked_softmax(scores, mask), half)


def test_local_p_by_hand():
    # W_p = 1, v_p = 2 ln(1/3), and the query is artanh(1/2): so tanh(W_p h) = 1/2, sigmoid(ln(1/3)) = 1/4, and in a
    # source of five words p_t = (5 - 1) / 4 = 1. With D = 2 the window holds words 0 to 3; word 4, however well it
    # scores, is outside. The scores 0, ln 2, 0, 0 make 1/5, 2/5, 1/5, 1/5 in the window. The Gaussian's standard
    # deviation is D / 2 = 1, so it multiplies by exp(-1/2), 1, exp(-1/2), exp(-2).
    align = LocalPredictiveAlignment(1, 2).double()
    with torch.no_grad():
        align.position_predictor[0].weight.fill_(1.0)
        align.position_predictor[2].weight.fill_(2 * math.log(1 / 3))
    query = torch.full((1, 1, 1), math.atanh(0.5), dtype=torch.double)
    scores = torch.tensor([0, math.log(2), 0, 0, 9], dtype=torch.double).view(1, 1, 1, 5)
    asked, mask = QueryInfo(query, torch.zeros(1, 1)), torch.ones(1, 1, 1, 5, dtype=torch.bool)
    weights = align(scores, mask, asked)
    e = math.exp(-0.5)
    by_hand = torch.tensor([e / 5, 2 / 5, e / 5, math.exp(-2) / 5, 0], dtype=torch.double)
    torch.testing.assert_close(weights.detach().flatten(), by_hand)
    align.renormalize = True
    torch.testing.assert_close(align(scores, mask, asked).detach().flatten(), by_hand / by_hand.sum())


@pytest.mark.parametrize("align", [LocalMonotonicAlignment(3), LocalPredictiveAlignment(QUERY, 3)])
def test_windows_stand_right_in_long_sources_in_low_precision(align):
    # bfloat16 has 8 bits: the word after 1024 that it knows is 1032. Where a window stands must not depend on it.
    query = rand(1, 1, QUERY).to(torch.bfloat16).float()
    scores, mask = torch.zeros(1, 1, 1, 2000), torch.ones(1, 1, 1, 2000, dtype=torch.bool)
    position = torch.tensor([[1027]])
    exact = align(scores, mask, QueryInfo(query, position))
    with torch.autocast("cpu", torch.bfloat16):
        low = align(scores.bfloat16(), mask, QueryInfo(query.bfloat16(), position))
    if type(align) is LocalMonotonicAlignment:
        assert low.flatten().nonzero().flatten().tolist() == list(range(1024, 1031))
    assert (low > 0).sum() == (exact > 0).sum() == 7


def test_dropout_leaves_out_weights_in_training_only():
    query, keys, values, mask, position = inputs(QUERY)
    attention = Attention(DotScore(), dropout=0.5)
    memory = attention.project_memory(keys, values, mask)
    torch.manual_seed(0)
    trained = attention(query, memory, position).context
    calm, _, weights, _ = attention.eval()(query, memory, position, need_weights=True)
    assert not torch.equal(trained, calm)
    torch.testing.assert_close(calm, weights[:, 0] @ values)


def test_heads_that_do_not_divide_are_refused_when_built():
    with pytest.raises(ValueError, match="3 heads do not divide"):
        MultiHeadScore(8, 8, 3)
    config = AttentionConfig.model_validate({"score": {"kind": "additive", "dim": 8, "heads": 4}})
    with pytest.raises(ValueError, match="4 heads do not divide"):
        config.build(QUERY, KEY, value_dim=6)


def test_heads_that_do_not_divide_the_values_are_a_mistake_of_the_config():
    decoder = {"kind": "luong", "dim": 8, "attention": config_of("additive-4-heads")}
    with pytest.raises(ValidationError, match="4 heads do not divide 6, the width of the encoder"):
        ModelConfig.model_validate({"encoder": {"kind": "gru", "dim": 6}, "decoder": decoder})
    ModelConfig.model_validate({"encoder": {"kind": "gru", "dim": 12}, "decoder": decoder})


@pytest.mark.parametrize("kind", ["dot", "general", "cosine", "multi-head"])
def test_heads_that_do_not_divide_the_query_are_a_mistake_of_the_config(kind):
    decoder = {"kind": "luong", "dim": 8, "attention": {"score": {"kind": kind, "heads": 3}}}
    with pytest.raises(ValidationError, match="3 heads do not divide 8, the width of the decoder"):
        ModelConfig.model_validate({"encoder": {"kind": "gru", "dim": 8}, "decoder": decoder})


@pytest.mark.parametrize(
    "wiring", [{"query": "current", "context": []}, {"query": "current", "context": ["cell", "cell"]}]
)
def test_a_context_goes_somewhere_and_nowhere_twice(wiring):
    with pytest.raises(ValidationError, match=r"context|twice"):
        ModelConfig.model_validate(
            {
                "encoder": {"kind": "gru", "dim": 8},
                "decoder": {"kind": "recurrent", "dim": 8, "wiring": wiring},
            }
        )


def test_bahdanaus_and_luongs_decoders_are_choices_of_where_attention_enters():
    for preset, where in (({"kind": "bahdanau"}, BAHDANAU_WIRING), ({"kind": "luong"}, LUONG_WIRING)):
        attention = {"score": {"kind": "additive", "dim": 8}}
        same = {"dim": 8, "layers": 2, "cell": "lstm", "attention": attention}
        chosen = {"kind": "recurrent", "wiring": where.model_dump()}
        nets = []
        for decoder in (preset, chosen):
            torch.manual_seed(0)
            config = {
                "embeddings": {"dim": 8},
                "encoder": {"kind": "gru", "dim": 8},
                "decoder": {**same, **decoder},
            }
            nets.append(build_model(ModelConfig.model_validate(config), 11, 11).eval())
        words, mask = torch.randint(3, 11, (2, 5)), torch.ones(2, 5, dtype=torch.bool)
        one, other = (net(words, mask, words).hidden for net in nets)
        assert torch.equal(one, other)

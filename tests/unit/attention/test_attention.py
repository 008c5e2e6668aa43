"""Attention against the papers' formulas, written out in NumPy, and PyTorch's kernels against the formula.

B sentences, H heads, T queries, S keys; targets are longer than sources, and some sources shorter than windows.
"""

import pytest
import torch
import torch.nn.functional as F
from pydantic import TypeAdapter
from torch import nn

from seq2attn.attention.align_functions import LocalPredictiveAlignment, masked_softmax
from seq2attn.attention.attention import Attention, ValueProjection
from seq2attn.attention.attention_config import AlignmentFunctionConfig, AttentionConfig
from seq2attn.attention.base import QueryInfo
from seq2attn.attention.dispatch import attend_in_groups
from seq2attn.attention.entmax import masked_entmax
from seq2attn.attention.monotonic import expected_alignment
from seq2attn.attention.scores import DotScore, MultiHeadScoreConfig
from seq2attn.models import ModelConfig, build_model
from seq2attn.nn.decoding_state import repeat_rows
from seq2attn.nn.kernels.additive import additive_scores
from seq2attn.nn.packing import Sequences
from tests.support.formulas import plain_attention, plain_context
from tests.support.models import ALIGNS, ATTENTIONS, SCORES, WIDTH, model, rand, shuffle_weights

B, T, S, QUERY, KEY, VALUE = 3, 9, 7, 8, 12, 4
LENGTHS = (7, 3, 1)


def inputs(key_dim=KEY, value_dim=VALUE):
    """query, keys, values, mask, position"""
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    position = torch.arange(T).expand(B, T)
    return rand(B, T, QUERY), rand(B, S, key_dim, seed=1), rand(B, S, value_dim, seed=2), mask, position


def key_dim(name):
    return QUERY if SCORES[name]["kind"] == "dot" else KEY


def build(score, align="global"):
    config = AttentionConfig.model_validate({"score": SCORES[score], "align": ALIGNS[align]})
    return shuffle_weights(config.build(QUERY, key_dim(score), VALUE)).eval()


@pytest.mark.parametrize(("score", "align"), [*ATTENTIONS, *(("coverage", align) for align in ALIGNS)])
def test_weights_and_contexts_are_the_formula(score, align):
    query, keys, values, mask, position = inputs(key_dim(score))
    attention = build(score, align)
    for training in (False, True) if align == "monotonic" else (False,):
        attention.train(training)
        memory = attention.project_memory(keys, values, mask)
        state = attention.initial_state(memory)
        output = attention(query, memory, position, state, need_weights=True)
        weights = plain_attention(score, align, attention, query.numpy(), keys.numpy(), LENGTHS)
        torch.testing.assert_close(output.weights.detach(), torch.from_numpy(weights))
        context = plain_context(attention, weights, values.numpy())
        torch.testing.assert_close(output.context.detach(), torch.from_numpy(context))
        torch.testing.assert_close(attention(query, memory, position, state).context, output.context)


def test_monotonic_weights_keep_their_digits_under_autocast():
    """Their state goes on from token to token, so errors would multiply."""
    scores, mask = rand(B, 1, 1, S).float(), inputs()[3][:, None, None]
    last, is_last = rand(B, 1, 1, S, seed=1).float().softmax(-1), mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)
    plain = expected_alignment(scores, mask, is_last, last)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(expected_alignment(scores, mask, is_last, last), plain)


def test_additive_scores_of_a_compiled_model_keep_their_digits_under_autocast(monkeypatch):
    q, k, v = (rand(*shape, seed=seed).float() for seed, shape in enumerate([(2, 3, 4, 5), (2, 3, 6, 5), (3, 1, 5)]))
    plain = additive_scores(q, k, v)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(additive_scores(q, k, v), plain)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_the_gradient_of_entmax(alpha):
    scores, mask = rand(B, 1, T, S).requires_grad_(), inputs()[3][:, None, None]
    assert torch.autograd.gradcheck(lambda x: masked_entmax(x, mask, alpha), scores, fast_mode=True)


SELF_ATTENTION = {
    "relative": (None, {"max_distance": 2}),
    "relative, grouped": (2, {"max_distance": 2}),
    "rotary": (None, {"rotary": True}),
}


@pytest.mark.parametrize("name", ["scaled-dot", "general-4-heads", "multi-head-2-groups", *SELF_ATTENTION])
@pytest.mark.parametrize("hypotheses", [1, 3])
def test_fused_attention_is_the_formula(name, hypotheses, monkeypatch):
    monkeypatch.setattr("seq2attn.attention.dispatch.UNFUSED_MAX_SCORES", 0)
    if name in SELF_ATTENTION:
        kv_heads, positions = SELF_ATTENTION[name]
        config = MultiHeadScoreConfig(heads=4, kv_heads=kv_heads)
        score = config.build(QUERY, QUERY, **positions)
        attention = shuffle_weights(Attention(score, projection=ValueProjection(VALUE, 8)))
    else:
        attention = build(name)
    _, keys, values, mask, _ = inputs(QUERY if name in SELF_ATTENTION else key_dim(name))
    mask = mask.clone()
    mask[1] = False
    query = rand(B * hypotheses, T, QUERY, seed=4).requires_grad_()
    position = torch.arange(T).expand(B * hypotheses, T)
    memory = attention.project_memory(keys, values, mask)
    fused = attention(query, memory, position)
    formula = attention(query, memory, position, need_weights=True)
    assert fused.weights is None
    assert formula.weights.shape == (B * hypotheses, attention.score.heads, T, S)
    torch.testing.assert_close(fused.context, formula.context)
    assert formula.context.isfinite().all()
    weights = (query, *attention.parameters())
    torch.testing.assert_close(
        *(torch.autograd.grad(x.context.pow(2).sum(), weights, retain_graph=True) for x in (fused, formula))
    )
    tiled = attention(query, repeat_rows(memory, hypotheses), position, need_weights=True)
    torch.testing.assert_close(tiled[::2], formula[::2])


@torch.no_grad()
def test_a_score_derived_from_a_fused_one_is_not_fused():
    class SharpScore(DotScore):
        def forward(self, q, k, info):
            return 3 * super().forward(q, k, info)

    score = SharpScore(2, scaled=True, key_proj=nn.Linear(KEY, QUERY))
    attention = shuffle_weights(Attention(score, projection=ValueProjection(VALUE, 8))).eval()
    query, keys, values, mask, position = inputs()
    memory = attention.project_memory(keys, values, mask)
    formula = attention(query, memory, position, need_weights=True)
    torch.testing.assert_close(attention(query, memory, position).context, formula.context)


def test_a_score_with_a_state_is_not_fused():
    """Its state is a sum of weights, which a fused kernel does not return."""

    class RepulsiveScore(DotScore):
        has_state = True

        def initial_state(self, zeros):
            return zeros

        def update_state(self, state, weights):
            return state + weights

        def bias(self, q, k, info):
            return -5 * info.score_state

    score = RepulsiveScore(2, scaled=True, key_proj=nn.Linear(KEY, QUERY))
    attention = shuffle_weights(Attention(score, projection=ValueProjection(VALUE, 8))).eval()
    query, keys, values, mask, position = inputs()
    memory = attention.project_memory(keys, values, mask)
    outputs = []
    for need_weights in (False, True):
        state, contexts = attention.initial_state(memory), []
        for step in range(query.size(1)):
            now = slice(step, step + 1)
            with torch.no_grad():
                output = attention(query[:, now], memory, position[:, now], state, need_weights=need_weights)
            state, contexts = output.state, [*contexts, output.context]
        outputs.append((torch.cat(contexts, 1), state[0]))
    torch.testing.assert_close(*outputs)
    assert outputs[0][1].sum(-1) == pytest.approx(query.size(1))


@pytest.mark.parametrize("shape", [(B, 1, 1), (1, 1, T), (B, 4, T)], ids=str)
@pytest.mark.parametrize("is_bias", [False, True])
def test_grouped_heads_are_folded_into_queries(shape, is_bias):
    q, k, v = rand(B, 4, T, 6), rand(B, 2, S, 6, seed=1), rand(B, 2, S, 5, seed=2)
    mask = rand(*shape, S, seed=3)
    mask = mask if is_bias else (mask > 0).index_fill(-1, torch.tensor([0]), True)
    expected = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
    torch.testing.assert_close(attend_in_groups(q, k, v, mask, 0.0), expected)


def test_a_gpu_kernel_gets_grouped_heads_or_a_mask_but_not_both(monkeypatch):
    calls, attend = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **o: calls.append((a, o)) or attend(*a, **o))
    with torch.device("meta"):
        score = MultiHeadScoreConfig(heads=4, kv_heads=2).build(8, 8)
        attention = Attention(score, projection=ValueProjection(8, 8))
        embedded, position = torch.zeros(B, T, 8), torch.zeros(B, T, dtype=torch.long)
        memory = attention.project_memory(embedded, embedded, torch.ones(B, T, dtype=torch.bool))
    assert attention(embedded, memory, position).context.shape == (B, T, 8)
    ((q, k, _, mask, *_), options), *_ = calls
    assert q.size(1) == k.size(1) == 2 and mask is not None and not options.get("enable_gqa")


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ALIGNS)
def test_a_row_without_tokens_gets_no_weight_and_no_nan(name, training):
    config = TypeAdapter(AlignmentFunctionConfig).validate_python(ALIGNS[name])
    align = config.build(QUERY).double().train(training)
    query, _, _, mask, position = inputs()
    mask = mask.clone()
    mask[1] = False
    scores = rand(B, 2, T, S, seed=3).requires_grad_()
    state = None
    if align.has_state:
        state = align.initial_state(scores.new_zeros(B, 2, S)).unsqueeze(2).expand(-1, -1, T, -1)
    weights = align(scores, mask[:, None, None], QueryInfo(query, position, alignment_state=state))
    assert (weights[1] == 0).all()
    (weights.pow(2).sum() + 0 * scores.sum()).backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[1] == 0).all()


def test_a_fertility_that_rounds_to_zero_gives_finite_weights_and_gradients():
    query, keys, values, mask, position = (x.float() if x.is_floating_point() else x for x in inputs())
    attention = build("coverage").float()
    with torch.no_grad():
        attention.score.fertility.weight.mul_(1000)
    memory = attention.project_memory(keys, values, mask)
    output = attention(query, memory, position, attention.initial_state(memory), need_weights=True)
    assert (torch.sigmoid(attention.score.fertility(keys)) == 0).any()
    torch.testing.assert_close(output.weights.sum(-1), torch.ones(B, 1, T))
    output.context.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in attention.parameters())


def test_masked_tokens_have_no_weight_however_high_their_scores():
    scores = torch.tensor([[1e30, 0.0, 0.0, 3e38], [-3e38, -3e38, 9.0, 3e38]])
    mask = torch.tensor([[False, True, True, False], [True, True, False, False]])
    half = torch.tensor([[0.0, 0.5, 0.5, 0.0], [0.5, 0.5, 0.0, 0.0]])
    torch.testing.assert_close(masked_softmax(scores, mask), half)


@pytest.mark.parametrize("kind", ["local-m", "local-p"])
def test_windows_are_exact_in_long_sources_in_bfloat16(kind):
    # bfloat16 has 8 bits: the integer after 1024 is 1032.
    align = TypeAdapter(AlignmentFunctionConfig).validate_python({"kind": kind, "window": 3}).build(QUERY)
    query = rand(1, 1, QUERY).to(torch.bfloat16).float()
    scores, mask = torch.zeros(1, 1, 1, 2000), torch.ones(1, 1, 1, 2000, dtype=torch.bool)
    position = torch.tensor([[1027]])
    exact = align(scores, mask, QueryInfo(query, position))
    with torch.autocast("cpu", torch.bfloat16):
        low = align(scores.bfloat16(), mask, QueryInfo(query.bfloat16(), position))
    if kind == "local-m":
        assert low.flatten().nonzero().flatten().tolist() == list(range(1024, 1031))
    assert (low > 0).sum() == (exact > 0).sum() == 7


@pytest.mark.parametrize("window", [2, 3])
def test_a_window_between_two_positions_has_no_token_more_or_less(window):
    align = LocalPredictiveAlignment(QUERY, window)
    query, mask = torch.zeros(1, 1, QUERY), torch.ones(1, 1, 1, 20, dtype=torch.bool)
    info = QueryInfo(query, torch.zeros(1, 1, dtype=torch.long))
    assert align.center(torch.tensor([[20]]), info).item() == 9.5  # sigmoid(0) of 19
    assert (align(torch.zeros(1, 1, 1, 20), mask, info) > 0).sum() == 2 * window + 1


def test_dropout_of_the_weights_in_training_only():
    query, keys, values, mask, position = inputs(QUERY)
    attention = Attention(DotScore(), dropout=0.5)
    memory = attention.project_memory(keys, values, mask)
    dropped = attention(query, memory, position).context
    output = attention.eval()(query, memory, position, need_weights=True)
    assert not torch.equal(dropped, output.context)
    torch.testing.assert_close(output.context, output.weights[:, 0] @ values)


BAHDANAU = {"query": "previous", "context": ["cell", "output"], "input_feeding": False, "word_to_output": True}
LUONG = {"query": "current", "context": ["output"], "input_feeding": True, "word_to_output": False}


@pytest.mark.parametrize(("kind", "wiring"), [("bahdanau", BAHDANAU), ("luong", LUONG)])
def test_bahdanaus_and_luongs_decoders_are_presets_of_the_wiring(kind, wiring):
    nets = []
    for decoder in ({"kind": kind}, {"kind": "recurrent", "wiring": wiring}):
        torch.manual_seed(0)
        shared = {"dim": 8, "layers": 2, "cell": "lstm", "attention": {"score": {"kind": "additive", "dim": 8}}}
        parts = {"encoder": {"kind": "gru", "dim": 8}, "decoder": {**shared, **decoder}}
        nets.append(build_model(ModelConfig.model_validate({"embeddings": {"dim": 8}, **parts}), 11, 11).eval())
    ids, sequences = torch.randint(3, 11, (2, 5)), Sequences(torch.ones(2, 5, dtype=torch.bool))
    one, other = (net(ids, sequences, ids).hidden for net in nets)
    assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["luong", "bahdanau-lstm", "recurrent-all", "recurrent-previous-fed"])
def test_the_attentional_vector_is_of_state_context_and_word_in_this_order(name):
    decoder = model("lstm", name).decoder.eval()
    widths = decoder.dim, decoder.context_dim, WIDTH
    parts = [rand(3, 5, width, seed=seed) for seed, width in enumerate(widths)]
    expected = [
        parts[0],
        *parts[1:2] * ("output" in decoder.wiring.context),
        *parts[2:] * decoder.wiring.word_to_output,
    ]
    vector = decoder.attentional_vector(*parts, decoder.readout)
    weight, bias = decoder.readout.weight, decoder.readout.bias
    torch.testing.assert_close(vector, torch.tanh(torch.cat(expected, -1) @ weight.T + bias))

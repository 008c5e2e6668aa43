"""The Transformer's later parts against their formulas, against each other, and together against LLaMA's layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaRotaryEmbedding

from seq2attn.attention import Attention, QueryInfo
from seq2attn.attention.relative_positions import RelativePositionScore, RotaryScore, apply_rotary
from seq2attn.attention.scores import MultiHeadScore
from seq2attn.config.load import load
from seq2attn.decoders import TransformerDecoderConfig
from seq2attn.encoders import EncoderOutput, TransformerEncoderConfig
from seq2attn.errors import ConfigError
from seq2attn.experiment import ExperimentConfig
from seq2attn.models import ModelConfig
from seq2attn.nn.layers import GatedFeedForward
from tests.unit.encoders.test_transformer import mask, rand, shuffled

DIM, HEADS, GROUPS, HIDDEN, WORDS = 16, 4, 2, 12, 6
MODERN = {
    "kind": "transformer", "layers": 2, "heads": HEADS, "kv_heads": GROUPS, "ffn_dim": HIDDEN, "dropout": 0.0,
    "position_encoding": "rotary", "norm_type": "rmsnorm", "activation": "swiglu",
}  # fmt: skip


def places(rows=3, words=WORDS):
    return torch.arange(words).expand(rows, words)


def scores_of(score, x, position):
    return score(score.project_query(x, position), score.project_key(x, position), QueryInfo(x, position))


def test_rotary_turns_complex_numbers():
    x, position = rand(2, 3, 5, 8), torch.tensor([[0, 1, 2, 3, 4], [7, 30, 2, 500, 1]])
    one, other = np.split(x.numpy(), 2, -1)
    rates = 10_000.0 ** (-2 * np.arange(4) / 8)
    turned = (one + 1j * other) * np.exp(1j * position.numpy()[:, None, :, None] * rates)
    expected = torch.from_numpy(np.concatenate([turned.real, turned.imag], -1))
    torch.testing.assert_close(apply_rotary(x, position), expected)


def test_rotary_scores_depend_on_the_distance_alone():
    score, x = shuffled(RotaryScore(DIM, HEADS, GROUPS)), rand(3, WORDS, DIM)
    here = scores_of(score, x, places())
    torch.testing.assert_close(scores_of(score, x, places() + 41), here)
    assert (scores_of(score, x, places() * 2) - here).abs().max() > 0.01
    still = scores_of(score, x, torch.zeros_like(places()))  # without distances it is the score without positions
    plain = MultiHeadScore(DIM, DIM, HEADS, GROUPS).double()
    plain.load_state_dict(score.state_dict())
    torch.testing.assert_close(still, scores_of(plain, x, places()))


@pytest.mark.parametrize("groups", [HEADS, GROUPS])
def test_relative_scores_are_their_formula(groups):
    # Each key of Shaw et al. 2018, eq. 4, with its own vector for where it stands from the query.
    most, width = 2, DIM // HEADS
    score, x = shuffled(RelativePositionScore(DIM, HEADS, groups, most)), rand(3, WORDS, DIM)
    q, k = (side(x, places()).detach().numpy() for side in (score.project_query, score.project_key))
    vectors = score.relative_embedding.weight.detach().numpy()
    expected = np.zeros((3, HEADS, WORDS, WORDS))
    for b, h, t, s in np.ndindex(*expected.shape):
        key = k[b, h * groups // HEADS, s] + vectors[max(-most, min(most, s - t)) + most]
        expected[b, h, t, s] = q[b, h, t] @ key / np.sqrt(width)
    torch.testing.assert_close(scores_of(score, x, places()).detach(), torch.from_numpy(expected))


SCORES = {
    "relative": lambda: RelativePositionScore(DIM, HEADS, None, 2),
    "relative, in groups": lambda: RelativePositionScore(DIM, HEADS, GROUPS, 2),
    "rotary": lambda: RotaryScore(DIM, HEADS),
    "in groups": lambda: MultiHeadScore(DIM, DIM, HEADS, GROUPS),
}


@pytest.mark.parametrize("kind", SCORES)
def test_the_fused_kernel_is_written_out_attention(kind):
    attention = shuffled(Attention(SCORES[kind](), projection=(DIM, DIM)))
    x, seen = (
        rand(4, WORDS, DIM).requires_grad_(),
        torch.cat([mask(), torch.zeros(1, WORDS, dtype=torch.bool)]),
    )
    memory, given = attention.project_memory(x, x, seen), [x, *attention.parameters()]
    written = attention(x, memory, places(4), need_weights=True)
    fused = attention(x, memory, places(4))
    assert fused.weights is None
    torch.testing.assert_close(fused.context, written.context)
    torch.testing.assert_close(written.weights.sum(-1), seen.any(1)[:, None, None].double().expand(4, HEADS, WORDS))
    grads = [torch.autograd.grad(a.context.pow(2).sum(), given, retain_graph=True) for a in (fused, written)]
    for one, other in zip(*grads, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other)


def test_groups_are_heads_with_the_same_keys_and_values():
    few = shuffled(Attention(MultiHeadScore(DIM, DIM, HEADS, GROUPS), projection=(DIM, DIM)))
    many = Attention(MultiHeadScore(DIM, DIM, HEADS), projection=(DIM, DIM)).double().eval()
    repeated = {
        name: weight.unflatten(0, (GROUPS, -1)).repeat_interleave(HEADS // GROUPS, 0).flatten(0, 1)
        if name.startswith(("score.key_proj", "value_proj"))
        else weight
        for name, weight in few.state_dict().items()
    }
    many.load_state_dict(repeated)
    x = rand(3, WORDS, DIM)
    memory = few.project_memory(x, x, mask())
    assert memory.keys.shape == memory.values.shape == (3, GROUPS, WORDS, DIM // HEADS)
    expected = many(x, many.project_memory(x, x, mask()), places(), need_weights=True)
    found = few(x, memory, places(), need_weights=True)
    torch.testing.assert_close(found.context, expected.context)
    torch.testing.assert_close(found.weights, expected.weights)


def test_what_has_been_read_is_kept_in_groups():
    encoder = TransformerEncoderConfig.model_validate(MODERN).build(DIM)
    cross = {"score": {"kind": "multi-head", "heads": HEADS, "kv_heads": 1}}
    config = TransformerDecoderConfig.model_validate({**MODERN, "attention": cross})
    decoder = config.build(DIM, encoder).double()
    x = rand(3, WORDS, DIM)
    memory, state = decoder.init_state(EncoderOutput(x, x, mask(), (x[:, :1],)))
    state = decoder(x, state, memory).state
    assert [kept.shape for pair in state.kv_cache.layers for kept in pair] == [(3, GROUPS, WORDS, DIM // HEADS)] * 4
    assert [m.keys.shape for m in memory] == [m.values.shape for m in memory] == [(3, 1, WORDS, DIM // HEADS)] * 2


def reader(positions, layers):
    """A decoder, what it asks, and its state before it has read anything."""
    config = {**MODERN, "position_encoding": positions, "max_distance": 2, "layers": layers}
    encoder = TransformerEncoderConfig.model_validate(config).build(DIM)
    decoder = shuffled(TransformerDecoderConfig.model_validate(config).build(DIM, encoder))
    source = rand(3, WORDS, DIM, seed=1)
    return decoder, *decoder.init_state(EncoderOutput(source, source, mask(), (source[:, :1],)))


@pytest.mark.parametrize("positions", ["relative", "rotary"])
def test_the_order_of_the_words_before_matters(positions):
    # One layer that knew no distances would give the last word the same mean of those before it.
    decoder, memory, state = reader(positions, layers=1)
    words = rand(3, WORDS, DIM)
    order = [3, 4, 0, 1, 2, 5]
    one, other = (decoder(x, state, memory).hidden[:, -1] for x in (words, words[:, order]))
    assert ((one - other).abs().amax(-1) > 1e-4).all()


def test_rms_norm_is_its_formula():
    norm = shuffled(TransformerEncoderConfig.model_validate(MODERN).build_final_norm(DIM))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    x = rand(3, WORDS, DIM)
    plain = x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True) + 1e-6)
    torch.testing.assert_close(norm(x).detach(), torch.from_numpy(plain * norm.weight.detach().numpy()))


def test_swiglu_is_its_formula():
    part, x = shuffled(GatedFeedForward(DIM, HIDDEN, 0.0)), rand(3, WORDS, DIM)
    w, v, w2 = (layer.weight.detach().numpy().T for layer in (part.gate_proj, part.up_proj, part.down_proj))
    gate = x.numpy() @ w
    expected = (gate / (1 + np.exp(-gate)) * (x.numpy() @ v)) @ w2
    torch.testing.assert_close(part(x).detach(), torch.from_numpy(expected))


def llama():
    """Their layers, and what turns their queries and keys."""
    config = LlamaConfig(
        hidden_size=DIM, intermediate_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=GROUPS,
        attention_bias=True, rms_norm_eps=1e-6, attn_implementation="eager",
    )  # fmt: skip
    layers = nn.ModuleList(LlamaDecoderLayer(config, i) for i in range(MODERN["layers"]))
    return layers.double().eval(), LlamaRotaryEmbedding(config)


def copy_llama(ours, theirs):
    pairs = [
        (ours.self_attention.score.query_proj, theirs.self_attn.q_proj),
        (ours.self_attention.score.key_proj, theirs.self_attn.k_proj),
        (ours.self_attention.value_proj, theirs.self_attn.v_proj),
        (ours.self_attention.output_proj, theirs.self_attn.o_proj),
        (ours.self_attention_residual.norm, theirs.input_layernorm),
        (ours.feed_forward.gate_proj, theirs.mlp.gate_proj),
        (ours.feed_forward.up_proj, theirs.mlp.up_proj),
        (ours.feed_forward.down_proj, theirs.mlp.down_proj),
        (ours.feed_forward_residual.norm, theirs.post_attention_layernorm),
    ]
    for one, other in pairs:
        other.load_state_dict(one.state_dict())


def test_all_together_are_llamas_layer():
    ours = shuffled(TransformerEncoderConfig.model_validate(MODERN).build(DIM))
    theirs, rotary = llama()
    x = rand(3, WORDS, DIM)
    y, turns = x, rotary(x, places())
    hidden = torch.zeros(3, 1, 1, WORDS, dtype=torch.double).masked_fill(~mask()[:, None, None], -1e9)
    for one, other in zip(ours.layers, theirs, strict=True):
        copy_llama(one, other)
        y = other(y, attention_mask=hidden, position_embeddings=turns)
    expected = ours.norm(y)
    # Theirs turns by angles of single precision.
    torch.testing.assert_close(ours(x, mask()).values[mask()], expected[mask()], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_heads_of_an_odd_width_cannot_turn(side):
    plain = {"encoder": {"kind": "gru"}, "decoder": {"kind": "luong"}, "embeddings": {"dim": HEADS * 3}}
    with pytest.raises(ValidationError, match=f"{side}.position_encoding: rotary turns pairs, and heads are 3 wide"):
        ModelConfig.model_validate({**plain, side: MODERN})
    with pytest.raises(ValueError, match="rotary positions need heads of an even width"):
        RotaryScore(HEADS * 3, HEADS)


CONFIG = """\
run_dir: runs/none
data: {train: {kind: plain, source: a, target: b}, dev: {kind: plain, source: a, target: b}}
tokenizer: {joint: {kind: words}}
model:
  encoder: {kind: transformer, heads: 8, kv_heads: 3}
  decoder:
    kind: transformer
    attention: {score: {kind: multi-head, heads: 8, kv_heads: 4}}
"""


def test_groups_that_do_not_divide_the_heads_have_a_place(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(CONFIG)
    with pytest.raises(ConfigError) as told:
        load(path, ExperimentConfig, ["model.decoder.attention.score.kv_heads=5"])
    assert "mine.yaml:5:52: `model.encoder.kv_heads`: 3 key-value heads do not divide 8 heads" in str(told.value)
    assert "`model.decoder.attention.score.kv_heads`: 5 key-value heads do not divide 8 heads" in str(told.value)
    assert "<command line>:1:40" in str(told.value)

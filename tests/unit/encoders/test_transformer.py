"""Our Transformer against PyTorch's with the same weights; positions against their formula in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from seq2attn.attention import Attention
from seq2attn.attention.scores import MultiHeadScore
from seq2attn.encoders import TransformerEncoderConfig
from seq2attn.nn.layers import LearnedPositionEmbedding, SinusoidalPositionEncoding
from tests.laws.parts import model, sources

DIM, HEADS, HIDDEN, LAYERS = 12, 3, 20, 2
LENGTHS, WORDS = (6, 2, 5), 7
KINDS = [*itertools.product(["pre", "post"], ["relu", "gelu"])]


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def mask():
    return torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def shuffled(module):
    """Weights far from their first values, so that nothing is right by being zero or one."""
    for i, parameter in enumerate(module.parameters()):
        with torch.no_grad():
            parameter.copy_(rand(*parameter.shape, seed=10 + i) * 0.3)
    return module.double().eval()


def copy_attention(ours, theirs):
    with torch.no_grad():
        sides = (ours.score.query_proj, ours.score.key_proj, ours.value_proj)
        theirs.in_proj_weight.copy_(torch.cat([side.weight for side in sides]))
        theirs.in_proj_bias.copy_(torch.cat([side.bias for side in sides]))
    theirs.out_proj.load_state_dict(ours.output_proj.state_dict())


def copy_layer(ours, theirs):
    theirs.linear1.load_state_dict(ours.feed_forward.up_proj.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.down_proj.state_dict())
    copy_attention(ours.self_attention, theirs.self_attn)
    branches, norms = (ours.self_attention_residual, ours.feed_forward_residual), (theirs.norm1, theirs.norm2)
    for branch, norm in zip(branches, norms, strict=True):
        norm.load_state_dict(branch.norm.state_dict())


def options(norm, activation):
    ours = {"kind": "transformer", "layers": LAYERS, "heads": HEADS, "ffn_dim": HIDDEN, "dropout": 0.0}
    theirs = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre", "activation": activation}
    return {**ours, "norm_order": norm, "activation": activation}, theirs


def with_positions(words):
    return words + SinusoidalPositionEncoding(DIM)(torch.arange(words.size(1)))


def same_with_gradients(ours, theirs, given):
    torch.testing.assert_close(ours, theirs)
    one, two = (torch.autograd.grad(x.pow(2).sum(), given, retain_graph=True) for x in (ours, theirs))
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention_is_torchs(need_weights):
    ours = shuffled(Attention(MultiHeadScore(DIM, DIM, HEADS), projection=(DIM, DIM)))
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True).double()
    copy_attention(ours, theirs)
    query, keys, values = (rand(3, n, DIM, seed=n).requires_grad_() for n in (WORDS, 6, 6))
    position = torch.arange(WORDS).expand(3, WORDS)
    context, _, weights, _ = ours(query, ours.project_memory(keys, values, mask()), position, need_weights=need_weights)
    expected, shares = theirs(query, keys, values, key_padding_mask=~mask(), average_attn_weights=False)
    same_with_gradients(context, expected, (query, keys, values))
    if need_weights:
        torch.testing.assert_close(weights, shares)


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_the_encoder_is_torchs(norm, activation):
    config, theirs = options(norm, activation)
    ours = shuffled(TransformerEncoderConfig.model_validate(config).build(DIM))
    layer = nn.TransformerEncoderLayer(DIM, HEADS, HIDDEN, **theirs)
    last = nn.LayerNorm(DIM) if norm == "pre" else None
    theirs = nn.TransformerEncoder(layer, LAYERS, last, enable_nested_tensor=False).double()
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(one, other)
    if last is not None:
        theirs.norm.load_state_dict(ours.norm.state_dict())
    words = rand(3, max(LENGTHS), DIM).requires_grad_()
    encoded = ours(words, mask())
    expected = theirs(with_positions(words), src_key_padding_mask=~mask())
    same_with_gradients(encoded.values[mask()], expected[mask()], (words,))
    means = torch.stack([row[:n].mean(0) for row, n in zip(expected, LENGTHS, strict=True)])
    torch.testing.assert_close(encoded.final_state[0][:, 0], means)


@pytest.mark.parametrize(("norm", "activation"), KINDS)
def test_where_the_encoder_looks_is_where_torchs_does(norm, activation):
    config, options_of_torch = options(norm, activation)
    ours = shuffled(TransformerEncoderConfig.model_validate(config).build(DIM))
    words, padding = rand(3, max(LENGTHS), DIM), ~mask()
    x, expected = with_positions(words), []
    for one in ours.layers:
        layer = nn.TransformerEncoderLayer(DIM, HEADS, HIDDEN, **options_of_torch).double()
        copy_layer(one, layer)
        y = layer.norm1(x) if norm == "pre" else x
        expected.append(layer.self_attn(y, y, y, key_padding_mask=padding, average_attn_weights=False)[1])
        x = layer(x, src_key_padding_mask=padding)
    _, weights = ours.forward_with_weights(words, mask())
    rows = mask()[:, None, None].expand(weights.shape[:-1])  # what padding looks at is nobody's business
    torch.testing.assert_close(weights[rows], torch.stack(expected, 1)[rows])


@pytest.mark.parametrize("dim", [2, 6, 7, 64])
def test_sinusoids_are_their_formula(dim):
    # Sines in the first half and cosines in the second (not in turn), of positions over wavelengths that go from
    # 2 pi to exactly 10000 * 2 pi in a geometric row, as the code that came with the paper makes them.
    half = (dim + 1) // 2
    lengths = 10_000 ** (np.arange(half) / max(half - 1, 1))
    angles = np.arange(50)[:, None] / lengths
    expected = np.concatenate([np.sin(angles), np.cos(angles)], -1)[:, :dim]
    ours = SinusoidalPositionEncoding(dim)(torch.arange(50))
    torch.testing.assert_close(ours, torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-5)
    rows = torch.tensor([[3, 40], [0, 7]])
    torch.testing.assert_close(SinusoidalPositionEncoding(dim)(rows), ours[rows])


def test_learned_positions_beyond_the_last_share_it():
    positions = LearnedPositionEmbedding(4, 5)
    vectors = positions(torch.arange(9))
    torch.testing.assert_close(vectors[:5], positions.embedding.weight)
    assert (vectors[5:] == vectors[4]).all()


@pytest.mark.parametrize("kind", ["transformer", "transformer-post-learned"])
def test_words_are_told_apart_by_where_they_stand(kind):
    net = model(kind, kind)
    memory, state = net.encode(*sources())
    hidden = net.decode(torch.full((4, 6), 5), state, memory).hidden
    assert ((hidden[:, 1:] - hidden[:, :-1]).abs().amax(-1) > 1e-3).all()

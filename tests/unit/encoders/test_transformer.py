"""Transformer layers against PyTorch's and LLaMA's with the same weights; positions against their formulas."""

import numpy as np
import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from seq2attn.attention.base import QueryInfo
from seq2attn.attention.relative_positions import RelativePositionBias
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.base import EncoderOutput
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.nn.layers import LearnedPositionEmbedding, SinusoidalPositionEncoding
from seq2attn.nn.packing import Sequences
from tests.support.models import model, rand, shuffle_weights, sources

DIM, HEADS, KV_HEADS, HIDDEN, LAYERS = 12, 3, 1, 20, 2
LENGTHS, TOKENS = (6, 2, 5), 6
MASK = torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]
POSITIONS = torch.arange(TOKENS).expand(3, TOKENS)
MODERN = {
    "kind": "transformer", "layers": LAYERS, "heads": HEADS, "kv_heads": KV_HEADS, "ffn_dim": HIDDEN, "dropout": 0.0,
    "position_encoding": "rotary", "norm_type": "rmsnorm", "activation": "swiglu",
}  # fmt: skip


@pytest.mark.parametrize("wavelengths", ["tensor2tensor", "paper"])
@pytest.mark.parametrize("dim", [2, 7, 64])
def test_sinusoids_are_their_formula(dim, wavelengths):
    # Sines in the first half and cosines in the second, of positions over wavelengths in a geometric progression: from
    # 2 pi to 10000 * 2 pi, as in the code of the paper's authors, or to just below it, as in the paper.
    half = (dim + 1) // 2
    lengths = 10_000 ** (np.arange(half) / (max(half - 1, 1) if wavelengths == "tensor2tensor" else dim / 2))
    angles = np.arange(50)[:, None] / lengths
    expected = np.concatenate([np.sin(angles), np.cos(angles)], -1)[:, :dim]
    encoding = SinusoidalPositionEncoding(dim, wavelengths)
    ours = encoding(torch.arange(50))
    torch.testing.assert_close(ours, torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-5)
    rows = torch.tensor([[3, 40], [0, 7]])
    torch.testing.assert_close(encoding(rows), ours[rows])
    torch.testing.assert_close(SinusoidalPositionEncoding(dim, wavelengths, 2)(rows), encoding(rows + 2))


def test_learned_positions_beyond_the_last_share_it():
    positions = LearnedPositionEmbedding(4, 5)
    vectors = positions(torch.arange(9))
    torch.testing.assert_close(vectors[:5], positions.embedding.weight)
    assert (vectors[5:] == vectors[4]).all()


@pytest.mark.parametrize(
    "kind", ["transformer", "transformer-post-learned", "transformer-rotary", "transformer-relative", "transformer-t5"]
)
def test_the_order_of_the_tokens_matters(kind):
    # Without positions, the last token of one layer does not depend on the order of the others.
    net = model("gru", kind)
    del net.decoder.layers[1:]
    memory, state = net.encode(*sources())
    ids = torch.tensor([[3, 4, 5, 6, 7, 8]] * 4)
    one, other = (net.decode(x, state, memory).hidden[:, -1] for x in (ids, ids[:, [3, 4, 0, 1, 2, 5]]))
    assert ((one - other).abs().amax(-1) > 1e-4).all()


@pytest.mark.parametrize("kv_heads", [HEADS, KV_HEADS])
def test_relative_scores_are_their_formula(kv_heads):
    """Shaw et al. 2018, eq. 4: each key has a vector for its distance from the query."""
    most, x = 2, rand(3, TOKENS, DIM)
    config = MultiHeadScoreConfig(heads=HEADS, kv_heads=kv_heads)
    score = shuffle_weights(config.build(DIM, DIM, max_distance=most))
    q, k = (project(x, POSITIONS) for project in (score.project_query, score.project_key))
    scores = score(q, k, QueryInfo(x, POSITIONS))
    vectors, (q, k) = score.relative_embedding.weight.detach().numpy(), (y.detach().numpy() for y in (q, k))
    expected = np.zeros((3, HEADS, TOKENS, TOKENS))
    for b, h, t, s in np.ndindex(*expected.shape):
        key = k[b, h * kv_heads // HEADS, s] + vectors[max(-most, min(most, s - t)) + most]
        expected[b, h, t, s] = q[b, h, t] @ key / np.sqrt(DIM // HEADS)
    torch.testing.assert_close(scores.detach(), torch.from_numpy(expected))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (4, 3), (7, 9), (16, 20)])
def test_buckets_are_those_of_t5(buckets, most, bidirectional):
    bias = RelativePositionBias(HEADS, buckets, most, bidirectional=bidirectional)
    distance = torch.arange(-150, 151)
    expected = T5Attention._relative_position_bucket(distance, bidirectional, buckets, most)
    assert bias.bucket(distance).equal(expected)


def llama_layer(ours, config):
    """LLaMA's layer with the weights of `ours`."""
    layer = LlamaDecoderLayer(config, 0)
    pairs = [
        (ours.self_attention.score.query_proj, layer.self_attn.q_proj),
        (ours.self_attention.score.key_proj, layer.self_attn.k_proj),
        (ours.self_attention.value_proj, layer.self_attn.v_proj),
        (ours.self_attention.output_proj, layer.self_attn.o_proj),
        (ours.self_attention_residual.norm, layer.input_layernorm),
        (ours.feed_forward.gate_proj, layer.mlp.gate_proj),
        (ours.feed_forward.up_proj, layer.mlp.up_proj),
        (ours.feed_forward.down_proj, layer.mlp.down_proj),
        (ours.feed_forward_residual.norm, layer.post_attention_layernorm),
    ]
    for one, other in pairs:
        other.load_state_dict(one.state_dict())
    return layer.double().eval()


def test_rotary_grouped_rmsnorm_and_swiglu_are_llamas_layer():
    ours = shuffle_weights(TransformerEncoderConfig.model_validate(MODERN).build(DIM))
    config = LlamaConfig(
        hidden_size=DIM, intermediate_size=HIDDEN, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
        attention_bias=True, rms_norm_eps=1e-6, attn_implementation="eager",
    )  # fmt: skip
    x = rand(3, TOKENS, DIM)
    y, rotations = x, LlamaRotaryEmbedding(config)(x, POSITIONS)
    mask = torch.zeros(3, 1, 1, TOKENS, dtype=torch.double).masked_fill(~MASK[:, None, None], -1e9)
    for layer in ours.layers:
        y = llama_layer(layer, config)(y, attention_mask=mask, position_embeddings=rotations)
    # LLaMA's angles are in single precision.
    torch.testing.assert_close(ours(x, Sequences(MASK)).values[MASK], ours.norm(y)[MASK], rtol=1e-5, atol=1e-6)


def test_the_kv_cache_and_the_memory_are_grouped():
    encoder = TransformerEncoderConfig.model_validate(MODERN).build(DIM)
    decoder = TransformerDecoderConfig.model_validate(
        {**MODERN, "attention": {"score": {"kind": "multi-head", "heads": HEADS, "kv_heads": 1}}}
    ).build(DIM, encoder).double()  # fmt: skip
    x = rand(3, TOKENS, DIM)
    memory, state = decoder.init_state(EncoderOutput(x, x, MASK, (x[:, :1],)))
    tensors = [y for pair in decoder(x, state, memory).state.cache.layers for y in pair]
    tensors += [y for m in memory for y in (m.keys, m.values)]
    assert [y.shape for y in tensors] == [(3, KV_HEADS, TOKENS, DIM // HEADS)] * 4 * LAYERS

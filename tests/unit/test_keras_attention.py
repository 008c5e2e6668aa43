"""What `tf.keras.layers.Attention` and `AdditiveAttention` compute, by the formulas of their documentation in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seq2attn.attention import Attention
from seq2attn.attention.scores import Additive, Dot, General

B, T, S, DIM = 3, 5, 4, 6
LENGTHS = (4, 2, 1)


def rand(*shape, seed):
    return np.random.default_rng(seed).normal(size=shape)


QUERY, KEY, VALUE = rand(B, T, DIM, seed=0), rand(B, S, DIM, seed=1), rand(B, S, 3, seed=2)
MASK = np.arange(S) < np.array(LENGTHS)[:, None]
SCALE, CONCAT_WEIGHT, SCALES = 0.7, -1.3, rand(DIM, seed=3)


def outer_sum(query, key):
    return query[:, :, None] + key[:, None]  # [B, T, S, D]


def keras_scores(scale=None, concat_weight=None):
    """Attention's: score_mode="dot", with a `concat_weight` "concat"; `scale` is what use_scale=True learns."""
    if concat_weight is None:
        scores = np.einsum("btd,bsd->bts", QUERY, KEY)
        return scores if scale is None else scale * scores
    return concat_weight * np.tanh((1 if scale is None else scale) * outer_sum(QUERY, KEY)).sum(-1)


def keras_additive_scores(scale=None):
    """AdditiveAttention's; `scale` [D] is what use_scale=True learns."""
    return ((1 if scale is None else scale) * np.tanh(outer_sum(QUERY, KEY))).sum(-1)


def keras_attended(scores):
    """Both subtract 1e9 where the mask of the values is False, and average the values."""
    scores = scores - 1e9 * ~MASK[:, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ VALUE, weights


def general(scale):
    score = General(DIM, DIM)
    score.w_key.weight.data = scale * torch.eye(DIM)
    return score


def additive(inside, v):
    """W and U are `inside` times the identity: Keras's layer leaves it to others to project."""
    score = Additive(DIM, DIM, DIM)
    score.w_query.weight.data = score.w_key.weight.data = inside * torch.eye(DIM)
    score.v.data = torch.as_tensor(v * np.ones(DIM)).view(1, 1, DIM)
    return score


PAIRS = {
    "dot": (Dot(), keras_scores()),
    "dot, use_scale": (general(SCALE), keras_scores(SCALE)),
    "concat": (additive(1.0, CONCAT_WEIGHT), keras_scores(concat_weight=CONCAT_WEIGHT)),
    "concat, use_scale": (additive(SCALE, CONCAT_WEIGHT), keras_scores(SCALE, CONCAT_WEIGHT)),
    "additive": (additive(1.0, 1.0), keras_additive_scores()),
    "additive, use_scale": (additive(1.0, SCALES), keras_additive_scores(SCALES)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_values_of_keras(name):
    score, theirs = PAIRS[name]
    attention = Attention(score).double()
    query, key, value, mask = (torch.from_numpy(x) for x in (QUERY, KEY, VALUE, MASK))
    position = torch.arange(T).expand(B, T)
    read = attention(query, attention.project(key, value, mask), position, need_weights=True)
    context, weights = keras_attended(theirs)
    torch.testing.assert_close(read.weights[:, 0].detach(), torch.from_numpy(weights), rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(read.context.detach(), torch.from_numpy(context), rtol=1e-6, atol=1e-7)

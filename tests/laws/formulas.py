"""The papers' formulas for scores, alignments and contexts, written out in NumPy word by word."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import nn

from tests.laws.parts import SCORES


def affine(linear, x):
    y = x @ linear.weight.detach().numpy().T
    return y if linear.bias is None else y + linear.bias.detach().numpy()


def plain_score(name, score, q, k, s):
    """One query [Dq] and one key [Dk], which stands at s -> [H]."""
    heads = score.heads
    if name in ("dot", "scaled-dot"):
        return np.array([q @ k / (math.sqrt(len(q)) if name == "scaled-dot" else 1)])
    if name == "general":
        return np.array([q @ score.w_key.weight.detach().numpy() @ k])
    if name == "concat":  # Luong's W multiplies the stacked vector
        w = torch.cat([score.w_query.weight, score.w_key.weight], 1).detach().numpy()
        return np.array([score.v.detach().numpy().ravel() @ np.tanh(w @ np.concatenate([q, k]))])
    if name == "cosine":
        key = affine(score.w_key, k)
        return score.sharpness.detach().numpy().ravel() * (q @ key) / np.linalg.norm(q) / np.linalg.norm(key)
    if name == "location-2-heads":  # the last position stands for all that follow
        return affine(score.w_query, q).reshape(heads, -1)[:, min(s, SCORES[name]["positions"] - 1)]
    wq, uk = (affine(side, x).reshape(heads, -1) for side, x in ((score.w_query, q), (score.w_key, k)))
    if name == "multi-head":
        return (wq * uk).sum(-1) / math.sqrt(len(q) / heads)
    return (score.v.detach().numpy()[:, 0] * np.tanh(wq + uk)).sum(-1)


def plain_scores(name, score, query, keys):
    """[B, H, T, S]"""
    cells = np.empty((query.shape[0], score.heads, query.shape[1], keys.shape[1]))
    for b, t, s in itertools.product(range(query.shape[0]), range(query.shape[1]), range(keys.shape[1])):
        cells[b, :, t, s] = plain_score(name, score, query[b, t], keys[b, s], s)
    return cells


def plain_weights(name, align, scores, lengths, query):
    """[B, H, T, S]: word by word, only over those that may be looked at."""
    weights = np.zeros_like(scores)
    for b, h, t in np.ndindex(scores.shape[:3]):
        n, words = lengths[b], range(lengths[b])
        if name == "local-m":
            words = [s for s in words if abs(s - min(t, n - 1)) <= align.width]
        if name == "local-p":
            w, _, v = align.predict
            centre = (n - 1) / (1 + np.exp(-affine(v, np.tanh(affine(w, query[b, t])))[0]))
            words = [s for s in words if abs(round(s - centre)) <= align.width]
        if name in ("sparsemax", "entmax15"):
            weights[b, h, t, :n] = plain_entmax(scores[b, h, t, :n], 2.0 if name == "sparsemax" else 1.5)
            continue
        total = sum(math.exp(scores[b, h, t, s]) for s in words)
        for s in words:
            weights[b, h, t, s] = math.exp(scores[b, h, t, s]) / total
            if name == "local-p":
                weights[b, h, t, s] *= math.exp(-((s - centre) ** 2) / (2 * (align.width / 2) ** 2))
    return weights


def plain_entmax(scores, alpha):
    """Peters et al. 2019, eq. 3, its threshold found by halving."""
    z = scores * (alpha - 1)
    low, high = z.max() - 1, z.max()
    for _ in range(60):
        tau = (low + high) / 2
        enough = (np.maximum(z - tau, 0) ** (1 / (alpha - 1))).sum() > 1
        low, high = (tau, high) if enough else (low, tau)
    return np.maximum(z - tau, 0) ** (1 / (alpha - 1))


def plain_context(attention, weights, values):
    """[B, T, Dv]: each head's share of the values, side by side."""
    if isinstance(attention.value, nn.Linear):
        values = affine(attention.value, values)
    shares = np.split(values, weights.shape[1], -1)
    context = np.concatenate([weights[:, h] @ share for h, share in enumerate(shares)], -1)
    return affine(attention.output, context) if isinstance(attention.output, nn.Linear) else context

"""The papers' formulas for scores, alignments and contexts, written out in NumPy token by token.

One sentence and one query at a time: keys [S, Dk], a query [Dq] at target position t, weights [H, S].
"""

import math

import numpy as np
import torch
from torch import nn

from tests.support.models import SCORES


def affine(linear, x):
    y = x @ linear.weight.detach().numpy().T
    return y if linear.bias is None else y + linear.bias.detach().numpy()


def plain_score(name, score, q, k, s, t, covered):
    """One query [Dq] at t and one key [Dk] at s, with the sum of its weights so far in each head [H] -> [H]"""
    kind, heads = SCORES[name]["kind"], score.heads
    shares = (q.reshape(heads, -1), k.reshape(heads, -1)) if len(k) % heads == len(q) % heads == 0 else None
    scale = math.sqrt(len(q) / heads) if SCORES[name].get("scaled") else 1
    if kind == "dot":
        return (shares[0] * shares[1]).sum(-1) / scale
    if kind == "general":
        return (q.reshape(heads, -1) * affine(score.key_proj, k).reshape(heads, -1)).sum(-1) / scale
    if kind == "concat":  # Luong's W multiplies the concatenated vector
        w = torch.cat([score.query_proj.weight, score.key_proj.weight], 1).detach().numpy()
        return np.array([score.v.detach().numpy().ravel() @ np.tanh(w @ np.concatenate([q, k]))])
    if kind == "cosine":
        key = affine(score.key_proj, k).reshape(heads, -1)
        norms = np.linalg.norm(shares[0], axis=-1) * np.linalg.norm(key, axis=-1)
        return score.sharpness.detach().numpy().ravel() * (shares[0] * key).sum(-1) / norms
    if kind == "location":  # later positions share the last score
        return affine(score.query_proj, q).reshape(heads, -1)[:, min(s, SCORES[name]["max_positions"] - 1)]
    if kind == "offset":
        most = SCORES[name]["max_distance"]
        return affine(score.query_proj, q).reshape(heads, -1)[:, max(-most, min(most, s - t)) + most]
    wq, uk = affine(score.query_proj, q).reshape(heads, -1), affine(score.key_proj, k).reshape(score.kv_heads, -1)
    uk = uk.repeat(heads // score.kv_heads, 0)
    if kind == "multi-head":
        return (wq * uk).sum(-1) / math.sqrt(wq.shape[1])
    if kind == "coverage":
        fertility = SCORES[name].get("max_fertility", 2.0) / (1 + np.exp(-affine(score.fertility, k)))
        wq = wq + (covered / fertility)[:, None] * score.z.detach().numpy()[:, 0, 0]
    return (score.v.detach().numpy()[:, 0] * np.tanh(wq + uk)).sum(-1)


def plain_scores(name, score, q, keys, t, covered):
    """[H, S]"""
    return np.stack([plain_score(name, score, q, k, s, t, covered[:, s]) for s, k in enumerate(keys)], -1)


def plain_weights(name, align, scores, n, q, t, last):
    """[H, S]: only over the first n; `last` [H, S]: the weights of the previous target token."""
    weights = np.zeros_like(scores)
    for h, row in enumerate(scores):
        if name in ("sparsemax", "entmax15"):
            weights[h, :n] = plain_entmax(row[:n], 2.0 if name == "sparsemax" else 1.5)
        elif name.startswith("hard"):  # at inference
            weights[h, max(range(n), key=lambda s: row[s])] = 1
        elif name == "monotonic":
            stops = row[:n] + align.score_bias.item()
            weights[h, :n] = (expected_alignment if align.training else first_alignment)(stops, last[h, :n])
        else:
            weights[h] = plain_window(name, align, row, n, q, t)
    return weights


def plain_window(name, align, row, n, q, t):
    """[S]: softmax over a window, the whole sentence if it is global."""
    window, weights = range(n), np.zeros_like(row)
    if name == "local-m":
        window = [s for s in window if abs(s - min(t, n - 1)) <= align.window]
    if name.startswith("local-p"):
        w, _, v = align.position_predictor
        center = (n - 1) / (1 + np.exp(-affine(v, np.tanh(affine(w, q)))[0]))
        window = [s for s in window if abs(round(s - center)) <= align.window]
    total = sum(math.exp(row[s]) for s in window)
    for s in window:
        weights[s] = math.exp(row[s]) / total
        if name.startswith("local-p"):
            weights[s] *= math.exp(-((s - center) ** 2) / (2 * (align.window / 2) ** 2))
    return weights / weights.sum() if name == "local-p-renormalized" else weights


def expected_alignment(scores, last):
    """Raffel et al. 2017, eq. 8 to 10: the probability of arriving at each token and stopping there."""
    stop, weights, arrived = 1 / (1 + np.exp(-scores)), np.zeros_like(scores), 0.0
    stop[-1] = 1
    for s, p in enumerate(stop):
        arrived += last[s]
        weights[s] = p * arrived
        arrived *= 1 - p
    return weights


def first_alignment(scores, last):
    start = int(last.argmax())
    stops = [s for s in range(start, len(scores)) if scores[s] > 0]
    return np.eye(len(scores))[stops[0] if stops else -1]


def plain_entmax(scores, alpha):
    """Peters et al. 2019, eq. 3, its threshold by bisection."""
    z = scores * (alpha - 1)
    low, high = z.max() - 1, z.max()
    for _ in range(60):
        tau = (low + high) / 2
        is_low = (np.maximum(z - tau, 0) ** (1 / (alpha - 1))).sum() > 1
        low, high = (tau, high) if is_low else (low, tau)
    return np.maximum(z - tau, 0) ** (1 / (alpha - 1))


def plain_attention(score_name, align_name, attention, query, keys, lengths):
    """[B, H, T, S]: the queries of each sentence in turn, with the weights of those before."""
    rows = []
    for queries, tokens, n in zip(query, keys, lengths, strict=True):
        covered = np.zeros((attention.score.heads, len(tokens)))
        last = np.zeros_like(covered)
        last[:, 0] = 1
        weights = []
        for t, q in enumerate(queries):
            scores = plain_scores(score_name, attention.score, q, tokens, t, covered)
            last = plain_weights(align_name, attention.alignment, scores, n, q, t, last)
            covered = covered + last
            weights.append(last)
        rows.append(np.stack(weights, 1))
    return np.stack(rows)


def plain_context(attention, weights, values):
    """[B, T, Dv]: each head's share of the values, side by side."""
    if isinstance(attention.value_proj, nn.Linear):
        values = affine(attention.value_proj, values)
    heads, groups = attention.score.heads, attention.score.kv_heads
    shares = [share for share in np.split(values, groups, -1) for _ in range(heads // groups)]
    context = np.concatenate([weights[:, h] @ share for h, share in enumerate(shares)], -1)
    return affine(attention.output_proj, context) if isinstance(attention.output_proj, nn.Linear) else context

"""Cross-entropy and other functions of the logits, computed in chunks that are not stored.

Shapes: M target tokens, D width, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from seq2attn.nn.kernels.linear import ROW_MULTIPLE, linear_input_grad
from seq2attn.nn.precision import autocast_dtype

CHUNK_LOGITS = {"cpu": 2**21}
"""Number of logits in a chunk, by device type: 8 MB in float32 stay in the processor's cache."""
LARGE_CHUNK = 2**26
"""Number of logits in a chunk on other devices, where it costs thirty kernel launches and up to 12 bytes per logit."""
MIN_CHUNK_ROWS = 256
"""Minimum number of tokens in a chunk: for fewer, adding up gradients of the weight takes longer than their product."""


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sum of the label-smoothed cross-entropy, and the log-probabilities of the labels [M], without gradient.

    hidden [M, D], weight [V, D], bias [V], labels [M]. The smoothed target spreads `label_smoothing` evenly over the
    vocabulary (Szegedy et al. 2016, section 7). The logits [M, V] are never stored: they are computed in chunks, each
    with its gradients.
    """
    if dtype := autocast_dtype(hidden.device):
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), bias.to(dtype)
    return _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels.unsqueeze(1), label_smoothing, torch.is_grad_enabled()
    )


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, smoothing: float, needs_grad: bool
    ) -> tuple[Tensor, Tensor]:
        rows = chunk_rows(weight)
        rows -= rows % ROW_MULTIPLE if rows > ROW_MULTIPLE else 0
        total = torch.zeros((), device=hidden.device, dtype=torch.promote_types(hidden.dtype, torch.float32))
        log_probs = total.new_zeros(labels.size(0))
        d_hidden = torch.empty_like(hidden)
        d_weight, d_bias = (torch.zeros_like(x, dtype=total.dtype) for x in (weight, bias))
        # All chunks share these buffers: allocating memory takes as long as a softmax.
        product_buffer = hidden.new_empty(min(rows, hidden.size(0)), weight.size(0))
        prob_buffer = torch.empty_like(product_buffer, dtype=total.dtype)
        is_full = hidden.dtype == total.dtype
        logit_buffer = product_buffer if is_full else torch.empty_like(prob_buffer)
        for start in range(0, hidden.size(0), rows):
            chunk, chunk_labels = hidden[start : start + rows], labels[start : start + rows]
            product = torch.addmm(bias, chunk, weight.t(), out=product_buffer[: len(chunk)])
            logits = product if is_full else logit_buffer[: len(chunk)].copy_(product)
            probs = torch.softmax(logits, 1, out=prob_buffer[: len(chunk)])
            # log of the softmax's denominator, from the most probable token, whose log never underflows
            log_norm = logits.amax(1, keepdim=True) - probs.amax(1, keepdim=True).log()
            label_log_probs = logits.gather(1, chunk_labels) - log_norm
            log_probs[start : start + rows] = label_log_probs.squeeze(1)
            total -= (1 - smoothing) * label_log_probs.sum()
            if smoothing:
                total -= smoothing * (logits.mean(1, keepdim=True) - log_norm).sum()
            if needs_grad:
                d_logits = _d_logits(probs, chunk_labels, smoothing)
                d_bias += d_logits.sum(0)
                d_logits = d_logits if is_full else product.copy_(d_logits)
                d_hidden[start : start + rows] = linear_input_grad(d_logits, weight)
                if is_full:
                    d_weight.addmm_(d_logits.t(), chunk)
                else:  # the sum over chunks stays in full precision
                    d_weight += d_logits.t() @ chunk
        if needs_grad:
            ctx.save_for_backward(d_hidden, d_weight.to(weight.dtype), d_bias.to(bias.dtype))
        ctx.mark_non_differentiable(log_probs)
        return total, log_probs

    @staticmethod
    def backward(ctx: Any, d_total: Tensor, d_log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        # A tensor without dimensions does not change the dtype of a product.
        return d_hidden * d_total, d_weight * d_total, d_bias * d_total, None, None, None


def chunk_rows(weight: Tensor) -> int:
    """Tokens in a chunk, for an output layer with `weight` [V, D]."""
    return max(MIN_CHUNK_ROWS, CHUNK_LOGITS.get(weight.device.type, LARGE_CHUNK) // weight.size(0))


def _d_logits(probs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Gradient of the summed loss with respect to the logits, written into `probs` [M, V]; labels [M, 1]."""
    if smoothing:
        probs -= smoothing / probs.size(1)
    return probs.scatter_add_(1, labels, probs.new_full(labels.shape, smoothing - 1))


def symmetric_kl(hidden: Tensor, other: Tensor, output: nn.Linear) -> Tensor:
    """Mean of both Kullback-Leibler divergences of two predictions, summed over tokens: [M, D], [M, D] -> []

    R-Drop (Liang et al. 2021, eq. 2). As in the cross-entropy the logits are computed in chunks and not stored.
    """
    rows = chunk_rows(output.weight)
    parts = zip(hidden.split(rows), other.split(rows), strict=True)
    return torch.stack([checkpoint(_symmetric_kl, *pair, output, use_reentrant=False) for pair in parts]).sum()


def _symmetric_kl(hidden: Tensor, other: Tensor, output: nn.Linear) -> Tensor:
    p, q = (torch.log_softmax(output(x).float(), -1) for x in (hidden, other))
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2


def label_log_probs(hidden: Tensor, labels: Tensor, output: nn.Linear) -> Tensor:
    """Log-probabilities of labels, with gradients and without storing the logits: [M, D], [M] -> [M]"""
    rows = chunk_rows(output.weight)
    parts = zip(hidden.split(rows), labels.split(rows), strict=True)
    return torch.cat([checkpoint(_label_log_probs, *pair, output, use_reentrant=False) for pair in parts])


def _label_log_probs(hidden: Tensor, labels: Tensor, output: nn.Linear) -> Tensor:
    return -cross_entropy(output(hidden).float(), labels, reduction="none")

"""The training objective: cross-entropy with label smoothing, made together with the output layer.

Shapes: M target tokens of a batch, D width of the decoder, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.data.collate import IGNORE_INDEX, Batch
from seq2attn.models import Seq2Seq
from seq2attn.nn.linear import ROW_MULTIPLE, autocast_dtype, linear_input_grad
from seq2attn.training.guided_alignment import GuidedAlignmentConfig, guided_alignment_loss
from seq2attn.training.reinforce import reinforce_loss

CHUNK_LOGITS = {"cpu": 2**21}
"""How many logits are made at a time on a kind of device (8 MB in float32): few enough to stay near the processor."""
LARGE_CHUNK = 2**26
"""The same elsewhere, where each chunk costs thirty launches, and up to 12 bytes a logit."""


@dataclass(frozen=True)
class LossOutput:
    """Sums over target tokens, to be divided once, by the number of tokens of an update."""

    loss: Tensor  # [] with label smoothing and guidance; what training makes small
    negative_log_likelihood: Tensor  # [] without it; what perplexity is made from
    num_target_tokens: int
    guided_alignment: Tensor  # [] of the links alone, without their weight
    num_guided_tokens: Tensor  # [] long: target tokens that have a link
    samples_attention: bool  # whether some attention drew where to look, and learns by how it went


@dataclass(frozen=True)
class LossSums:
    """Running sums of the losses of micro-batches in this process."""

    loss: Tensor  # []
    negative_log_likelihood: Tensor  # []
    guided_alignment: Tensor  # [2]
    samples_attention: bool = False

    def add(self, loss: LossOutput) -> LossSums:
        """Sums with one more loss."""
        return LossSums(
            self.loss + loss.loss.detach(),
            self.negative_log_likelihood + loss.negative_log_likelihood.detach(),
            self.guided_alignment + torch.stack([loss.guided_alignment.detach(), loss.num_guided_tokens]),
            loss.samples_attention,
        )


class TrainingLoss(nn.Module):
    """A model and its loss as one module: what is trained, and what distributed training wraps."""

    def __init__(
        self, model: Seq2Seq, label_smoothing: float = 0.0, guided: GuidedAlignmentConfig | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.guided_alignment = guided

    def forward(self, batch: Batch, baseline: float | None = None) -> LossOutput:
        """The loss of the labels [B, T] given the source and the tokens before each, and the guided-alignment loss.

        `baseline` is the log-probability that a target word has had of late, for hard attention to compare with.
        """
        is_guided = self.guided_alignment is not None and batch.alignment_targets is not None
        decoded = self.model(
            batch.source, batch.source_mask, batch.target, need_weights=is_guided, layout=batch.layouts
        )
        output, labelled = self.model.output_projection, batch.label_index
        objective, log_probs = linear_cross_entropy(
            decoded.hidden.flatten(0, 1).index_select(0, labelled),
            output.weight,
            output.bias,
            batch.labels.flatten().index_select(0, labelled),
            self.label_smoothing,
        )
        if decoded.sample_log_prob is not None:
            seen = log_probs.new_zeros(batch.labels.numel()).index_copy(0, labelled, log_probs)
            mask = batch.labels != IGNORE_INDEX
            objective = objective + reinforce_loss(decoded.sample_log_prob, seen.view_as(mask), mask, baseline)
        guided, num_guided = torch.zeros_like(objective), labelled.new_zeros(())
        if self.guided_alignment is not None and batch.alignment_targets is not None:
            guided, num_guided = guided_alignment_loss(
                self.guided_alignment.select_attention(decoded.cross_attention), batch.alignment_targets
            )
            objective = objective + self.guided_alignment.weight * guided
        return LossOutput(
            objective,
            -log_probs.sum(),
            len(labelled),
            guided,
            num_guided,
            decoded.sample_log_prob is not None,
        )


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The sum of the smoothed cross-entropy, and each label's log-probability [M], which has no gradient.

    hidden [M, D], weight [V, D], bias [V], labels [M]. The smoothed target gives every word of the vocabulary an equal
    share of `label_smoothing` (Szegedy et al. 2016, section 7). The table of logits [M, V] is never held: a chunk of
    them is made, and while it is at hand its gradients are as well.
    """
    if kind := autocast_dtype(hidden.device):
        hidden, weight, bias = hidden.to(kind), weight.to(kind), bias.to(kind)
    objective, right = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels.unsqueeze(1), label_smoothing, torch.is_grad_enabled()
    )
    return objective, right


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        smoothing: float,
        gradients: bool,
    ) -> tuple[Tensor, Tensor]:
        rows = max(1, CHUNK_LOGITS.get(weight.device.type, LARGE_CHUNK) // weight.size(0))
        rows -= rows % ROW_MULTIPLE if rows > ROW_MULTIPLE else 0
        total = torch.zeros((), device=hidden.device, dtype=torch.promote_types(hidden.dtype, torch.float32))
        every_right = total.new_zeros(labels.size(0))
        d_hidden = torch.empty_like(hidden)
        d_weight, d_bias = (torch.zeros_like(x, dtype=total.dtype) for x in (weight, bias))
        # All chunks are made in the same place: to ask the system for memory takes as long as a softmax.
        every_logit = hidden.new_empty(min(rows, hidden.size(0)), weight.size(0))
        every_prob = torch.empty_like(every_logit, dtype=total.dtype)
        for start in range(0, hidden.size(0), rows):
            part, labelled = hidden[start : start + rows], labels[start : start + rows]
            logits = torch.addmm(bias, part, weight.t(), out=every_logit[: len(part)]).to(total.dtype)
            probs = torch.softmax(logits, 1, out=every_prob[: len(part)])
            # The likeliest word tells what the logits were divided by: its probability is never too small for a log.
            divisor = logits.amax(1, keepdim=True) - probs.amax(1, keepdim=True).log()
            right = logits.gather(1, labelled) - divisor
            every_right[start : start + rows] = right.squeeze(1)
            total -= (1 - smoothing) * right.sum()
            if smoothing:
                total -= smoothing * (logits.mean(1, keepdim=True) - divisor).sum()
            if gradients:
                d_logits = _d_logits(probs, labelled, smoothing).to(hidden.dtype)
                d_hidden[start : start + rows] = linear_input_grad(d_logits, weight)
                if hidden.dtype == total.dtype:
                    d_weight.addmm_(d_logits.t(), part)
                else:  # the sum over chunks stays in full precision
                    d_weight += d_logits.t() @ part
                d_bias += d_logits.sum(0)
        if gradients:
            ctx.save_for_backward(d_hidden, d_weight.to(weight.dtype), d_bias.to(bias.dtype))
        ctx.mark_non_differentiable(every_right)
        return total, every_right

    @staticmethod
    def backward(ctx: Any, d_total: Tensor, d_right: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        d_hidden, d_weight, d_bias = ctx.saved_tensors
        # A tensor without dimensions keeps its precision in the product, and the other's type stays.
        return d_hidden * d_total, d_weight * d_total, d_bias * d_total, None, None, None


def _d_logits(probs: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The gradient of the summed loss by the logits, in the place of `probs` [M, V]; labels [M, 1]."""
    if smoothing:
        probs -= smoothing / probs.size(1)
    return probs.scatter_add_(1, labels, probs.new_full(labels.shape, smoothing - 1))

"""The training objective: label-smoothed cross-entropy, computed together with the output layer.

Shapes: B sentences, T target tokens, M target tokens of a batch, D width of the decoder, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from seq2attn.data.collate import IGNORE_INDEX, Batch
from seq2attn.decoders.base import DecoderOutput
from seq2attn.experiment.training_config import ScheduledSamplingConfig
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig, guided_alignment_loss
from seq2attn.models import Seq2Seq
from seq2attn.nn.linear import ROW_MULTIPLE, autocast_dtype, linear_input_grad
from seq2attn.tokenizers.vocabulary import BOS

CHUNK_LOGITS = {"cpu": 2**21}
"""Number of logits in a chunk, by device type: 8 MB in float32 stay in the processor's cache."""
LARGE_CHUNK = 2**26
"""The same on other devices, where a chunk costs thirty kernel launches and up to 12 bytes per logit."""
MIN_CHUNK_ROWS = 256
"""Minimum number of tokens in a chunk: for fewer, adding up gradients of the weight takes longer than their product."""


@dataclass(frozen=True)
class LossOutput:
    """Sums over target tokens, divided once by the number of tokens of the update."""

    loss: Tensor  # [] the objective, with label smoothing and guided alignment
    negative_log_likelihood: Tensor  # [] for perplexity
    num_target_tokens: int
    guided_alignment: Tensor  # [] unweighted
    num_guided_tokens: Tensor  # [] long: number of aligned target tokens
    samples_attention: bool  # True for hard attention trained by REINFORCE

    def mean(self, other: LossOutput, extra: Tensor) -> LossOutput:
        """The mean of two losses of the same batch, and an `extra` term."""
        return replace(
            self,
            loss=(self.loss + other.loss) / 2 + extra,
            negative_log_likelihood=(self.negative_log_likelihood + other.negative_log_likelihood) / 2,
            guided_alignment=(self.guided_alignment + other.guided_alignment) / 2,
        )


@dataclass(frozen=True)
class LossSums:
    """Sums of the losses of micro-batches in this process."""

    loss: Tensor  # []
    negative_log_likelihood: Tensor  # []
    guided_alignment: Tensor  # [2]
    samples_attention: bool = False

    @classmethod
    def zeros(cls, device: torch.device) -> LossSums:
        """Sums of no micro-batch."""
        zero = torch.zeros((), device=device)
        return cls(zero, zero, zero.repeat(2))

    def add(self, loss: LossOutput) -> LossSums:
        """Sums with one more loss."""
        return LossSums(
            self.loss + loss.loss.detach(),
            self.negative_log_likelihood + loss.negative_log_likelihood.detach(),
            self.guided_alignment + torch.stack([loss.guided_alignment.detach(), loss.num_guided_tokens]),
            loss.samples_attention,
        )


class TrainingLoss(nn.Module):
    """A model and its loss as one module, which data-parallel training wraps."""

    def __init__(
        self,
        model: Seq2Seq,
        label_smoothing: float = 0.0,
        guided: GuidedAlignmentConfig | None = None,
        r_drop: float | None = None,
        scheduled_sampling: ScheduledSamplingConfig | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.guided_alignment = guided
        self.r_drop, self.scheduled_sampling = r_drop, scheduled_sampling

    def forward(self, batch: Batch, baseline: float | None = None, update: int = 0) -> LossOutput:
        """Cross-entropy of the labels [B, T] under teacher forcing, with the guided-alignment loss.

        `baseline` is the moving average of a token's log-probability, for REINFORCE; `update`: number of the update,
        for scheduled sampling.
        """
        if self.training and self.scheduled_sampling is not None:
            batch = self._replace_tokens(batch, self.scheduled_sampling.probability(update))
        decoded = self._decode(batch)
        hidden = self._label_hidden(batch, decoded)
        loss = self._loss(batch, decoded, hidden, baseline)
        if not self.training or self.r_drop is None:
            return loss
        decoded = self._decode(batch)  # with other dropout
        other_hidden = self._label_hidden(batch, decoded)
        divergence = symmetric_kl(hidden, other_hidden, self.model.output_projection)
        return loss.mean(self._loss(batch, decoded, other_hidden, baseline), self.r_drop / 2 * divergence)

    def _decode(self, batch: Batch) -> DecoderOutput:
        lengths = None if batch.source_lengths is None else torch.from_numpy(batch.source_lengths)
        decoded: DecoderOutput = self.model(
            batch.source,
            batch.source_mask,
            batch.target,
            need_weights=self.guided_alignment is not None and batch.alignment_targets is not None,
            layout=batch.layouts,
            lengths=lengths,
        )
        return decoded

    def _label_hidden(self, batch: Batch, decoded: DecoderOutput) -> Tensor:
        """Hidden vectors [M, D] of the labels."""
        return decoded.hidden.flatten(0, 1).index_select(0, batch.label_index)

    @torch.no_grad()
    def _replace_tokens(self, batch: Batch, probability: float) -> Batch:
        """The batch with some decoder inputs [B, T] replaced by the predictions of the model."""
        if not probability:
            return batch
        output = self.model.output_projection
        chunks = self._decode(batch).hidden.flatten(0, 1).split(_chunk_rows(output.weight))
        predicted = torch.cat([output(chunk).argmax(-1) for chunk in chunks]).view_as(batch.target).roll(1, 1)
        is_replaced = (torch.rand(predicted.shape, device=predicted.device) < probability) & (batch.target != BOS)
        return replace(batch, target=predicted.where(is_replaced, batch.target))

    def _loss(self, batch: Batch, decoded: DecoderOutput, hidden: Tensor, baseline: float | None) -> LossOutput:
        output, label_index = self.model.output_projection, batch.label_index
        labels = batch.labels.flatten().index_select(0, label_index)
        objective, log_probs = linear_cross_entropy(hidden, output.weight, output.bias, labels, self.label_smoothing)
        if decoded.sample_log_prob is not None:
            padded = log_probs.new_zeros(batch.labels.numel()).index_copy(0, label_index, log_probs)
            mask = batch.labels != IGNORE_INDEX
            objective = objective + reinforce_loss(decoded.sample_log_prob, padded.view_as(mask), mask, baseline)
        guided, num_guided = torch.zeros_like(objective), label_index.new_zeros(())
        if self.guided_alignment is not None and batch.alignment_targets is not None:
            assert decoded.cross_attention is not None, "checked before training"
            guided, num_guided = guided_alignment_loss(
                self.guided_alignment.select_attention(decoded.cross_attention), batch.alignment_targets
            )
            objective = objective + self.guided_alignment.weight * guided
        samples_attention = decoded.sample_log_prob is not None
        return LossOutput(objective, -log_probs.sum(), len(label_index), guided, num_guided, samples_attention)


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
    outputs: tuple[Tensor, Tensor] = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, labels.unsqueeze(1), label_smoothing, torch.is_grad_enabled()
    )
    return outputs


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, smoothing: float, needs_grad: bool
    ) -> tuple[Tensor, Tensor]:
        rows = _chunk_rows(weight)
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


def _chunk_rows(weight: Tensor) -> int:
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
    rows = _chunk_rows(output.weight)
    parts = zip(hidden.split(rows), other.split(rows), strict=True)
    return torch.stack([checkpoint(_symmetric_kl, *pair, output, use_reentrant=False) for pair in parts]).sum()


def _symmetric_kl(hidden: Tensor, other: Tensor, output: nn.Linear) -> Tensor:
    p, q = (torch.log_softmax(output(x).float(), -1) for x in (hidden, other))
    return ((p.exp() - q.exp()) * (p - q)).sum() / 2


def label_log_probs(hidden: Tensor, labels: Tensor, output: nn.Linear) -> Tensor:
    """Log-probabilities of labels, with gradients and without storing the logits: [M, D], [M] -> [M]"""
    rows = _chunk_rows(output.weight)
    parts = zip(hidden.split(rows), labels.split(rows), strict=True)
    return torch.cat([checkpoint(_label_log_probs, *pair, output, use_reentrant=False) for pair in parts])


def _label_log_probs(hidden: Tensor, labels: Tensor, output: nn.Linear) -> Tensor:
    return -cross_entropy(output(hidden).float(), labels, reduction="none")


BASELINE_MOMENTUM = 0.9
"""Momentum of the baseline (Xu et al. 2015, section 4.1)."""


def reinforce_loss(sample_log_prob: Tensor, log_probs: Tensor, mask: Tensor, baseline: float | None) -> Tensor:
    """The REINFORCE term for hard attention (Williams 1992; Xu et al. 2015, section 4.1).

    Its value is 0, and its gradient minus that of the expected log-probability of the target.

    sample_log_prob [B, T]: log-probability of the sampled positions, weighted; log_probs [B, T] of the target tokens,
    without gradient; mask [B, T] bool, False in padding. The reward of a sample is the sum of the log-probabilities of
    its token and all later ones, minus the baseline for each; without a baseline, minus the mean of these tokens.
    """
    usual = log_probs.sum() / mask.sum() if baseline is None else baseline
    advantage = (log_probs - usual).masked_fill(~mask, 0.0)
    rewards = advantage.flip(1).cumsum(1).flip(1)
    surrogate = -(rewards * sample_log_prob).sum()
    return surrogate - surrogate.detach()


def update_baseline(baseline: float | None, mean: float) -> float:
    """The baseline after an update with this mean log-probability per token."""
    return mean if baseline is None else BASELINE_MOMENTUM * baseline + (1 - BASELINE_MOMENTUM) * mean

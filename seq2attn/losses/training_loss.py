"""The training loss: label-smoothed cross-entropy, computed together with the output layer.

Shapes: B sentences, T target tokens, M target tokens of a batch, D width of the decoder, V target vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from seq2attn.data.collate import IGNORE_INDEX, Batch
from seq2attn.decoders.base import DecoderOutput
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig, guided_alignment_loss
from seq2attn.losses.scheduled_sampling import ScheduledSamplingConfig
from seq2attn.models import Seq2Seq
from seq2attn.nn.kernels.cross_entropy import chunk_rows, linear_cross_entropy, symmetric_kl
from seq2attn.tokenizers.vocabulary import BOS

MAX_LOSS = 700.0
"""Maximum loss per token, in nats, for which perplexity is finite."""


def perplexity(loss: float) -> float:
    """The perplexity of a loss per token, in nats."""
    return math.exp(min(loss, MAX_LOSS))


@dataclass(frozen=True)
class LossOutput:
    """Sums over target tokens, divided once by the number of tokens of the update."""

    loss: Tensor  # [] to minimize, with label smoothing and guided alignment
    negative_log_likelihood: Tensor  # [] for perplexity
    num_target_tokens: int
    guided_alignment: Tensor  # [] unweighted
    num_guided_tokens: Tensor  # [] long: number of aligned target tokens
    samples_attention: bool = False  # True for hard attention trained by REINFORCE

    @classmethod
    def zeros(cls, device: torch.device) -> LossOutput:
        """Sums of no micro-batch."""
        zero = torch.zeros((), device=device)
        return cls(zero, zero, 0, zero, zero.long())

    def add(self, other: LossOutput) -> LossOutput:
        """Sums of two micro-batches, without gradients."""
        return LossOutput(
            self.loss + other.loss.detach(),
            self.negative_log_likelihood + other.negative_log_likelihood.detach(),
            self.num_target_tokens + other.num_target_tokens,
            self.guided_alignment + other.guided_alignment.detach(),
            self.num_guided_tokens + other.num_guided_tokens,
            other.samples_attention,
        )

    def mean(self, other: LossOutput, extra: Tensor) -> LossOutput:
        """The mean of two losses of the same batch, and an `extra` term."""
        return replace(
            self,
            loss=(self.loss + other.loss) / 2 + extra,
            negative_log_likelihood=(self.negative_log_likelihood + other.negative_log_likelihood) / 2,
            guided_alignment=(self.guided_alignment + other.guided_alignment) / 2,
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
        self.r_drop = r_drop
        self.scheduled_sampling = scheduled_sampling

    def forward(self, batch: Batch, baseline: float | None = None, update: int = 0) -> LossOutput:
        """Cross-entropy of the labels [B, T] under teacher forcing, with the guided-alignment loss.

        `baseline` is the moving average of a token's log-probability, for REINFORCE; `update`: number of the update,
        for scheduled sampling.
        """
        if self.training and self.scheduled_sampling is not None:
            batch = self._replace_tokens(batch, self.scheduled_sampling.probability(update))
        decoded, hidden = self.decode(batch)
        loss = self._loss(batch, decoded, hidden, baseline)
        if not self.training or self.r_drop is None:
            return loss
        decoded, other_hidden = self.decode(batch)  # with other dropout
        divergence = symmetric_kl(hidden, other_hidden, self.model.output_projection)
        return loss.mean(self._loss(batch, decoded, other_hidden, baseline), self.r_drop / 2 * divergence)

    def decode(self, batch: Batch) -> tuple[DecoderOutput, Tensor]:
        """Output of the decoder, and the hidden vectors of the labels [M, D]."""
        decoded: DecoderOutput = self.model(
            batch.source,
            batch.sequences,
            batch.target,
            need_weights=self.guided_alignment is not None and batch.alignment_targets is not None,
            target_layout=batch.target_layout,
        )
        return decoded, label_hidden(batch, decoded)

    @torch.no_grad()
    def _replace_tokens(self, batch: Batch, probability: float) -> Batch:
        """The batch with some decoder inputs [B, T] replaced by the predictions of the model."""
        if not probability:
            return batch
        output = self.model.output_projection
        chunks = self.decode(batch)[0].hidden.flatten(0, 1).split(chunk_rows(output.weight))
        predicted = torch.cat([output(chunk).argmax(-1) for chunk in chunks]).view_as(batch.target).roll(1, 1)
        is_replaced = (torch.rand(predicted.shape, device=predicted.device) < probability) & (batch.target != BOS)
        return replace(batch, target=predicted.where(is_replaced, batch.target))

    def _loss(self, batch: Batch, decoded: DecoderOutput, hidden: Tensor, baseline: float | None) -> LossOutput:
        output, label_index = self.model.output_projection, batch.label_index
        labels = batch.labels.flatten().index_select(0, label_index)
        loss, log_probs = linear_cross_entropy(hidden, output.weight, output.bias, labels, self.label_smoothing)
        if decoded.sample_log_prob is not None:
            padded = log_probs.new_zeros(batch.labels.numel()).index_copy(0, label_index, log_probs)
            mask = batch.labels != IGNORE_INDEX
            loss = loss + reinforce_loss(decoded.sample_log_prob, padded.view_as(mask), mask, baseline)
        guided, num_guided = torch.zeros_like(loss), label_index.new_zeros(())
        if self.guided_alignment is not None and batch.alignment_targets is not None:
            assert decoded.cross_attention is not None, "checked before training"
            guided, num_guided = guided_alignment_loss(
                self.guided_alignment.select_attention(decoded.cross_attention), batch.alignment_targets
            )
            loss = loss + self.guided_alignment.weight * guided
        samples_attention = decoded.sample_log_prob is not None
        return LossOutput(loss, -log_probs.sum(), len(label_index), guided, num_guided, samples_attention)


def label_hidden(batch: Batch, decoded: DecoderOutput) -> Tensor:
    """Hidden vectors of the labels [M, D]."""
    return decoded.hidden.flatten(0, 1).index_select(0, batch.label_index)


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

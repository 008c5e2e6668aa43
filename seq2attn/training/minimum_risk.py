"""Minimum risk training: the expected cost of translations that the model samples (Shen et al. 2016).

Shapes: B sentences, K candidates of a sentence, N candidates of all, T target tokens.
"""

import math
from collections.abc import Sequence

import torch
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from seq2attn.data.collate import Batch, collate
from seq2attn.data.prepared_data import PreparedData
from seq2attn.experiment.evaluation_config import EvaluationConfig
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import MinimumRiskConfig
from seq2attn.losses.training_loss import LossOutput, TrainingLoss, label_hidden
from seq2attn.metrics.sacrebleu_metrics import MetricName
from seq2attn.models import Seq2Seq
from seq2attn.nn.decoding_state import select_rows
from seq2attn.nn.kernels.cross_entropy import label_log_probs
from seq2attn.search.search_config import LengthsConfig, SampleConfig
from seq2attn.search.strategies import NEG_INF
from seq2attn.search.translate_ids import TokenIds, default_batch_tokens, translate_ids
from seq2attn.tokenizers.base import Tokenizer

LENGTH_GROUPS = 4
"""Groups of candidates of similar length, which are padded to that of their longest."""


class MinimumRiskLoss(TrainingLoss):
    """A model and its expected cost in training, summed over sentences; in validation the cross-entropy.

    Candidates are sampled without dropout, and their probabilities computed with it.
    """

    def __init__(
        self, model: Seq2Seq, label_smoothing: float, config: MinimumRiskConfig, metric: Metric, target: Tokenizer
    ) -> None:
        """`label_smoothing` is for validation; `metric` has a sentence score of 0 to 100."""
        super().__init__(model, label_smoothing)
        self.config = config
        self.metric = metric
        self.target = target

    def forward(self, batch: Batch, baseline: float | None = None, update: int = 0) -> LossOutput:
        """The expected cost of the candidates of each sentence; see `TrainingLoss.forward`."""
        if not self.training:
            return super().forward(batch, baseline, update)
        sources = _sentences(batch.source, batch.sequences.mask)
        references = _sentences(batch.labels, batch.labels >= 0)
        candidates = self.sample(sources, references)
        log_probs = self.log_probs(batch, candidates)
        costs = torch.zeros_like(log_probs)
        for row, ids in enumerate(candidates):
            costs[row, : len(ids)] = torch.tensor(self.costs(ids))
        loss = expected_cost(log_probs, costs, self.config.alpha).sum()
        zero, none = torch.zeros_like(loss), batch.label_index.new_zeros(())
        return LossOutput(loss, -log_probs[:, 0].detach().sum(), len(batch.label_index), zero, none, False)

    def sample(self, sources: TokenIds, references: TokenIds) -> list[list[tuple[int, ...]]]:
        """The distinct candidates of each source, the reference first: ids without EOS."""
        longest = max(map(len, references))
        lengths = LengthsConfig(max_length=longest + longest // 2 + 10, max_length_ratio=None)
        seed = int(torch.randint(2**62, ()))
        search = SampleConfig(num_samples=self.config.num_samples, seed=seed, lengths=lengths)
        budget, prefixes = default_batch_tokens(self.model.device), [self.target.line_prefix] * len(sources)
        self.model.eval()
        samples = translate_ids(self.model, sources, search, budget=budget, prefixes=prefixes)
        self.model.train()
        return [
            list(dict.fromkeys([tuple(reference), *(sample.tokens for sample in sampled)]))
            for reference, sampled in zip(references, samples, strict=True)
        ]

    def log_probs(self, batch: Batch, candidates: Sequence[Sequence[tuple[int, ...]]]) -> Tensor:
        """The log-probability of each candidate [B, K], -inf where a sentence has fewer."""
        device, sums = batch.source.device, []
        encoded = self.model.encode(batch.source, batch.sequences)
        places = [(row, column) for row, ids in enumerate(candidates) for column in range(len(ids))]
        places.sort(key=lambda place: len(candidates[place[0]][place[1]]))
        group_size = math.ceil(len(places) / LENGTH_GROUPS)
        for start in range(0, len(places), group_size):
            group = places[start : start + group_size]
            memory, state = select_rows(encoded, torch.tensor([row for row, _ in group], device=device))
            pairs = collate([((), candidates[row][column]) for row, column in group]).to(device)
            decoded = self.model.decode(pairs.target, state, memory)
            labels = pairs.labels.flatten()[pairs.label_index]
            token_log_probs = label_log_probs(label_hidden(pairs, decoded), labels, self.model.output_projection)
            owners = pairs.label_index // pairs.labels.size(1)
            sums.append(token_log_probs.new_zeros(len(group)).index_add(0, owners, token_log_probs))
        rows, columns = torch.tensor(places, device=device).T
        all_sums = torch.cat(sums)
        shape = len(candidates), max(map(len, candidates))
        return all_sums.new_full(shape, NEG_INF).index_put((rows, columns), all_sums)

    def costs(self, candidates: Sequence[tuple[int, ...]]) -> list[float]:
        """The cost of each candidate, 0 to 1, against the text of the first."""
        reference, *others = [self.target.decode(ids) for ids in candidates]
        return [1 - self.metric.sentence_score(text, [reference]).score / 100 for text in (reference, *others)]


def _sentences(ids: Tensor, mask: Tensor) -> list[list[int]]:
    """The ids of each sentence without EOS and padding: [B, T], bool [B, T]"""
    lengths = (mask.sum(1) - 1).tolist()
    return [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]


def expected_cost(log_probs: Tensor, costs: Tensor, alpha: float) -> Tensor:
    """The expected cost of each sentence: log-probabilities [B, K], costs [B, K] -> [B]

    Shen et al. 2016, equation 13: the probability of a candidate is to the power of `alpha`, and normalized over the
    candidates. Those with a log-probability of -inf do not count.
    """
    return ((alpha * log_probs).softmax(1) * costs).sum(1)


def sentence_metric(evaluation: EvaluationConfig, name: MetricName, references: Sequence[str]) -> Metric:
    """sacreBLEU's metric for sentences, with the settings of `evaluation` for these references."""
    metric = evaluation.build(references).by_name[name]
    if isinstance(metric, BLEU):
        metric.effective_order = True  # n-grams that are longer than a sentence do not count
    return metric


def build_loss(model: Seq2Seq, experiment: ExperimentConfig, prepared: PreparedData) -> TrainingLoss:
    """The loss of a training, by its experiment."""
    training = experiment.training
    smoothing = training.label_smoothing
    if training.minimum_risk is None:
        return TrainingLoss(model, smoothing, training.guided_alignment, training.r_drop, training.scheduled_sampling)
    metric = sentence_metric(experiment.evaluation, training.minimum_risk.metric, prepared.dev_references[0])
    return MinimumRiskLoss(model, smoothing, training.minimum_risk, metric, prepared.target)

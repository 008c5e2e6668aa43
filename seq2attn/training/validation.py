"""Validation: loss, and scores of greedy translations, on the dev set."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import make_batch
from seq2attn.data.prepare import PreparedData
from seq2attn.evaluation.config import EvaluationConfig
from seq2attn.evaluation.metrics import MetricName
from seq2attn.io.files import sha256_json
from seq2attn.nn.linear import autocast
from seq2attn.search.config import GreedyConfig, LengthsConfig
from seq2attn.search.translate_ids import translate_ids
from seq2attn.training.config import TrainingConfig
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.loss import TrainingLoss

TRANSLATION_METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "exact")
"""Metrics of translations: all are computed if the dev set is translated."""


@dataclass(frozen=True)
class ValidationResult:
    """Scores and translations of one validation."""

    scores: dict[str, float]  # loss, perplexity, and if the dev set was translated bleu, chrf, exact
    signature: str | None  # of BLEU
    translations: dict[int, str]  # greedy, by row of the dev set


class Validator:
    """Validation of a model, always on the same sentences and with the same settings.

    The loss has label smoothing, as in training; perplexity has not.
    """

    def __init__(
        self, config: TrainingConfig, evaluation: EvaluationConfig, prepared: PreparedData, world: DistributedContext
    ) -> None:
        self.config, self.prepared, self.world = config.validation, prepared, world
        self.compiled = config.compile
        self.precision = config.precision if world.device.type == "cuda" else "float32"
        self.tokens = config.batch.require_tokens()
        self.rows = spread(len(prepared.dev), self.config.max_sentences)
        self.samples = [self.rows[place] for place in spread(len(self.rows), self.config.samples)]
        self.translated = self.samples if self.config.metric == "loss" else self.rows
        self.references = [[stream[row] for row in self.rows] for stream in prepared.dev_references]
        self.metrics = evaluation.build(self.references[0])
        lengths = LengthsConfig(max_length=self._max_length(), max_length_ratio=None)
        self.search = GreedyConfig(kind="greedy", lengths=lengths)
        sources = [prepared.dev_sources[row] for row in self.rows]
        settings = evaluation.model_dump(mode="json"), config.label_smoothing
        self.digest = sha256_json([sources, self.references, *settings])

    @torch.no_grad()
    def validate(self, objective: TrainingLoss) -> ValidationResult:
        """Scores of a model, computed by all processes together."""
        was_training = objective.training
        objective.eval()
        # Without gradients, and with padded batches, the model would be compiled again, for a minute or two.
        stance = torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()
        with autocast(self.precision, self.world.device), stance:
            scores = self._losses(objective)
            translations = self._translate(objective)
        objective.train(was_training)
        if self.config.metric == "loss":
            return ValidationResult(scores, None, translations)
        hypotheses = [translations[row] for row in self.rows]
        metrics = self.metrics.scores(hypotheses, self.references, TRANSLATION_METRICS)
        scores |= {name: score.value for name, score in zip(TRANSLATION_METRICS, metrics, strict=True)}
        return ValidationResult(scores, metrics[0].signature, translations)

    def format_samples(self, translations: dict[int, str]) -> str:
        """Dev sentences, evenly spread, with their translations."""
        return "\n".join(
            f"source:      {self.prepared.dev_sources[row]}\n"
            f"reference:   {self.prepared.dev_references[0][row]}\n"
            f"translation: {translations[row]}\n"
            for row in self.samples
        )

    def _losses(self, objective: TrainingLoss) -> dict[str, float]:
        dev, rows = self.prepared.dev, np.array(self.rows)
        smoothed = likelihood = num_tokens = 0.0
        batches = plan_batches(dev.lengths[rows], tokens=self.tokens, seed=0, epoch=0)
        for batch in batches[self.world.rank :: self.world.size]:
            loss = objective(make_batch(dev, rows[batch]).to(self.world.device))
            smoothed += float(loss.loss)
            likelihood += float(loss.negative_log_likelihood)
            num_tokens += float(loss.num_target_tokens)
        smoothed, likelihood, num_tokens = self.world.all_reduce_sum(smoothed, likelihood, num_tokens)
        return {"loss": smoothed / num_tokens, "perplexity": math.exp(min(likelihood / num_tokens, 700.0))}

    def _translate(self, objective: TrainingLoss) -> dict[int, str]:
        rows = self.translated[self.world.rank :: self.world.size]
        sources = [self.prepared.dev[row][0].tolist() for row in rows]
        prefixes = [self.prepared.target.line_prefix] * len(sources)
        hypotheses = translate_ids(objective.model, sources, self.search, budget=self.tokens, prefixes=prefixes)
        texts = {
            row: self.prepared.target.decode(best[0].tokens) if best else ""  # no hypothesis if nothing is finite
            for row, best in zip(rows, hypotheses, strict=True)
        }
        return {row: text for part in self.world.all_gather(texts) for row, text in part.items()}

    def _max_length(self) -> int:
        """Maximum length of a translation: 1.5 times that of the longest reference, plus 10 tokens.

        It limits the time for an untrained model, which does not predict EOS.
        """
        references = (text for stream in self.references for text in stream)
        longest = max((len(self.prepared.target.encode(text)) for text in references), default=0)
        return min(LengthsConfig().max_length, longest + longest // 2 + 10)


def spread(size: int, count: int | None) -> list[int]:
    """At most `count` of the numbers below `size`, evenly spread; all for None."""
    if count is None or count >= size:
        return list(range(size))
    return np.linspace(0, size - 1, count).astype(int).tolist()


def format_scores(scores: dict[str, float]) -> str:
    """Scores as text."""
    formats = {"loss": "loss {:.3f}", "perplexity": "ppl {:.2f}", "bleu": "BLEU {:.2f}", "chrf": "chrF {:.2f}"}
    names = ("loss", "perplexity", *TRANSLATION_METRICS)
    return "  ".join(formats.get(name, f"{name} {{:.2f}}").format(scores[name]) for name in names if name in scores)

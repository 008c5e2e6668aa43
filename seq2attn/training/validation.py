"""Validation: loss, and scores of greedy translations, on the dev set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepare import PreparedData
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.inference.engines.source_limit import model_source_limit
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.translator import Translator
from seq2attn.io.files import sha256_json
from seq2attn.losses.training_loss import TrainingLoss
from seq2attn.metrics.sacrebleu_metrics import MetricName
from seq2attn.nn.precision import autocast
from seq2attn.search.search_config import resolve_search
from seq2attn.training.distributed import DistributedContext

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

    The loss has label smoothing, as in training; perplexity has not. Translations are those of `evaluate --greedy`.
    """

    def __init__(self, experiment: ExperimentConfig, prepared: PreparedData, world: DistributedContext) -> None:
        config, evaluation = experiment.training, experiment.evaluation
        self.config, self.prepared, self.world = config.validation, prepared, world
        self.compiled = config.compile
        self.precision = config.precision if world.device.type == "cuda" else "float32"
        self.tokens, longest = config.batch.require_tokens(), max(experiment.data.filters.max_lengths)
        self.rows = spread(len(prepared.dev), self.config.max_sentences)
        # The attention of a pair takes memory by the product of its lengths: at most as that of a batch of long ones.
        longest = max(longest, math.isqrt(longest * self.tokens))
        self.pairs = Corpus.from_pairs(split_pairs(prepared.dev, self.rows, longest), 2**31)
        self.samples = [self.rows[place] for place in spread(len(self.rows), self.config.samples)]
        self.translated = self.samples if self.config.metric == "loss" else self.rows
        self.references = [[stream[row] for row in self.rows] for stream in prepared.dev_references]
        self.metrics = evaluation.build(*self.references)
        self.search = resolve_search(experiment.search, beam=None, greedy=True)
        self.source_limit = model_source_limit(experiment)
        sources = [prepared.dev_sources[row] for row in self.rows]
        search = self.search.model_dump(mode="json", exclude={"lengths": {"length_penalty", "alpha"}})
        settings = evaluation.model_dump(mode="json"), config.label_smoothing, search, self.source_limit.max_tokens
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
            translations = self._translate(objective) if math.isfinite(scores["loss"]) else {}
        objective.train(was_training)
        if self.config.metric == "loss" or not translations:
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
        smoothed = likelihood = num_tokens = 0.0
        batches = plan_batches(self.pairs.lengths, tokens=self.tokens, seed=0, epoch=0)
        for batch in batches[self.world.rank :: self.world.size]:
            loss = objective(make_batch(self.pairs, batch).to(self.world.device))
            smoothed += float(loss.loss)
            likelihood += float(loss.negative_log_likelihood)
            num_tokens += float(loss.num_target_tokens)
        smoothed, likelihood, num_tokens = self.world.all_reduce_sum(smoothed, likelihood, num_tokens)
        return {"loss": smoothed / num_tokens, "perplexity": math.exp(min(likelihood / num_tokens, 700.0))}

    def _translate(self, objective: TrainingLoss) -> dict[int, str]:
        rows = self.translated[self.world.rank :: self.world.size]
        source, target = self.prepared.source, self.prepared.target
        translator = Translator(objective.model, source, target, self.search, source_limit=self.source_limit)
        lines = [self.prepared.dev_sources[row] for row in rows]
        translations = translator.translate_iterable(lines, checker=InputChecker())
        texts = {row: translation.text for row, translation in zip(rows, translations, strict=True)}
        return {row: text for part in self.world.all_gather(texts) for row, text in part.items()}


def split_pairs(corpus: Corpus, rows: Sequence[int], max_length: int) -> Iterator[tuple[list[int], list[int]]]:
    """The pairs at `rows`; those with more than `max_length` tokens on a side in parts, equal shares of both sides."""
    for row in rows:
        count = max(1, -(-int(corpus.lengths[row].max()) // max_length))
        source, target = ([part.tolist() for part in np.array_split(side, count)] for side in corpus[row])
        yield from zip(source, target, strict=True)


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

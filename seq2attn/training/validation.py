"""Validation on the dev set: loss, scores of greedy translations, and the best validation so far."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from seq2attn.data.batch_planner import plan_batches
from seq2attn.data.collate import make_batch
from seq2attn.data.corpus import Corpus
from seq2attn.data.prepared_data import PreparedData
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.training_config import TrainingConfig
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.engines.source_limit import model_source_limit
from seq2attn.inference.input_checks import InputChecker
from seq2attn.inference.source_line import Member
from seq2attn.inference.translator import Translator
from seq2attn.io.files import sha256_json
from seq2attn.losses.training_loss import TrainingLoss, perplexity
from seq2attn.metrics.sacrebleu_metrics import MetricName
from seq2attn.nn.kernels.linear import ROW_MULTIPLE
from seq2attn.nn.precision import autocast
from seq2attn.search.search import SearchStep
from seq2attn.search.search_config import SearchConfig, greedy_search
from seq2attn.search.translate_ids import default_batch_tokens
from seq2attn.training.checkpoints.checkpoint import Checkpoint
from seq2attn.training.checkpoints.retention import rank, rank_checkpoints
from seq2attn.training.distributed import DistributedContext
from seq2attn.training.train_state import TrainState

TRANSLATION_METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "exact")
"""Metrics of translations: all are computed if the dev set is translated."""
ZERO_BLEU = 0.005
"""BLEU below which it is printed as 0.00."""
REPORT_SECONDS = 30.0  # between two log lines of a validation


@dataclass(frozen=True)
class ValidationResult:
    """Scores and translations of one validation."""

    scores: dict[str, float]  # loss, perplexity, and if the dev set was translated bleu, chrf, exact
    signature: str | None  # of BLEU
    translations: dict[int, str]  # greedy, by row of the dev set


class Validator:
    """Validation of a model, always on the same sentences and with the same settings.

    The loss has label smoothing, as in training; perplexity has not. Translations are those of
    `evaluate --greedy`; on a GPU, in the precision of the training.
    """

    def __init__(self, experiment: ExperimentConfig, prepared: PreparedData, distributed: DistributedContext) -> None:
        training, evaluation = experiment.training, experiment.evaluation
        self.config = training.validation
        self.prepared = prepared
        self.distributed = distributed
        self.is_compiled = training.compile
        self.precision = training.precision if distributed.device.type == "cuda" else "float32"
        self.tokens = training.batch.require_tokens()
        longest = max(experiment.data.filters.max_lengths)
        self.rows = spread(len(prepared.dev), self.config.max_sentences)
        # The attention of a pair takes memory by the product of its lengths: at most as that of a batch of long ones.
        longest = max(longest, math.isqrt(longest * self.tokens))
        self.pairs = Corpus.from_pairs(split_pairs(prepared.dev, self.rows, longest), 2**31)
        self.samples = [self.rows[place] for place in spread(len(self.rows), self.config.samples)]
        self.translated = self.samples if self.config.metric == "loss" else self.rows
        self.references = [[stream[row] for row in self.rows] for stream in prepared.dev_references]
        self.metrics = evaluation.build(*self.references)
        self.search = greedy_search(experiment.search)
        self.source_limit = model_source_limit(experiment)
        sources = [prepared.dev_sources[row] for row in self.rows]
        search = search_settings(self.search)
        settings = evaluation.model_dump(mode="json"), training.label_smoothing, search, self.source_limit.max_tokens
        self.digest = sha256_json([sources, self.references, *settings])

    def rank_again(self, state: TrainState, checkpoints: list[Checkpoint]) -> tuple[TrainState, list[str]]:
        """Notes for the log, and the state: by another metric, or settings of scores, with the best of the checkpoints.

        Checkpoints without comparable scores are not ranked. Patience restarts.
        """
        metric = self.config.metric
        warnings = self.metrics.warnings([] if metric == "loss" else [metric])
        notes = [line for line in [self.metrics.note, *warnings] if line]
        if (state.metric, state.validation_digest) == (metric, self.digest):
            return state, notes
        ranked = rank_checkpoints(checkpoints, metric, self.digest)
        best = ranked[0].train_state if ranked else TrainState()
        if checkpoints:
            reason = f"the metric is {metric} and was {state.metric}"
            if metric == state.metric:
                reason = "the dev set, or the settings of scores, have changed"
            result = f"the best is update {best.update:,}" if best.update else "there is no best one yet"
            notes.append(f"checkpoints are ranked again, and patience restarts ({reason}): {result}")
        if others := [f"{c.train_state.update:,}" for c in checkpoints if c not in ranked]:
            notes.append(f"warning: not ranked, without a comparable {metric}: update {', '.join(others)}")
        scores = state.scores if state.validation_digest == self.digest else {}  # a target is one on the new dev set
        state = replace(state, metric=metric, validation_digest=self.digest, scores=scores)
        state = replace(state, best_value=best.scores, best_update=best.update)
        return replace(state, validations_since_best=0, validations_since_lr_drop=0, zero_bleu=0), notes

    @torch.no_grad()
    def validate(self, loss_module: TrainingLoss) -> ValidationResult:
        """Scores of a model, computed by all processes together."""
        was_training, self.reported, self.num_begun = loss_module.training, time.monotonic(), 0
        loss_module.eval()
        # Without gradients, and with padded batches, the model would be compiled again, for a minute or two.
        stance = torch.compiler.set_stance("force_eager") if self.is_compiled else nullcontext()
        with autocast(self.precision, self.distributed.device), stance:
            scores = self._losses(loss_module)
            translations = self._translate(loss_module) if math.isfinite(scores["loss"]) else {}
        loss_module.train(was_training)
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

    def _losses(self, loss_module: TrainingLoss) -> dict[str, float]:
        smoothed = likelihood = num_tokens = 0.0
        batches = plan_batches(self.pairs.lengths, tokens=self.tokens, seed=0, epoch=0, row_multiple=ROW_MULTIPLE)
        batches = batches[self.distributed.rank :: self.distributed.size]
        for number, batch in enumerate(batches):
            self._report(f"loss of {number:,} of {len(batches):,} batches")
            loss = loss_module(make_batch(self.pairs, batch).to(self.distributed.device))
            smoothed += float(loss.loss)
            likelihood += float(loss.negative_log_likelihood)
            num_tokens += float(loss.num_target_tokens)
        smoothed, likelihood, num_tokens = self.distributed.all_reduce_sum(smoothed, likelihood, num_tokens)
        return {"loss": smoothed / num_tokens, "perplexity": perplexity(likelihood / num_tokens)}

    def _translate(self, loss_module: TrainingLoss) -> dict[int, str]:
        rows = self.translated[self.distributed.rank :: self.distributed.size]
        model = loss_module.model
        member = Member(model, self.prepared.tokenizers, self.source_limit)
        # An observer costs memory in each step, and a GPU does not take half a minute for a batch.
        engine = NativeEngine(model, observer=self._observe if model.device.type == "cpu" else None)
        translator = Translator((member,), self.search, engine, default_batch_tokens(model.device))
        lines = [self.prepared.dev_sources[row] for row in rows]
        translations = translator.translate_iterable(lines, checker=InputChecker())
        texts = {row: translation.text for row, translation in zip(rows, translations, strict=True)}
        return {row: text for part in self.distributed.all_gather(texts) for row, text in part.items()}

    def _observe(self, step: SearchStep) -> None:
        self.num_begun += len(step.before.sentences) * (step.number == 1)
        at = f"token {step.number:,} of at most {step.constraints.max_length:,}"
        total = len(self.translated[self.distributed.rank :: self.distributed.size])
        self._report(f"{min(self.num_begun, total):,} of {total:,} lines begun, {at}")  # a line may have several parts

    def _report(self, text: str) -> None:
        if time.monotonic() - self.reported >= REPORT_SECONDS:
            self.reported = time.monotonic()
            logging.getLogger("seq2attn").info(f"validating: {text}")


def search_settings(search: SearchConfig) -> dict[str, Any]:
    """The settings of a search on which scores of validations depend: greedy search has no length penalty."""
    return greedy_search(search).model_dump(mode="json", exclude={"lengths": {"length_penalty", "alpha"}})


def state_after_validation(
    state: TrainState, scores: dict[str, float], training: TrainingConfig
) -> tuple[TrainState, bool]:
    """The state after a validation, and True for the best so far: of equal ones the newest.

    Equal ones do not reset patience. A plateau lowers the learning rate, if that is its schedule.
    """
    metric, schedule = training.validation.metric, training.lr_schedule
    current, best = rank(scores, metric), rank(state.best_value, metric) if state.best_value else None
    is_best, is_better = best is None or current >= best, best is None or current > best
    is_zero = metric == "bleu" and scores["bleu"] < ZERO_BLEU and is_better  # with a lower loss
    since_drop = 0 if is_better else state.validations_since_lr_drop + 1
    is_plateau = schedule.kind == "plateau" and since_drop >= schedule.patience
    state = replace(
        state,
        last_validated_update=state.update,
        scores=scores,
        validations_since_best=0 if is_better else state.validations_since_best + 1,
        validations_since_lr_drop=0 if is_plateau else since_drop,
        num_lr_drops=state.num_lr_drops + is_plateau,
        zero_bleu=state.zero_bleu + 1 if is_zero else 0,
    )
    return (replace(state, best_value=scores, best_update=state.update) if is_best else state), is_best


def split_pairs(corpus: Corpus, rows: Sequence[int], max_length: int) -> Iterator[tuple[list[int], list[int]]]:
    """The pairs at `rows`; those with more than `max_length` tokens on a side in parts, equal shares of both sides."""
    for row in rows:
        count = max(1, -(-int(corpus.lengths[row].max()) // max_length))
        source, target = ([part.tolist() for part in np.array_split(side, count)] for side in corpus[row])
        yield from zip(source, target, strict=True)


def spread(size: int, count: int | None) -> list[int]:
    """At most `count` of the numbers below `size`, evenly spread; all for None."""
    return np.linspace(0, size - 1, size if count is None else min(size, count)).astype(int).tolist()


def format_scores(scores: dict[str, float]) -> str:
    """Scores as text."""
    formats = {"loss": "loss {:.3f}", "perplexity": "ppl {:.2f}", "bleu": "BLEU {:.2f}", "chrf": "chrF {:.2f}"}
    names = ("loss", "perplexity", *TRANSLATION_METRICS)
    return "  ".join(formats.get(name, f"{name} {{:.2f}}").format(scores[name]) for name in names if name in scores)

"""How good a model is on the dev set."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from seq2attn.data.batches import collate, plan
from seq2attn.data.prepare import Prepared
from seq2attn.evaluation.metrics import bleu
from seq2attn.model import Seq2Seq
from seq2attn.search.batched import translate_ids
from seq2attn.search.config import GreedyConfig
from seq2attn.training.config import Metric
from seq2attn.training.distributed import World
from seq2attn.training.objective import Objective


@dataclass(frozen=True)
class Validation:
    """What one validation found."""

    loss: float  # per target word, with label smoothing
    perplexity: float
    bleu: float
    signature: str
    translations: tuple[str, ...]  # of the dev set's sources, greedy

    def value(self, metric: Metric) -> float:
        """The number that decides."""
        return {"bleu": self.bleu, "loss": self.loss, "perplexity": self.perplexity}[metric]


def better(metric: Metric, new: float, old: float | None) -> bool:
    """Whether `new` is better than what there was."""
    return old is None or (new > old if metric == "bleu" else new < old)


@torch.no_grad()
def validate(objective: Objective, prepared: Prepared, tokens: int, world: World) -> Validation:
    """Loss, perplexity and BLEU of greedy translations; the processes share the work."""
    model: Seq2Seq = objective.model
    dev = prepared.dev
    was_training = objective.training
    objective.eval()
    smoothed = likelihood = words = 0.0
    for rows in plan(dev.lengths, tokens=tokens, seed=0, epoch=0)[world.rank :: world.size]:
        loss = objective(collate([dev[int(row)] for row in rows]).to(world.device))
        smoothed += float(loss.objective)
        likelihood += float(loss.negative_log_likelihood)
        words += float(loss.words)
    smoothed, likelihood, words = world.sum(smoothed, likelihood, words)
    mine = range(world.rank, len(dev), world.size)
    found = translate_ids(
        model, [dev[i][0].tolist() for i in mine], GreedyConfig(kind="greedy"), budget=tokens
    )
    texts = {
        i: prepared.target.decode(best[0].tokens) if best else ""  # nothing is best where nothing is a number
        for i, best in zip(mine, found, strict=True)
    }
    texts = {i: text for part in world.gather(texts) for i, text in part.items()}
    translations = tuple(texts[i] for i in range(len(dev)))
    score = bleu(translations, prepared.dev_references[0])
    objective.train(was_training)
    perplexity = math.exp(min(likelihood / words, 700.0))
    return Validation(smoothed / words, perplexity, score.value, score.signature, translations)


def samples(prepared: Prepared, found: Validation, count: int) -> str:
    """Some dev sentences, evenly spread, with what they were translated to."""
    rows = np.linspace(0, len(found.translations) - 1, count).astype(int).tolist()
    return "\n".join(
        f"source:      {prepared.dev_sources[row]}\n"
        f"reference:   {prepared.dev_references[0][row]}\n"
        f"translation: {found.translations[row]}\n"
        for row in dict.fromkeys(rows)
    )

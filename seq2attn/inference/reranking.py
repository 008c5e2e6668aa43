"""Reranking of n-best lists by other runs: from right to left (Liu et al. 2016), or of the other direction.

A hypothesis has the score of its search plus those of the runs, each times its weight. With runs from target to source
this is the noisy channel (Yee et al. 2019, equation 3, without a language model).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch

from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.scoring import score_pairs
from seq2attn.models import Seq2Seq
from seq2attn.options import TranslationOptions
from seq2attn.search.search import LengthPenalty
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair

TaggedLine = tuple[str, str]
"""The tag of a line, or an empty string, and its text."""


@dataclass(frozen=True)
class RerankRun:
    """A run for reranking, as the options `rerank` and `rerank_backward` give it."""

    folder: Path
    weight: float = 1.0
    is_backward: bool = False

    @classmethod
    def all_of(cls, options: TranslationOptions) -> list[Self]:
        """The runs of both options. Raises UserError for a weight that is negative or infinite."""
        forward = [cls.parse(text, is_backward=False) for text in options.rerank]
        return forward + [cls.parse(text, is_backward=True) for text in options.rerank_backward]

    @classmethod
    def parse(cls, text: str, *, is_backward: bool) -> Self:
        """The run of `RUN_DIR` or `RUN_DIR:WEIGHT`. Raises UserError for a weight that is negative or infinite."""
        folder, _, number = str(text).rpartition(":")
        try:
            weight = float(number) if folder else 1.0
        except ValueError:
            folder, weight = "", 1.0
        if not 0 <= weight < math.inf:
            raise UserError(f"``{_option(is_backward)}={text}``: the weight should be 0 or more, not {number}")
        return cls(Path(folder or text), weight, is_backward)

    def __str__(self) -> str:
        return f"{_option(self.is_backward)} {self.folder}:{self.weight:g}"

    @property
    def argument(self) -> str:
        """The option with this run, for messages."""
        return f"``{_option(self.is_backward)}={self.folder}:{self.weight:g}``"


def _option(is_backward: bool) -> str:
    return "rerank_backward" if is_backward else "rerank"


@dataclass(frozen=True)
class Reranker:
    """A model with its tokenizers that scores a translation given its source, or if `is_backward` the reverse."""

    model: Seq2Seq
    tokenizers: TokenizerPair
    weight: float
    is_backward: bool

    def scores(self, sources: Sequence[TaggedLine], texts: Sequence[str], penalty: LengthPenalty) -> list[float]:
        """The log-probability of each pair, as by `seq2attn score`, divided by the length penalty of its target."""
        if self.is_backward:
            pairs = [(text, source) for (_, source), text in zip(sources, texts, strict=True)]
        else:
            pairs = [(f"{tag} {source}".strip(), text) for (tag, source), text in zip(sources, texts, strict=True)]
        scored = list(score_pairs(self.model, self.tokenizers, pairs))
        lengths = torch.tensor([max(len(pair.tokens), 1) for pair in scored])
        return [pair.log_prob / by for pair, by in zip(scored, penalty.penalty(lengths).tolist(), strict=True)]


def rerank(
    rerankers: Sequence[Reranker],
    sources: Sequence[TaggedLine],
    ranked: Sequence[Sequence[Hypothesis]],
    penalty: LengthPenalty,
    decode: Callable[[Hypothesis], str],
) -> list[list[Hypothesis]]:
    """The hypotheses of each source with their sums of scores, best first; equal ones keep their order."""
    repeated = [source for source, hypotheses in zip(sources, ranked, strict=True) for _ in hypotheses]
    texts = [decode(one) for hypotheses in ranked for one in hypotheses]
    columns = [[one.weight * score for score in one.scores(repeated, texts, penalty)] for one in rerankers]
    added = iter([sum(scores) for scores in zip(*columns, strict=True)])
    scored = [[replace(one, score=one.score + next(added)) for one in hypotheses] for hypotheses in ranked]
    return [sorted(hypotheses, key=lambda one: -one.score) for hypotheses in scored]


def check_reranked_search(search: SearchConfig, place: str = "") -> None:
    """Raises UserError for a search with a single hypothesis, or with minimum Bayes risk."""
    if search.num_hypotheses == 1 or search.mbr:
        why = "this search finds one (``beam=5``)"
        if search.mbr:
            why = "minimum Bayes risk decoding by their similarity"
        raise UserError(f"{place}reranking orders several hypotheses by their scores, and {why}")


def load_rerankers(
    options: TranslationOptions,
    first_run: RunDirectory,
    tokenizers: TokenizerPair,
    search: SearchConfig,
    device: torch.device,
) -> tuple[Reranker, ...]:
    """The models that rerank the translations of `first_run`, which has these `tokenizers`.

    Raises UserError for a search with a single hypothesis or minimum Bayes risk, for another language than that of the
    run, and for a run of the other direction, with other tags, or imported for another language.
    """
    runs = RerankRun.all_of(options)
    if runs and options.to is not None:
        raise UserError(f"``{_option(runs[0].is_backward)}`` and ``to`` exclude each other")
    if runs:
        check_reranked_search(search, f"{runs[0].argument}: ")
    return tuple(_load_reranker(run, first_run, tokenizers, device) for run in runs)


def _load_reranker(
    run: RerankRun, first_run: RunDirectory, tokenizers: TokenizerPair, device: torch.device
) -> Reranker:
    other_run = RunDirectory(run.folder)
    _check_direction(run, other_run, first_run)
    loaded = other_run.load(device)
    expected = () if run.is_backward else tokenizers.source.tags
    if {*(tags := loaded.tokenizers.source.tags)} != {*expected}:
        known, wanted = (", ".join(names) or "none" for names in (tags, expected))
        raise UserError(f"{run.argument}: was trained with other tags than its input has: {known}, not {wanted}")
    _check_languages(run, loaded.tokenizers, tokenizers[::-1] if run.is_backward else tokenizers)
    return Reranker(loaded.model, loaded.tokenizers, run.weight, run.is_backward)


def _check_languages(run: RerankRun, tokenizers: Sequence[Tokenizer], scored: Sequence[Tokenizer]) -> None:
    """Raises UserError if `run` was imported for other languages than those of the `scored` text, which it knows."""
    for own, other in zip(tokenizers, scored, strict=True):
        imported, needed = own.line_tag, other.line_tag
        if imported and imported != needed and needed in own.languages.values():
            raise UserError(
                f"{run.argument}: was imported for `{imported}`, and the text is `{needed}`; import it again"
            )


def _check_direction(run: RerankRun, other_run: RunDirectory, first_run: RunDirectory) -> None:
    """Raises UserError if the training text of both runs shows that `run` has the other direction."""
    (sources, targets), (first_sources, first_targets) = (
        one.load_config().data.training_files for one in (other_run, first_run)
    )
    same = bool(sources & first_sources or targets & first_targets)
    reverse = bool(sources & first_targets or targets & first_sources)
    if same != reverse and reverse != run.is_backward:
        direction = "the same direction as" if same else "the other direction than"
        message = f"by the files of `data.train` it was trained in {direction} {first_run.folder}"
        raise UserError(f"{run.argument}: {message}; give ``{_option(not run.is_backward)}``")

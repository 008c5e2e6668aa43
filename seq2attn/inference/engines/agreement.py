"""Comparison of the translations and log-probabilities of two engines on the same sentences."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product, zip_longest
from typing import Self

import numpy as np
import torch
from tqdm import tqdm

from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import LoadedRun
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.io.tables import format_table
from seq2attn.search.search_config import BeamConfig, SearchConfig, greedy_search
from seq2attn.search.translate_ids import NOT_FINITE, Hypothesis, TokenIds
from seq2attn.tokenizers.vocabulary import EOS

MIN_AGREEMENT = 0.99
"""Share of equal tokens in greedy search that float32 weights need."""
MAX_FORCED_DIFFERENCE = 0.01
"""Largest difference of the log-probabilities of a sentence in float32."""
MAX_BATCH_TOKENS = 4096


@dataclass(frozen=True)
class SearchAgreement:
    """Agreement of two engines in one search."""

    search: str
    sentences: int
    token_agreement: float  # share of positions with the same token, EOS included
    sentence_agreement: float  # share of sentences with the same translation
    max_score_difference: float  # of sentences with the same translation
    mean_score_difference: float

    @classmethod
    def from_hypotheses(
        cls, search: str, native: Sequence[Sequence[Hypothesis]], exported: Sequence[Sequence[Hypothesis]]
    ) -> Self:
        """Agreement of the best hypotheses."""
        pairs = [(one[0], other[0]) for one, other in zip(native, exported, strict=True)]
        tokens = [pair for one, other in pairs for pair in zip_longest((*one.tokens, EOS), (*other.tokens, EOS))]
        scores = [(one.score, other.score) for one, other in pairs if one.tokens == other.tokens]
        return cls(
            search,
            len(pairs),
            sum(one == other for one, other in tokens) / max(len(tokens), 1),
            len(scores) / max(len(pairs), 1),
            *_max_and_mean_difference(scores),
        )


@dataclass(frozen=True)
class AgreementReport:
    """Agreement of two engines in several searches and in forced decoding; prints as a table."""

    searches: tuple[SearchAgreement, ...]
    max_forced_difference: float  # of log-probabilities of the same translations
    mean_forced_difference: float

    @property
    def is_same_model(self) -> bool:
        """True if greedy search and log-probabilities are those of the same model. Beams may end differently."""
        is_greedy_same = self.searches[0].token_agreement >= MIN_AGREEMENT
        return is_greedy_same and self.max_forced_difference <= MAX_FORCED_DIFFERENCE

    @property
    def other_searches(self) -> str | None:
        """A note on searches of the same model that find other translations; None without one."""
        others = [one for one in self.searches if self.is_same_model and one.token_agreement < MIN_AGREEMENT]
        shares = ", ".join(f"{one.token_agreement:.2%} of the tokens in {one.search}" for one in others)
        return f"the searches differ, and agree in {shares}; probabilities are the same" if others else None

    def check(self, problem: str) -> None:
        """Raises UserError with the `problem` unless both are the same model."""
        if not self.is_same_model:
            raise UserError(
                f"{problem}, so nothing was written: {self.searches[0].token_agreement:.2%} of the tokens agree in"
                f" greedy search, expected {MIN_AGREEMENT:.0%}, and log-probabilities to"
                f" {self.max_forced_difference:.1e}, expected {MAX_FORCED_DIFFERENCE}\n{self}"
            )

    def __str__(self) -> str:
        rows = [("search", "sentences", "tokens", "same", "score: largest", "mean difference")]
        for one in self.searches:
            shares = f"{one.token_agreement:.2%}", f"{one.sentence_agreement:.1%}"
            differences = f"{one.max_score_difference:.1e}", f"{one.mean_score_difference:.1e}"
            rows.append((one.search, str(one.sentences), *shares, *differences))
        forced = f"{self.max_forced_difference:.1e}", f"{self.mean_forced_difference:.1e}"
        return format_table([*rows, ("forced", "", "", "", *forced)])


def compare_engines(
    run: LoadedRun, exported: Engine, lines: Sequence[str], beam: BeamConfig, max_source_length: int | None
) -> AgreementReport:
    """Agreement of a run with another engine in greedy search and in a `beam`, on the first tokens of `lines`.

    Forced decoding is compared on the translations of the run by greedy search. The log-probabilities of all
    translations of the other engine are compared with it too: another search does not change them. Raises UserError if
    an engine gives no finite log-probabilities for a source.
    """
    native, tokenizers = NativeEngine(run.model), run.tokenizers
    searches: dict[str, SearchConfig] = {"greedy": greedy_search(beam), f"beam {beam.beam_size}": beam}
    sources = [tokenizers.source.encode(line)[:max_source_length] for line in lines]
    prefixes = [tokenizers.target.line_prefix] * len(sources)
    work = tqdm([*product((native, exported), searches.values())], "verification", unit=" searches", disable=None)
    outputs = [engine.translate(sources, search, budget=MAX_BATCH_TOKENS, prefixes=prefixes) for engine, search in work]
    hypotheses = outputs[: len(searches)], outputs[len(searches) :]
    for number, found in chain.from_iterable(enumerate(output, 1) for engine in hypotheses for output in engine):
        if not math.isfinite(found[0].log_prob):
            raise UserError(f"sentence {number} of the verification: {NOT_FINITE}")
    pairs = [(ids, best[0].tokens) for ids, best in zip(sources, hypotheses[0][0], strict=True) if len(ids)]
    forced = [map(sum, engine.token_log_probs(pairs, budget=MAX_BATCH_TOKENS)) for engine in (native, exported)]
    log_probs = list(zip(*forced, strict=True))
    for search, output in zip(searches.values(), hypotheses[1], strict=True):
        log_probs += _searched_and_forced(native, sources, search, [best[0] for best in output])
    difference = _max_and_mean_difference(log_probs)
    return AgreementReport(tuple(map(SearchAgreement.from_hypotheses, searches, *hypotheses)), *difference)


def _searched_and_forced(
    native: Engine, sources: TokenIds, search: SearchConfig, found: Sequence[Hypothesis]
) -> Iterator[tuple[float, float]]:
    """The log-probability of each hypothesis, and that by `native`; of the longest ones it may be without EOS."""
    longest = (search.lengths.limits(torch.tensor([len(ids) for ids in sources])).max_length - 1).tolist()
    rows = [row for row, ids in enumerate(sources) if len(ids)]
    forced = native.token_log_probs([(sources[row], found[row].tokens) for row in rows], budget=MAX_BATCH_TOKENS)
    for row, log_probs in zip(rows, forced, strict=True):
        total = found[row].log_prob
        totals = [sum(log_probs)]
        if len(found[row].tokens) >= longest[row]:
            totals.append(sum(log_probs[:-1]))
        yield total, min(totals, key=lambda one: abs(one - total))


def _max_and_mean_difference(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Largest and mean difference within pairs, NaN if one is; 0 without pairs."""
    differences = np.abs([one - other for one, other in pairs] or [0.0])
    return float(differences.max()), float(differences.mean())

"""Whether two engines translate the same: a few sentences on both sides, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from seq2attn.engines.base import Engine
from seq2attn.io.tables import format_table
from seq2attn.search.config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis

MIN_AGREEMENT = 0.99
"""The share of equal tokens below which two engines do not translate the same."""


@dataclass(frozen=True)
class SearchAgreement:
    """How alike two engines are in one search."""

    search: str
    sentences: int
    token_agreement: float  # share of positions with the same token, the ends counted
    sentence_agreement: float  # share of sentences with the same translation
    max_score_difference: float  # difference of scores where the translations are the same
    mean_score_difference: float

    @classmethod
    def from_hypotheses(
        cls, search: str, ours: Sequence[Sequence[Hypothesis]], theirs: Sequence[Sequence[Hypothesis]]
    ) -> SearchAgreement:
        """How alike the best hypotheses are."""
        pairs = [(one[0], other[0]) for one, other in zip(ours, theirs, strict=True)]
        equal = total = 0
        for one, other in pairs:
            both = list(zip_longest((*one.tokens, END_MARK), (*other.tokens, END_MARK), fillvalue=None))
            equal, total = equal + sum(a == b for a, b in both), total + len(both)
        alike = [(one.score, other.score) for one, other in pairs if one.tokens == other.tokens]
        largest, mean = max_and_mean_difference(alike)
        return cls(search, len(pairs), equal / max(total, 1), len(alike) / max(len(pairs), 1), largest, mean)


END_MARK = -1
"""Stands for the end of a hypothesis, which is not among its tokens."""


@dataclass(frozen=True)
class ForcedScoreDifference:
    """How alike the log-probabilities are that two engines give to the same translations."""

    largest: float
    mean: float


@dataclass(frozen=True)
class AgreementReport:
    """Agreement in all searches and in forced decoding; prints as a table."""

    searches: tuple[SearchAgreement, ...]
    forced: ForcedScoreDifference

    @property
    def min_token_agreement(self) -> float:
        """The least share of equal tokens."""
        return min(one.token_agreement for one in self.searches)

    def as_json(self) -> dict[str, Any]:
        """For the header of an export."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [("search", "sentences", "tokens", "same", "score: largest", "mean difference")]
        for one in self.searches:
            shares = f"{one.token_agreement:.2%}", f"{one.sentence_agreement:.1%}"
            rows.append(
                (
                    one.search,
                    str(one.sentences),
                    *shares,
                    f"{one.max_score_difference:.1e}",
                    f"{one.mean_score_difference:.1e}",
                )
            )
        rows.append(("forced", "", "", "", f"{self.forced.largest:.1e}", f"{self.forced.mean:.1e}"))
        return format_table(rows)


def compare_engines(
    ours: Engine,
    theirs: Engine,
    sources: Sequence[Sequence[int]],
    searches: Sequence[tuple[str, SearchConfig]],
    *,
    budget: int = 4096,
) -> AgreementReport:
    """Translate `sources` on both sides by each of the named `searches`.

    Both also score what ours found by the first search.
    """
    mine = [ours.translate(sources, search, budget=budget) for _, search in searches]
    other = [theirs.translate(sources, search, budget=budget) for _, search in searches]
    names = [name for name, _ in searches]
    read = [(source, best[0].tokens) for source, best in zip(sources, mine[0], strict=True) if len(source)]
    both = (map(sum, engine.token_log_probs(read, budget=budget)) for engine in (ours, theirs))
    forced = ForcedScoreDifference(*max_and_mean_difference(list(zip(*both, strict=True))))
    return AgreementReport(tuple(map(SearchAgreement.from_hypotheses, names, mine, other)), forced)


def max_and_mean_difference(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The largest and the mean difference within pairs; 0 if there are none."""
    gaps = [abs(one - other) for one, other in pairs]
    return max(gaps, default=0.0), sum(gaps) / max(len(gaps), 1)

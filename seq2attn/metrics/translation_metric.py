"""sacreBLEU's metrics, of translations with unknown words and of references that may be missing."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric, Score
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2attn.tokenizers.normalize import is_blank
from seq2attn.tokenizers.vocabulary import mark_unknown

References = Sequence[Sequence[str]]
"""Reference streams: `references[k][i]` is the k-th reference of sentence i. An empty one beside others is missing."""


class TranslationMetric(Metric):
    """The base of all metrics: all scores, also of single sentences and paired tests, are of these statistics."""

    def statistics(self, hypotheses: Sequence[str], references: References) -> NDArray[Any]:
        """Statistics that are summed over sentences, such as counts of n-grams: [sentences, statistics]"""
        return np.array(self._extract_corpus_statistics(hypotheses, references))

    def score(self, statistics: NDArray[Any]) -> Score:
        """The score of sentences with these statistics."""
        return cast("Score", self._aggregate_and_compute(statistics))  # type: ignore[arg-type]

    def _extract_corpus_statistics(self, hypotheses: Sequence[str], references: References | None) -> Any:
        return super()._extract_corpus_statistics([*map(mark_unknown, hypotheses)], references)

    def _cache_references(self, references: References) -> list[Any]:
        lines = [present_references(line) for line in zip(*references, strict=True)]
        return super()._cache_references([*zip(*lines, strict=True)])


def present_references(line: Sequence[str]) -> list[str | None]:
    """The references of a sentence; None, as sacreBLEU has it, for those that are empty while another is not."""
    has_text = not all(map(is_blank, line))
    return [None if has_text and is_blank(reference) else reference for reference in line]


class TranslationBLEU(TranslationMetric, BLEU):
    """sacreBLEU's BLEU."""


class TranslationCHRF(TranslationMetric, CHRF):
    """sacreBLEU's chrF and chrF++."""


class TranslationTER(TranslationMetric, TER):
    """sacreBLEU's TER."""

"""Minimum Bayes risk decoding: the translation that is most similar to all others, not the most likely one.

The expected chrF of a hypothesis is estimated from the hypotheses of a search (Kumar & Byrne 2004; Eikema & Aziz 2022).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.helpers import extract_all_char_ngrams

from seq2attn.search.search_config import SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.vocabulary import mark_unknown

Array = NDArray[Any]


def rank_by_expected_chrf(
    hypotheses: Sequence[Hypothesis], search: SearchConfig, decode: Callable[[Hypothesis], str]
) -> list[Hypothesis]:
    """Those with different texts, best first; the score is the expected chrF.

    Samples have equal weights, and hypotheses of a beam their probabilities.
    """
    texts = [*map(decode, hypotheses)]
    log_probs = np.array([0.0 if isinstance(search, SampleConfig) else one.log_prob for one in hypotheses])
    weights = np.exp(log_probs - log_probs.max())
    by_text = dict(zip(reversed(texts), reversed(hypotheses), strict=True))  # the first of each
    numbers = {text: number for number, text in enumerate(by_text)}
    shares = np.bincount([numbers[text] for text in texts], weights / weights.sum())
    scores = (pairwise_chrf([*map(mark_unknown, by_text)]) @ shares).tolist()
    ranked = [replace(one, score=score) for one, score in zip(by_text.values(), scores, strict=True)]
    return sorted(ranked, key=lambda one: (-one.score, -one.log_prob))


def pairwise_chrf(texts: Sequence[str]) -> Array:
    """sacreBLEU's sentence chrF of each text, with each as the reference: [n, n]"""
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for ngrams in zip(*(extract_all_char_ngrams(text, CHRF.CHAR_ORDER) for text in texts), strict=True):
        matches = _count_matches(ngrams)
        totals = matches.diagonal()
        in_both = np.outer(totals, totals) > 0
        matches, totals = matches * in_both, np.maximum(totals, 1)
        precision += matches / totals[:, None]
        recall += matches / totals
        orders += in_both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = CHRF.BETA**2 * precision + recall
    f_scores: Array = (1 + CHRF.BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return 100 * f_scores


def _count_matches(ngrams: Sequence[Counter[str]]) -> Array:
    """The n-grams that each two texts have in common, as often as in both: [n, n]

    Products of indicators: the k-th occurrence of an n-gram is in both texts if each has k of them.
    """
    columns: dict[tuple[str, int], int] = {}
    cells = [
        (row, columns.setdefault((ngram, occurrence), len(columns)))
        for row, counts in enumerate(ngrams)
        for ngram, count in counts.items()
        for occurrence in range(count)
    ]
    indicators = np.zeros((len(ngrams), len(columns)), dtype=np.float32)
    indicators[tuple(np.array(cells, dtype=int).reshape(-1, 2).T)] = 1
    return (indicators @ indicators.T).astype(np.float64)

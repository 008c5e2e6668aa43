"""Exact match and token error rate as metrics of sacreBLEU, for tasks with one correct output.

Use them for dates, digits or pronunciation, where outputs are too short for BLEU.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Score, Signature

from seq2attn.metrics.translation_metric import TranslationMetric
from seq2attn.version import __version__


class _Signature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info["case"] = "lc" if args["lowercase"] else "mixed"
        self.info["tok"] = args["tokens"]
        self.info["version"] = f"seq2attn-{__version__}"


class TokenErrorRate(TranslationMetric):
    """Token error rate: Levenshtein distance in percent of the tokens of the reference, without TER's shifts.

    With several references per sentence: the smallest distance, and the mean length, as in TER.
    `tokens` is `words` (separated by white space) or `char` (all characters except white space).
    """

    name = "token error rate"
    _SIGNATURE_TYPE = _Signature

    def __init__(self, *, tokens: str = "words", lowercase: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokens = tokens
        self.lowercase = lowercase

    def _preprocess_segment(self, sent: str) -> str:
        words = (sent.lower() if self.lowercase else sent).split()
        return " ".join("".join(words) if self.tokens == "char" else words)

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": [ref.split() for ref in refs]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        hypothesis_tokens, references = hypothesis.split(), ref_kwargs["references"]
        edits = min(edit_distance(hypothesis_tokens, reference) for reference in references)
        return [edits, sum(map(len, references)) / len(references)]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        edits, length = stats
        return Score(self.name, 100 * float(edits / length if length else edits > 0))

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))


class ExactMatch(TokenErrorRate):
    """Exact match: percentage of sentences equal to one of their references, apart from white space."""

    name = "exact match"

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [hypothesis.split() in ref_kwargs["references"], 1]


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """Levenshtein distance: insertions, deletions and substitutions, each of cost 1."""
    row = columns = np.arange(len(right) + 1)
    tokens = np.array(list(right), dtype=object)
    for token in left:
        row = np.append(row[0] + 1, np.minimum(row[1:] + 1, row[:-1] + (tokens != token)))
        row = np.minimum.accumulate(row - columns) + columns  # insertions from the left
    return int(row[-1])

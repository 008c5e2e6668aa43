"""Precision, recall and alignment error rate of links, compared with gold alignments."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass

from seq2attn.data.word_alignment import AlignmentLink, WordAlignment


@dataclass(frozen=True)
class AlignmentErrorRate:
    """Counts over sentences, which can be added (Och and Ney 2003, section 4.2).

    A: predicted links; S: sure gold links; P: possible gold links, including the sure ones.
    """

    num_links: int = 0  # |A|
    num_sure: int = 0  # |S|
    num_sure_hits: int = 0  # |A and S|
    num_possible_hits: int = 0  # |A and P|

    @classmethod
    def from_links(cls, links: Collection[AlignmentLink], gold: WordAlignment) -> AlignmentErrorRate:
        """Counts of one sentence."""
        predicted = set(links)
        return cls(len(predicted), len(gold.sure), len(predicted & gold.sure), len(predicted & gold.possible))

    def __add__(self, other: AlignmentErrorRate) -> AlignmentErrorRate:
        return AlignmentErrorRate(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        """Share of the predicted links that are possible; 1 without predicted links."""
        return self.num_possible_hits / self.num_links if self.num_links else 1.0

    @property
    def recall(self) -> float:
        """Share of the sure links that are predicted; 1 without sure links."""
        return self.num_sure_hits / self.num_sure if self.num_sure else 1.0

    @property
    def error_rate(self) -> float:
        """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|): 0 is perfect, 1 is all wrong."""
        total = self.num_links + self.num_sure
        return 1 - (self.num_sure_hits + self.num_possible_hits) / total if total else 0.0

    def __str__(self) -> str:
        return f"precision {self.precision:.1%}  recall {self.recall:.1%}  AER {self.error_rate:.1%}"

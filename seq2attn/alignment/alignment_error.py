"""How well found links agree with a gold alignment: precision, recall and alignment error rate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from seq2attn.data.word_alignment import AlignmentLink, WordAlignment


@dataclass(frozen=True)
class AlignmentErrorRate:
    """Counts over sentences, which can be added (Och and Ney 2003, section 4.2).

    A are the links found, S the sure ones of the gold alignment, and P its possible ones, the sure among them.
    """

    num_found: int = 0  # |A|
    num_sure: int = 0  # |S|
    num_found_sure: int = 0  # |A and S|
    num_found_possible: int = 0  # |A and P|

    @classmethod
    def from_links(cls, found: Collection[AlignmentLink], gold: WordAlignment) -> AlignmentErrorRate:
        """That of one sentence."""
        links = set(found)
        return cls(len(links), len(gold.sure), len(links & gold.sure), len(links & gold.possible))

    def __add__(self, other: AlignmentErrorRate) -> AlignmentErrorRate:
        return AlignmentErrorRate(
            self.num_found + other.num_found,
            self.num_sure + other.num_sure,
            self.num_found_sure + other.num_found_sure,
            self.num_found_possible + other.num_found_possible,
        )

    @property
    def precision(self) -> float:
        """The share of the links found that are possible; 1 where none was found."""
        return self.num_found_possible / self.num_found if self.num_found else 1.0

    @property
    def recall(self) -> float:
        """The share of the sure links that were found; 1 where there is none."""
        return self.num_found_sure / self.num_sure if self.num_sure else 1.0

    @property
    def error_rate(self) -> float:
        """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|): 0 is perfect, 1 is all wrong."""
        total = self.num_found + self.num_sure
        return 1 - (self.num_found_sure + self.num_found_possible) / total if total else 0.0

    def __str__(self) -> str:
        return f"precision {self.precision:.1%}  recall {self.recall:.1%}  AER {self.error_rate:.1%}"

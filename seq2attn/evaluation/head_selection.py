"""Cross-attention between words, and the attention head for word alignment: selection, and record in the run directory.

L layers, H heads, T target words, S source words: words separated by white space, not tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from seq2attn.data.word_alignment import AlignmentLink, WordAlignment, pair_word_ids, split_words
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.io.files import read_object, validate, write_json
from seq2attn.losses.guided_alignment import GuidedAlignmentConfig
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.tokenizers.base import TokenizerPair
from seq2attn.tokenizers.tokenized_text import pool_to_words

WordAttention: TypeAlias = NDArray[np.float32]
Step: TypeAlias = Literal["output", "input"]
STEPS: tuple[Step, ...] = ("output", "input")
"""Decoder steps of a target word: the step with the word as output, or as input (Chen et al. 2020)."""


def word_attention_weights(
    model: Seq2Seq, tokenizers: TokenizerPair, pairs: Sequence[tuple[str, str]]
) -> list[WordAttention | None]:
    """For each pair [2, L, H, T, S], output steps first; None for a pair with an empty side, or without attention.

    Weights of forced decoding, summed over a source word and averaged over a target word; those on the EOS and the tag
    of the source are dropped.
    """
    ids = [(tokenizers[0].encode(source), tokenizers[1].encode(target)) for source, target in pairs]
    rows = [row for row, sides in enumerate(ids) if all(sides)]
    output: list[WordAttention | None] = [None] * len(pairs)
    all_weights = cross_attention_weights(model, [ids[row] for row in rows])
    for row, weights in zip(rows, all_weights, strict=True):
        if weights is not None:
            source, target = pair_word_ids(tokenizers, pairs[row], ids[row])
            steps = np.stack([weights[:, :, : len(target)], weights[:, :, 1:]])[..., : len(source)]
            texts = (tokenizer.split_tag(line)[1] for tokenizer, line in zip(tokenizers, pairs[row], strict=True))
            num_sources, num_targets = (len(split_words(text)) for text in texts)
            output[row] = pool_to_words(steps, (target, num_targets), (source, num_sources))
    return output


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


ALIGNMENT_FILE = "alignment.json"
ALIGNMENT_HINT = "select again with `seq2attn align RUN_DIR --select-head`"


@dataclass(frozen=True)
class AttentionHead:
    """One head of one layer, or the mean of a layer's heads, at the decoder step whose output or input is the word."""

    layer: PositiveInt  # from 1, the lowest
    head: PositiveInt | Literal["mean"]  # from 1
    step: Step = "output"

    def select(self, weights: WordAttention) -> WordAttention:
        """[2, L, H, T, S] -> [T, S]"""
        layer = weights[STEPS.index(self.step), self.layer - 1]
        return cast("WordAttention", layer.mean(0) if self.head == "mean" else layer[self.head - 1])

    def links(self, weights: WordAttention | None) -> list[AlignmentLink]:
        """The link of each target word to the source word of largest weight (Garg et al. 2019, section 3).

        The first of equals; none for a word without weights, and for a pair without.
        """
        rows = () if weights is None else self.select(weights)
        return [(int(row.argmax()), word) for word, row in enumerate(rows) if row.any()]

    def exists_in(self, weights: WordAttention) -> bool:
        """True if the model of these weights has this head."""
        _, layers, heads, *_ = weights.shape
        return self.layer <= layers and (self.head == "mean" or self.head <= heads)

    def __str__(self) -> str:
        head = "the mean of the heads" if self.head == "mean" else f"head {self.head}"
        return f"{head} of layer {self.layer}, {self.step} step"


def all_heads(weights: WordAttention) -> list[AttentionHead]:
    """All candidates of weights [2, L, H, T, S]."""
    _, layers, heads, *_ = weights.shape
    names: list[int | Literal["mean"]] = [*range(1, heads + 1), *(["mean"] if heads > 1 else [])]  # type: ignore[list-item]
    return [AttentionHead(layer, name, step) for layer in range(1, layers + 1) for name in names for step in STEPS]


def default_head(weights: WordAttention, guided: GuidedAlignmentConfig | None) -> AttentionHead:
    """The head without a selection: the guided head, else the mean of the top layer's heads."""
    _, layers, heads, *_ = weights.shape
    if guided is not None:
        return AttentionHead(guided.resolve_layer(layers), guided.head)
    return AttentionHead(layers, "mean" if heads > 1 else 1)


def score_heads(pairs: Iterable[tuple[WordAttention | None, WordAlignment]]) -> dict[AttentionHead, AlignmentErrorRate]:
    """Error rates of all heads on gold alignments, best first, of equals the lowest layer and head first.

    Empty for a model without attention.
    """
    rates = dict[AttentionHead, AlignmentErrorRate]()
    unaligned = AlignmentErrorRate()
    for weights, gold in pairs:
        if weights is None:
            unaligned += AlignmentErrorRate.from_links([], gold)
            continue
        for head in rates or all_heads(weights):
            rate = AlignmentErrorRate.from_links(head.links(weights), gold)
            rates[head] = rates.get(head, AlignmentErrorRate()) + rate
    return dict(sorted(((head, rate + unaligned) for head, rate in rates.items()), key=lambda item: item[1].error_rate))


def save_selected_head(run: RunDirectory, rates: Mapping[AttentionHead, AlignmentErrorRate]) -> None:
    """Write the first head to the run, with the error rates of all."""
    names = ("precision", "recall", "error_rate")
    candidates = [asdict(head) | {name: getattr(rate, name) for name in names} for head, rate in rates.items()]
    content = {**candidates[0], "model": run.weights_origin(), "candidates": candidates}
    write_json(run.folder / ALIGNMENT_FILE, content)


def load_selected_head(run: RunDirectory) -> tuple[AttentionHead, bool] | None:
    """The selected head of a run, and True if it was selected for the present weights; None without a selection.

    Raises RunError for an invalid record.
    """
    path = run.folder / ALIGNMENT_FILE
    if not path.is_file():
        return None
    content = read_object(path, ALIGNMENT_HINT)
    values: dict[str, Any] = {key: content.get(key) for key in ("layer", "head", "step")}
    head = validate(AttentionHead, values, path, "has no valid layer, head and step", ALIGNMENT_HINT)
    return head, content.get("model") == run.weights_origin()

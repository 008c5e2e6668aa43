"""Attention weights with the tokens of their rows and columns: the content of pictures, pages and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seq2attn.errors import UserError
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.options import AttentionKind, ColorScale
from seq2attn.tokenizers.tokenized_text import TokenizedText, pool_to_words


@dataclass(frozen=True)
class ScaledWeights:
    """Weights on a color scale, and its legend."""

    values: NDArray[np.float32]  # [layers, heads, queries, keys], from 0 to `full`
    full: float  # the value with the full color
    legend: str  # unit of the values

    @property
    def shares(self) -> NDArray[np.float32]:
        """Shares of the full color, from 0 to 1, of the shape of `values`."""
        return np.clip(self.values / self.full, 0, 1)

    def number(self, share: float) -> str:
        """The value at a share of the full color, for a legend."""
        return f"{share * self.full:.2g}"


def scale_weights(weights: NDArray[np.float32], scale: ColorScale) -> ScaledWeights:
    """Weights [layers, heads, queries, keys] of all maps of a picture, on one color scale.

    The full color is the largest weight (`max`), the largest weight of each row (`row`), or 1 (`0-1`).
    """
    if scale == "row":
        tops: NDArray[np.float32] = weights.max(-1, keepdims=True)
        return ScaledWeights((weights / np.where(tops > 0, tops, 1)).astype(np.float32), 1.0, "weight/row max")
    largest = float(weights.max())
    full = largest if scale == "max" and largest > 0 else 1.0
    return ScaledWeights(weights, full, "weight")


KIND_NAMES: dict[AttentionKind, str] = {
    "cross": "cross-attention",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}
MEAN = "mean"  # in place of a head's number


@dataclass(frozen=True, repr=False)
class AttentionMap:
    """Attention weights from queries (rows) to keys (columns)."""

    kind: AttentionKind
    queries: TokenizedText
    keys: TokenizedText
    weights: NDArray[np.float32]  # [layers, heads, queries, keys]
    layers: tuple[str, ...]  # names: "1", "2" ...
    heads: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the shape. Raises ValueError."""
        sizes = tuple(map(len, (self.layers, self.heads, self.queries.tokens, self.keys.tokens)))
        if self.weights.shape != sizes:
            raise ValueError(f"weights are {self.weights.shape}, not {sizes}: [layers, heads, queries, keys]")

    def __repr__(self) -> str:
        return f"AttentionMap({self.kind}, {list(self.weights.shape)})"

    @classmethod
    def from_weights(cls, weights: AttentionWeights, kind: AttentionKind) -> AttentionMap:
        """All layers and heads of the cross-attention, or of the self-attention of encoder or decoder.

        Raises UserError for an unknown kind, or if the model has none of this kind.
        """
        if kind not in KIND_NAMES:
            raise UserError(f"there is no kind of attention `{kind}`; use {', '.join(KIND_NAMES)}")
        queries, keys, values = weights.by_kind(kind)
        if values is None:
            present = [name for name in KIND_NAMES if weights.by_kind(name)[2] is not None]
            hint = "".join(f"; it has {KIND_NAMES[name]} (``kind={name}``)" for name in present)
            raise UserError(f"there is no attention to draw: the model has no {KIND_NAMES[kind]}{hint}")
        layers, heads = (tuple(str(i + 1) for i in range(n)) for n in values.shape[:2])
        return cls(kind, queries, keys, values, layers, heads)

    def layer(self, layer: str | int) -> AttentionMap:
        """One layer, counted from 1, lowest first; or the `top` one, or `all`.

        Raises UserError when there is no such layer.
        """
        if layer == "all":
            return self
        place = len(self.layers) - 1 if layer == "top" else self._index("layer", layer, self.layers, "top or all")
        return replace(self, weights=self.weights[place : place + 1], layers=(self.layers[place],))

    def head(self, head: str | int) -> AttentionMap:
        """One head, counted from 1; or the `mean` of all, or `all`.

        Raises UserError when there is no such head.
        """
        if head == "all":
            return self
        if head == MEAN:
            name = MEAN if len(self.heads) > 1 else self.heads[0]
            return replace(self, weights=self.weights.mean(1, keepdims=True), heads=(name,))
        place = self._index("head", head, self.heads, "mean or all")
        return replace(self, weights=self.weights[:, place : place + 1], heads=(self.heads[place],))

    def whole_words(self) -> AttentionMap:
        """Weights between words: summed over the tokens of a key word, averaged over the tokens of a query word."""
        return self._pool(self.queries.join_words(), self.keys.join_words())

    def letters(self) -> AttentionMap:
        """Weights between tokens, as `whole_words`, with the bytes of a letter as one token."""
        return self._pool(self.queries.join_letters(), self.keys.join_letters())

    def _pool(self, *sides: tuple[TokenizedText, Sequence[int]]) -> AttentionMap:
        """Weights between other tokens of each side, given with the new token of each present one."""
        weights = pool_to_words(self.weights, *((indices, len(text.tokens)) for text, indices in sides))
        (queries, _), (keys, _) = sides
        return replace(self, queries=queries, keys=keys, weights=weights)

    def name(self, layer: int, head: int) -> str:
        """Title of one of the maps: `layer 2, head 1`."""
        name = self.heads[head]
        return f"layer {self.layers[layer]}, " + ("mean of heads" if name == MEAN else f"head {name}")

    def _index(self, unit: str, value: str | int, names: tuple[str, ...], others: str) -> int:
        if str(value) in names:
            return names.index(str(value))
        numbers = f"1 to {len(names)}" if len(names) > 1 else "1"
        raise UserError(
            f"there is no {unit} `{value}`: the {KIND_NAMES[self.kind]} has {len(names)}; use {numbers}, {others}"
        )

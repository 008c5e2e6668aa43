"""What a decoder's self-attention has read: one memory that the hypotheses of a sentence share.

Each word that a hypothesis reads becomes an entry of its sentence, for good. When hypotheses go on from others, only
what each may see is reordered, a bool an entry, and never a key or a value.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), G groups of keys, d the width of a head, T new words a
row, C entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import SharedState

KeyValue = tuple[Tensor, Tensor]
"""Two of [B, G, C, d]."""

INITIAL_CAPACITY = 16
"""For how many words of each hypothesis there is room at first; then for twice as many as are there."""


@dataclass
class CacheBuffer:
    """Where entries are written in place; `length` of it is spoken for."""

    layers: tuple[KeyValue, ...]  # as long as there is room
    length: int

    @classmethod
    def allocate(cls, layers: tuple[KeyValue, ...], new: int) -> CacheBuffer:
        """More room than for `new` entries after those of `layers`, which are copied."""
        entries = layers[0][0].size(2)
        capacity = max(2 * (entries + new), INITIAL_CAPACITY * new)
        return cls(tuple((_longer(k, capacity), _longer(v, capacity)) for k, v in layers), entries)

    def has_room(self, entries: int, new: int) -> bool:
        """Whether `new` entries can be written after the first `entries`, and nothing stands there already."""
        keys = self.layers[0][0]
        written = (
            keys.is_inference() and not torch.is_inference_mode_enabled()
        )  # and is not to be written again
        return self.length == entries and entries + new <= keys.size(2) and not written


@dataclass(frozen=True)
class KVCache(SharedState):
    """The entries of every layer, and which of them each hypothesis has read."""

    layers: tuple[KeyValue, ...]
    visibility: Tensor | None = None  # [N, C] bool; None where rows are sentences, which see all of their own
    buffer: CacheBuffer | None = None  # where `layers` lie, and more can be written

    def extend(self, steps: int) -> CacheUpdate:
        """Begin to add `steps` words of each row."""
        keys = self.layers[0][0]
        sentences, _, entries, _ = keys.shape
        new = steps * (1 if self.visibility is None else self.visibility.size(0) // sentences)
        mask, visible = self._seen(steps)
        room = None
        if entries and not torch.is_grad_enabled():
            room = self.buffer
            if room is None or not room.has_room(entries, new):
                room = CacheBuffer.allocate(self.layers, new)
            room.length = entries + new
        return CacheUpdate(self.layers, room, mask, visible, causal=not entries and mask is None)

    def _seen(self, steps: int) -> tuple[Tensor | None, Tensor | None]:
        """What the new words see, [B or 1, 1, K*T, C + K*T] or None for all, and `visibility` after them."""
        keys = self.layers[0][0]
        sentences, _, entries, _ = keys.shape
        if self.visibility is None:
            if not entries or steps == 1:
                return None, None
            seen = torch.ones(steps, entries + steps, dtype=torch.bool, device=keys.device)
            return seen.tril(entries)[None, None], None
        width = self.visibility.size(0) // sentences
        own = torch.eye(width, dtype=torch.bool, device=keys.device).repeat_interleave(steps, 1)
        visible = torch.cat([self.visibility, own.repeat(sentences, 1)], 1)
        seen = visible.view(sentences, 1, width, -1)
        if steps > 1:
            earlier = torch.ones(steps, entries + steps, dtype=torch.bool, device=keys.device).tril(entries)
            earlier = torch.cat([earlier[:, :entries], earlier[:, entries:].repeat(1, width)], 1)
            seen = (seen.unsqueeze(3) & earlier).flatten(2, 3)
        return seen, visible

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """As a plain structure, without the room."""
        visible = None if self.visibility is None else fn(self.visibility)
        return type(self)(tuple((fn(k), fn(v)) for k, v in self.layers), visible)

    def select_rows(self, rows: Tensor) -> Self:
        """Each row becomes a sentence."""
        if self.visibility is None:
            return self.map_tensors(lambda x: x.index_select(0, rows))
        width = self.visibility.size(0) // self.layers[0][0].size(0)
        sentences = rows // width
        layers = tuple((k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.layers)
        return type(self)(layers, self.visibility.index_select(0, rows))

    def repeat_rows(self, times: int) -> Self:
        """Only what is visible is repeated."""
        keys, visible = self.layers[0][0], self.visibility
        if visible is None:
            if times == 1:
                return self
            visible = torch.ones(keys.size(0), keys.size(2), dtype=torch.bool, device=keys.device)
        return type(self)(self.layers, visible.repeat_interleave(times, 0), self.buffer)

    def reorder(self, parent: Tensor) -> Self:
        """Each sees what its parent saw."""
        if self.visibility is None:
            return self
        visible = self.visibility.view(*parent.shape, -1)
        visible = visible.gather(1, parent.unsqueeze(2).expand(-1, -1, visible.size(2)))
        return type(self)(self.layers, visible.flatten(0, 1), self.buffer)

    def select_sentences(self, sentences: Tensor, width: int) -> Self:
        """With the room, which would have to be made anew."""
        entries, room = self.layers[0][0].size(2), self.buffer
        kept = tuple(
            (k.index_select(0, sentences), v.index_select(0, sentences))
            for k, v in (self.layers if room is None else room.layers)
        )
        visible = self.visibility
        if visible is not None:
            visible = visible.unflatten(0, (-1, width)).index_select(0, sentences).flatten(0, 1)
        if room is None:
            return type(self)(kept, visible)
        layers = tuple((k[:, :, :entries], v[:, :, :entries]) for k, v in kept)
        return type(self)(layers, visible, CacheBuffer(kept, entries))


@dataclass(frozen=True)
class CacheUpdate:
    """What is needed while the layers, one after the other, add their entries."""

    old_layers: tuple[KeyValue, ...]
    buffer: CacheBuffer | None
    mask: (
        Tensor | None
    )  # [B or 1, 1, K*T, C + K*T]: what the new words see; None for all, or what `causal` says
    visibility: Tensor | None
    causal: bool  # nothing was there before: each sees those up to itself

    def update_layer(self, index: int, new: KeyValue) -> KeyValue:
        """The entries of one layer, new ones [B, G, K*T, d] among them."""
        old = self.old_layers[index]
        entries, more = old[0].size(2), new[0].size(2)
        if not entries:
            return new
        if self.buffer is None:
            return torch.cat([old[0], new[0]], 2), torch.cat([old[1], new[1]], 2)
        keys, values = self.buffer.layers[index]
        for where, what in ((keys, new[0]), (values, new[1])):
            where.narrow(2, entries, more).copy_(what)
        return keys.narrow(2, 0, entries + more), values.narrow(2, 0, entries + more)

    def finish(self, layers: list[KeyValue]) -> KVCache:
        """What has been read when all layers have added theirs."""
        return KVCache(tuple(layers), self.visibility, self.buffer)


def _longer(x: Tensor, capacity: int) -> Tensor:
    """x [B, G, C, d] at the beginning of [B, G, capacity, d]"""
    longer = x.new_empty(*x.shape[:2], capacity, x.size(3))
    longer.narrow(2, 0, x.size(2)).copy_(x)
    return longer

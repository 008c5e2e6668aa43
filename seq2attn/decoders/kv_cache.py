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

from seq2attn.nn.decoding_state import Shared

KeysValues = tuple[Tensor, Tensor]
"""Two of [B, G, C, d]."""

FIRST_STEPS = 16
"""For how many words of each hypothesis there is room at first; then for twice as many as are there."""


@dataclass
class Room:
    """Where entries are written in place; `filled` of it is spoken for."""

    layers: tuple[KeysValues, ...]  # as long as there is room
    filled: int

    @classmethod
    def around(cls, layers: tuple[KeysValues, ...], new: int) -> Room:
        """More room than for `new` entries after those of `layers`, which are copied."""
        entries = layers[0][0].size(2)
        capacity = max(2 * (entries + new), FIRST_STEPS * new)
        return cls(tuple((_longer(k, capacity), _longer(v, capacity)) for k, v in layers), entries)

    def fits(self, entries: int, new: int) -> bool:
        """Whether `new` entries can be written after the first `entries`, and nothing stands there already."""
        keys = self.layers[0][0]
        written = (
            keys.is_inference() and not torch.is_inference_mode_enabled()
        )  # and is not to be written again
        return self.filled == entries and entries + new <= keys.size(2) and not written


@dataclass(frozen=True)
class Past(Shared):
    """The entries of every layer, and which of them each hypothesis has read."""

    layers: tuple[KeysValues, ...]
    visible: Tensor | None = None  # [N, C] bool; None where rows are sentences, which see all of their own
    room: Room | None = None  # where `layers` lie, and more can be written

    def add(self, steps: int) -> Adding:
        """Begin to add `steps` words of each row."""
        keys = self.layers[0][0]
        sentences, _, entries, _ = keys.shape
        new = steps * (1 if self.visible is None else self.visible.size(0) // sentences)
        mask, visible = self._seen(steps)
        room = None
        if entries and not torch.is_grad_enabled():
            room = self.room
            if room is None or not room.fits(entries, new):
                room = Room.around(self.layers, new)
            room.filled = entries + new
        return Adding(self.layers, room, mask, visible, causal=not entries and mask is None)

    def _seen(self, steps: int) -> tuple[Tensor | None, Tensor | None]:
        """What the new words see, [B or 1, 1, K*T, C + K*T] or None for all, and `visible` after them."""
        keys = self.layers[0][0]
        sentences, _, entries, _ = keys.shape
        if self.visible is None:
            if not entries or steps == 1:
                return None, None
            seen = torch.ones(steps, entries + steps, dtype=torch.bool, device=keys.device)
            return seen.tril(entries)[None, None], None
        width = self.visible.size(0) // sentences
        own = torch.eye(width, dtype=torch.bool, device=keys.device).repeat_interleave(steps, 1)
        visible = torch.cat([self.visible, own.repeat(sentences, 1)], 1)
        seen = visible.view(sentences, 1, width, -1)
        if steps > 1:
            earlier = torch.ones(steps, entries + steps, dtype=torch.bool, device=keys.device).tril(entries)
            earlier = torch.cat([earlier[:, :entries], earlier[:, entries:].repeat(1, width)], 1)
            seen = (seen.unsqueeze(3) & earlier).flatten(2, 3)
        return seen, visible

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """As a plain structure, without the room."""
        visible = None if self.visible is None else fn(self.visible)
        return type(self)(tuple((fn(k), fn(v)) for k, v in self.layers), visible)

    def select_rows(self, rows: Tensor) -> Self:
        """Each row becomes a sentence."""
        if self.visible is None:
            return self.map_tensors(lambda x: x.index_select(0, rows))
        width = self.visible.size(0) // self.layers[0][0].size(0)
        sentences = rows // width
        layers = tuple((k.index_select(0, sentences), v.index_select(0, sentences)) for k, v in self.layers)
        return type(self)(layers, self.visible.index_select(0, rows))

    def repeat_rows(self, times: int) -> Self:
        """Only what is visible is repeated."""
        keys, visible = self.layers[0][0], self.visible
        if visible is None:
            if times == 1:
                return self
            visible = torch.ones(keys.size(0), keys.size(2), dtype=torch.bool, device=keys.device)
        return type(self)(self.layers, visible.repeat_interleave(times, 0), self.room)

    def go_on_from(self, parent: Tensor) -> Self:
        """Each sees what its parent saw."""
        if self.visible is None:
            return self
        visible = self.visible.view(*parent.shape, -1)
        visible = visible.gather(1, parent.unsqueeze(2).expand(-1, -1, visible.size(2)))
        return type(self)(self.layers, visible.flatten(0, 1), self.room)

    def select_sentences(self, sentences: Tensor, width: int) -> Self:
        """With the room, which would have to be made anew."""
        entries, room = self.layers[0][0].size(2), self.room
        kept = tuple(
            (k.index_select(0, sentences), v.index_select(0, sentences))
            for k, v in (self.layers if room is None else room.layers)
        )
        visible = self.visible
        if visible is not None:
            visible = visible.unflatten(0, (-1, width)).index_select(0, sentences).flatten(0, 1)
        if room is None:
            return type(self)(kept, visible)
        layers = tuple((k[:, :, :entries], v[:, :, :entries]) for k, v in kept)
        return type(self)(layers, visible, Room(kept, entries))


@dataclass(frozen=True)
class Adding:
    """What is needed while the layers, one after the other, add their entries."""

    before: tuple[KeysValues, ...]
    room: Room | None
    mask: (
        Tensor | None
    )  # [B or 1, 1, K*T, C + K*T]: what the new words see; None for all, or what `causal` says
    visible: Tensor | None
    causal: bool  # nothing was there before: each sees those up to itself

    def layer(self, index: int, new: KeysValues) -> KeysValues:
        """The entries of one layer, new ones [B, G, K*T, d] among them."""
        old = self.before[index]
        entries, more = old[0].size(2), new[0].size(2)
        if not entries:
            return new
        if self.room is None:
            return torch.cat([old[0], new[0]], 2), torch.cat([old[1], new[1]], 2)
        keys, values = self.room.layers[index]
        for where, what in ((keys, new[0]), (values, new[1])):
            where.narrow(2, entries, more).copy_(what)
        return keys.narrow(2, 0, entries + more), values.narrow(2, 0, entries + more)

    def after(self, layers: list[KeysValues]) -> Past:
        """What has been read when all layers have added theirs."""
        return Past(tuple(layers), self.visible, self.room)


def _longer(x: Tensor, capacity: int) -> Tensor:
    """x [B, G, C, d] at the beginning of [B, G, capacity, d]"""
    longer = x.new_empty(*x.shape[:2], capacity, x.size(3))
    longer.narrow(2, 0, x.size(2)).copy_(x)
    return longer

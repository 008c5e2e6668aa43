"""KV cache of a decoder's self-attention, shared by the hypotheses of a sentence.

Each token of each hypothesis is an entry of its sentence and stays there. When beam search reorders hypotheses, only
the visibility mask is reordered, one bool per entry, and no key or value is copied.

Shapes: B sentences, N = B*K rows (K hypotheses a sentence), G heads of keys, d the width of a head, T new tokens
per row, C entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from seq2attn.nn.decoding_state import (
    SharedState,
    is_read_only,
    map_tensors,
    reorder_beams,
    select_rows,
    select_sentences,
)

KeyValue = tuple[Tensor, Tensor]
"""Keys and values, each [B, G, C, d]."""

INITIAL_CAPACITY = 16
"""Initial capacity in tokens per hypothesis; it is doubled when it is used up."""


@dataclass
class CacheBuffer:
    """Preallocated keys and values; the first `length` entries are in use."""

    layers: tuple[KeyValue, ...]  # of the length of the capacity
    length: int

    @classmethod
    def allocate(cls, layers: tuple[KeyValue, ...], new: int) -> CacheBuffer:
        """A buffer with a copy of the entries of `layers`, and room for more than `new` others, which are in use."""
        entries = layers[0][0].size(2)
        capacity = max(2 * (entries + new), INITIAL_CAPACITY * new)
        return cls(map_tensors(lambda x: _with_capacity(x, capacity), layers), entries + new)

    def reserve(self, entries: int, new: int) -> bool:
        """Reserve `new` entries after the first `entries`; False if they do not fit, or something is written there."""
        keys = self.layers[0][0]
        if self.length != entries or entries + new > keys.size(2) or is_read_only(keys):
            return False
        self.length += new
        return True


@dataclass(frozen=True)
class KVCache(SharedState):
    """Entries of every layer, and which of them belong to each hypothesis."""

    layers: tuple[KeyValue, ...]
    visibility: Tensor | None = None  # [N, C] bool; None where rows are sentences: all
    buffer: CacheBuffer | None = None  # of which `layers` are views

    def extend(self, steps: int) -> list[CachedLayer]:
        """Start an update with `steps` tokens of each row: each decoder layer appends its keys and values in turn."""
        keys = self.layers[0][0]
        sentences, _, entries, _ = keys.shape
        new = steps * (1 if self.visibility is None else self.visibility.size(0) // sentences)
        mask, visibility = self._masks(steps)
        buffer = None
        if entries and not torch.is_grad_enabled() and not torch.compiler.is_exporting():
            buffer = self.buffer
            if buffer is None or not buffer.reserve(entries, new):
                buffer = CacheBuffer.allocate(self.layers, new)
        shared = mask, visibility, not entries and mask is None, buffer
        return [CachedLayer(layer, number, *shared) for number, layer in enumerate(self.layers)]

    def finish(self, layers: Sequence[CachedLayer]) -> KVCache:
        """The cache after the update of all layers."""
        return KVCache(tuple(layer.entries for layer in layers), layers[0].visibility, layers[0].buffer)

    def _masks(self, steps: int) -> tuple[Tensor | None, Tensor | None]:
        """Mask of the new tokens, [B or 1, 1, K*T, C + K*T] or None for all, and the visibility after them."""
        keys = self.layers[0][0]
        sentences, _, entries, _ = keys.shape
        if self.visibility is None:
            if not entries or steps == 1:
                return None, None
            mask = torch.ones(steps, entries + steps, dtype=torch.bool, device=keys.device)
            return mask.tril(entries)[None, None], None
        beam_size = self.visibility.size(0) // sentences
        is_self = torch.eye(beam_size, dtype=torch.bool, device=keys.device).repeat_interleave(steps, 1)
        visibility = torch.cat([self.visibility, is_self.repeat(sentences, 1)], 1)
        mask = visibility.view(sentences, 1, beam_size, -1)
        if steps > 1:
            earlier = torch.ones(steps, entries + steps, dtype=torch.bool, device=keys.device).tril(entries)
            earlier = torch.cat([earlier[:, :entries], earlier[:, entries:].repeat(1, beam_size)], 1)
            mask = (mask.unsqueeze(3) & earlier).flatten(2, 3)
        return mask, visibility

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """A cache with `fn` applied to every tensor, without the buffer."""
        return type(self)(*map_tensors(fn, (self.layers, self.visibility)))

    def select_rows(self, rows: Tensor) -> Self:
        """Rows, each as a sentence."""
        beam_size = 1 if self.visibility is None else self.visibility.size(0) // self.layers[0][0].size(0)
        return type(self)(select_rows(self.layers, rows // beam_size), select_rows(self.visibility, rows))

    def repeat_rows(self, times: int) -> Self:
        """Shared entries, with the visibility repeated."""
        keys, visibility = self.layers[0][0], self.visibility
        if visibility is None:
            if times == 1:
                return self
            visibility = torch.ones(keys.size(0), keys.size(2), dtype=torch.bool, device=keys.device)
        return type(self)(self.layers, visibility.repeat_interleave(times, 0), self.buffer)

    def reorder(self, parent: Tensor) -> Self:
        """Visibility of the parents."""
        return type(self)(self.layers, reorder_beams(self.visibility, parent), self.buffer)

    def select_sentences(self, sentences: Tensor, beam_size: int) -> Self:
        """With the buffer, which need not be allocated again."""
        entries, buffer = self.layers[0][0].size(2), self.buffer
        selected = select_rows(self.layers if buffer is None else buffer.layers, sentences)
        views = map_tensors(lambda x: x[:, :, :entries], selected)
        buffer = None if buffer is None else CacheBuffer(selected, entries)
        return type(self)(views, select_sentences(self.visibility, sentences, beam_size), buffer)

    def with_fixed_capacity(self, steps: int) -> StaticKVCache:
        """A copy that is updated in place."""
        keys, visibility = self.layers[0][0], self.visibility
        sentences, _, entries, _ = keys.shape
        if visibility is None:
            visibility = torch.ones(sentences, entries, dtype=torch.bool, device=keys.device)
        length = torch.full((sentences,), entries, device=keys.device)
        return StaticKVCache(self.layers, visibility, length).with_fixed_capacity(steps)


class CachedLayer(NamedTuple):
    """Entries of one layer during an update, and how the new tokens attend to them and to each other."""

    entries: KeyValue
    number: int  # of the layer
    mask: Tensor | None  # [B or 1, 1, K*T, C + K*T], of the new tokens; None: all, or `causal`
    visibility: Tensor | None  # after the update
    causal: bool  # there were no entries: each token attends to those up to itself
    buffer: CacheBuffer | None = None
    new_entries: Tensor | None = None  # [K]: index of the new entries in a cache of fixed capacity

    def append(self, new: KeyValue) -> CachedLayer:
        """The layer with the new entries [B, G, K*T, d]."""
        keys, values = self.entries
        entries, more = keys.size(2), new[0].size(2)
        if self.new_entries is not None:
            for target, source in zip(self.entries, new, strict=True):
                target.index_copy_(2, self.new_entries, source.to(target.dtype))
            return self
        if not entries:
            return self._replace(entries=new)
        if self.buffer is None:
            return self._replace(entries=(torch.cat([keys, new[0]], 2), torch.cat([values, new[1]], 2)))
        keys, values = self.buffer.layers[self.number]
        for target, source in ((keys, new[0]), (values, new[1])):
            target.narrow(2, entries, more).copy_(source)
        return self._replace(entries=(keys.narrow(2, 0, entries + more), values.narrow(2, 0, entries + more)))


@dataclass(frozen=True)
class StaticKVCache(SharedState):
    """A KV cache of fixed capacity for CUDA graphs: shapes and addresses stay, and the position is on the device.

    New entries are written in place, one token of each row at a time.
    """

    layers: tuple[KeyValue, ...]  # of the length C of the capacity
    visibility: Tensor  # [N, C] bool
    length: Tensor  # [B]: number of entries in use, the same for all sentences

    def extend(self, steps: int) -> list[CachedLayer]:
        """Start an update with one token of each row."""
        assert steps == 1, "a static KV cache is extended token by token"
        (rows, capacity), sentences = self.visibility.shape, len(self.length)
        index = self.length[:1] + torch.arange(rows // sentences, device=self.length.device)  # [K]
        visibility = self.visibility.scatter(1, index.repeat(sentences).unsqueeze(1), True)
        mask = visibility.view(sentences, 1, -1, capacity)
        layers = map_tensors(torch.clone, self.layers) if is_read_only(self.layers[0][0]) else self.layers
        shared = mask, visibility, False, None, index
        return [CachedLayer(layer, number, *shared) for number, layer in enumerate(layers)]

    def finish(self, layers: Sequence[CachedLayer]) -> StaticKVCache:
        """The cache after the update of all layers."""
        new, visibility = len(self.visibility) // len(self.length), layers[0].visibility
        assert visibility is not None
        return StaticKVCache(tuple(layer.entries for layer in layers), visibility, self.length + new)

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """All tensors, each sentence by sentence."""
        return type(self)(*map_tensors(fn, (self.layers, self.visibility, self.length)))

    def select_rows(self, rows: Tensor) -> Self:
        """Rows, each as a sentence."""
        layers, length = select_rows((self.layers, self.length), rows // (len(self.visibility) // len(self.length)))
        return type(self)(layers, select_rows(self.visibility, rows), length)

    def repeat_rows(self, times: int) -> Self:
        """Shared entries, with the visibility repeated; the capacity is for fewer tokens."""
        return replace(self, visibility=self.visibility.repeat_interleave(times, 0))

    def reorder(self, parent: Tensor) -> Self:
        """Visibility of the parents."""
        return replace(self, visibility=reorder_beams(self.visibility, parent))

    def select_sentences(self, sentences: Tensor, beam_size: int) -> Self:
        """Copies of the sentences."""
        layers, length = select_rows((self.layers, self.length), sentences)
        return type(self)(layers, select_sentences(self.visibility, sentences, beam_size), length)

    def with_fixed_capacity(self, steps: int) -> Self:
        """A copy with more capacity, in all a multiple of 8, as PyTorch's attention needs of a mask."""
        (rows, capacity), sentences = self.visibility.shape, len(self.length)
        more = steps * (rows // sentences)
        more += -(capacity + more) % 8
        layers = map_tensors(lambda x: F.pad(x, (0, 0, 0, more)), self.layers)
        return replace(self, layers=layers, visibility=F.pad(self.visibility, (0, more)))


def _with_capacity(x: Tensor, capacity: int) -> Tensor:
    """x [B, G, C, d] copied to the beginning of [B, G, capacity, d]"""
    buffer = x.new_empty(*x.shape[:2], capacity, x.size(3))
    buffer.narrow(2, 0, x.size(2)).copy_(x)
    return buffer

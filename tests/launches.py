"""Number of kernels that a GPU would launch, counted on the meta device, which computes nothing."""

from __future__ import annotations

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode

NAMES = """
    alias as_strided chunk detach expand lift_fresh permute select slice split split_with_sizes squeeze t transpose
    unbind unfold unsqueeze view _unsafe_view empty empty_like empty_strided new_empty _reshape_alias
"""
NO_KERNEL = frozenset(NAMES.split())
"""What only looks at a tensor otherwise, or asks for memory."""


class Launches(TorchDispatchMode):
    """Counts what is called within it, backwards too, each call as one launch."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name = Counter[str]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name not in NO_KERNEL:
            self.by_name[name] += 1
        return func(*args, **(kwargs or {}))

    @property
    def count(self) -> int:
        return self.by_name.total()

"""Steps of a search in a CUDA graph, which launches all kernels of a step at once.

For few sentences the host takes ten times as long to launch the kernels of a step as the GPU to compute them. A CUDA
graph has fixed shapes and addresses: inputs are copied to the tensors that were used when it was captured, the KV cache
has a fixed capacity, and sentences that have finished leave unused rows.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from seq2attn.nn.decoding_state import is_read_only, map_tensors, tensors_of, with_fixed_capacity
from seq2attn.search.search import Step

INITIAL_STEPS = 32
"""Steps until the capacity of the state is doubled, and the step captured again."""
MAX_UNUSED = 4
"""The step is captured again when fewer than 1 in 4 rows are used."""


class CapturedStep:
    """The step function of one batch: captured when its shapes are new, and replayed.

    As in search, a state is continued once, and the outputs of a step are valid until the next.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._num_steps = self._room = 0  # steps so far, and until the capacity is used up
        self._static: Any = None  # the inputs with fixed addresses: tokens, state, memory
        self._memory: Any = None  # that was copied there
        self._replay: Callable[[], object] | None = None
        self._outputs: Any = None

    def __call__(self, tokens: Tensor, state: Any, memory: Any) -> tuple[Tensor, Any]:
        """Log-probabilities [N, V] and the next state."""
        self._num_steps += 1
        if self._num_steps == 1:  # it has one row per sentence, and the others K
            return self._step(tokens, state, memory)
        if not self._room:
            self._room = max(INITIAL_STEPS, self._num_steps)
            state = with_fixed_capacity(state, self._room)
        self._room -= 1
        if self._static is None or not _fits((tokens, state), self._static[:2]):
            self._static, self._memory = map_tensors(torch.clone, (tokens, state, memory)), memory
            self._replay = None
            return self._step(*self._static)  # libraries must have been initialized before a capture
        _copy((tokens, state), self._static[:2])
        if memory is not self._memory:
            _copy(memory, self._static[2])
            self._memory = memory
        if self._replay is None or is_read_only(tensors_of(self._outputs)[0]):
            self._replay, self._outputs = capture(partial(self._step, *self._static), tokens.device)
        self._replay()
        rows, all_rows = len(tokens), len(self._static[0])
        log_probs, state = map_tensors(lambda x: x[: x.size(0) * rows // all_rows], self._outputs)
        return log_probs, state


def capture(fn: Callable[[], Any], device: torch.device) -> tuple[Callable[[], object], Any]:
    """A function that computes `fn` again, and the outputs that it overwrites.

    It replays a CUDA graph. On a CPU it calls `fn`, for tests.
    """
    if device.type != "cuda":
        outputs = fn()
        return lambda: _copy(fn(), outputs), outputs
    graph, stream = torch.cuda.CUDAGraph(), capture_stream(device)
    with torch.cuda.device(device), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        outputs = fn()
    return graph.replay, outputs


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of all captures on a GPU, as cuBLAS keeps a workspace for each stream."""
    return torch.cuda.Stream(device)


def _fits(inputs: Any, static: Any) -> bool:
    """True if inputs have the shapes of `static`, which can be written, with at most as many rows, and not too few."""
    return all(
        x.shape[1:] == y.shape[1:] and x.size(0) <= y.size(0) < MAX_UNUSED * x.size(0) and not is_read_only(y)
        for x, y in zip(tensors_of(inputs), tensors_of(static), strict=True)
    )


def _copy(source: Any, target: Any) -> None:
    """Copy all tensors to the first rows of those of `target`; what is in place already is not copied."""
    for x, y in zip(tensors_of(source), tensors_of(target), strict=True):
        if x.data_ptr() != y.data_ptr():
            y[: x.size(0)].copy_(x)

"""Encoder and decoding step of any model as two ONNX graphs.

    encode    source [B, S], source_mask [B, S] -> memory.*, state.*
    step      tokens [B, K], memory.*, state.* -> log_probs [B, K, V], next.state.*

The tensors of memory and state are numbered in the order of `map_tensors`. Tensors of the state with a row for each
hypothesis are [B, K, ...], where K is 1 before the first token. Those that the hypotheses of a sentence share are
[B, ...], as the memory is, and are named shared.* instead of state.*.

Shapes: B sentences, K hypotheses per sentence, S source tokens, V target vocabulary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.export import AdditionalInputs, export

from seq2attn.encoders.base import Encoder, EncoderOutput
from seq2attn.encoders.recurrent import RecurrentEncoder
from seq2attn.inference.engines.onnx_engine import NEXT, SHARED, STATE, quiet
from seq2attn.models import Seq2Seq
from seq2attn.nn.decoding_state import map_tensors, repeat_rows, tensors_of
from seq2attn.nn.packing import Sequences
from seq2attn.tokenizers.vocabulary import BOS, UNK

Tree = TypeVar("Tree")
EXAMPLE_SIZES = (3, 2, 5), (4, 3, 7)
"""B, K and S of two examples; sizes that differ between them are dynamic."""
OPSET = 18
GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
"""PyTorch's gates in ONNX's order: update, reset, new; input, output, forget, new."""


class OnnxRecurrentEncoder(Encoder):
    """A `RecurrentEncoder` in eval mode, to be traced and not to be called."""

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.layers = nn.ModuleList(OnnxRNNLayer(encoder.rnn, layer) for layer in range(encoder.rnn.num_layers))
        self.key_dim, self.value_dim, self.final_dim = encoder.key_dim, encoder.value_dim, encoder.final_dim

    def forward(self, embedded: Tensor, sequences: Sequences, *, need_weights: bool = False) -> EncoderOutput:
        """embedded [B, S, E]; the final states of both directions are concatenated"""
        x, mask = embedded.transpose(0, 1), sequences.mask
        lengths = mask.sum(1, dtype=torch.int32)
        finals = list[tuple[Tensor, ...]]()
        for layer in self.layers:
            x, final = layer(x, lengths)
            finals.append(final)
        states = x.transpose(0, 1)
        return EncoderOutput(states, states, mask, tuple(torch.stack(part, 1) for part in zip(*finals, strict=True)))


class OnnxRNNLayer(nn.Module):
    """One layer in one or two directions."""

    input_weight: Tensor  # [directions, gates * D, E]
    hidden_weight: Tensor  # [directions, gates * D, D]
    bias: Tensor  # [directions, 2 * gates * D]

    def __init__(self, rnn: nn.GRU | nn.LSTM, layer: int) -> None:
        super().__init__()
        self.operator = "GRU" if isinstance(rnn, nn.GRU) else "LSTM"
        self.dim, self.directions = rnn.hidden_size, 2 if rnn.bidirectional else 1
        names = [f"l{layer}{suffix}" for suffix in ("", "_reverse")[: self.directions]]

        def stack(part: str) -> Tensor:
            """A weight of all directions, [directions, gates * D, ...], with the gates in ONNX's order."""
            gates = [getattr(rnn, f"{part}_{name}").detach().chunk(len(GATES[self.operator])) for name in names]
            return torch.stack([torch.cat([part[gate] for gate in GATES[self.operator]]) for part in gates])

        self.register_buffer("input_weight", stack("weight_ih"))
        self.register_buffer("hidden_weight", stack("weight_hh"))
        self.register_buffer("bias", torch.cat([stack("bias_ih"), stack("bias_hh")], 1))

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """x [S, B, E], lengths [B] int32 -> [S, B, directions * D], and the final h (and c) [B, directions * D]"""
        steps, sentences, _ = x.shape
        final = [self.directions, sentences, self.dim]
        shapes = [[steps, *final], *[final] * (1 if self.operator == "GRU" else 2)]
        direction = "bidirectional" if self.directions == 2 else "forward"
        attributes: dict[str, Any] = {"hidden_size": self.dim, "direction": direction}
        attributes |= {"linear_before_reset": 1} if self.operator == "GRU" else {}
        outputs, *finals = torch.onnx.ops.symbolic_multi_out(
            self.operator,
            (x, self.input_weight, self.hidden_weight, self.bias, lengths),
            attributes,
            dtypes=[x.dtype] * len(shapes),
            shapes=shapes,
            version=OPSET,
        )
        return outputs.transpose(1, 2).flatten(2), tuple(part.transpose(0, 1).flatten(1) for part in finals)


class EncodeGraph(nn.Module):
    """Encoder, memory, and the state of one hypothesis per sentence before the first token."""

    def __init__(self, model: Seq2Seq, is_shared: Sequence[bool]) -> None:
        super().__init__()
        self.model, self.is_shared = model, is_shared

    def forward(self, source: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        """source [B, S], mask [B, S] -> tensors of the memory, then of the state"""
        torch._check(source_mask.size(0) == source.size(0))
        torch._check(source_mask.size(1) == source.size(1))
        memory, state = self.model.encode(source, Sequences(source_mask))
        state = repeat_rows(state, 2)  # the state of a single hypothesis has no mask for a shared cache
        single = (x if shared else x[::2, None] for x, shared in zip(tensors_of(state), self.is_shared, strict=True))
        empty = (x.new_zeros(x.shape) if 0 in x.shape else x for x in single)
        return tuple(tensor.contiguous() for tensor in (*tensors_of(memory), *empty))


class StepGraph(nn.Module):
    """Decoding of one token of each hypothesis."""

    def __init__(self, model: Seq2Seq, is_shared: Sequence[bool], memory: Any, state: Any) -> None:
        """`memory`, `state`: of which the structure is used, not the tensors."""
        super().__init__()
        self.model, self.is_shared = model, is_shared
        self.memory, self.state = (map_tensors(lambda _: torch.empty(0), tree) for tree in (memory, state))

    def forward(self, tokens: Tensor, memory: list[Tensor], state: list[Tensor]) -> tuple[Tensor, ...]:
        """tokens [B, K], tensors of the memory and the state -> log-probabilities [B, K, V], tensors of the state"""
        for tensor in (*memory, *state):
            torch._check(tensor.size(0) == tokens.size(0))
        for tensor, shared in zip(state, self.is_shared, strict=True):
            torch._check(shared or tensor.size(1) == tokens.size(1))
        rows = (x if shared else x.flatten(0, 1) for x, shared in zip(state, self.is_shared, strict=True))
        inputs = tokens.flatten(), with_tensors(self.state, rows), with_tensors(self.memory, memory)
        log_probs, next_state = self.model.step(*inputs)
        next_tensors = split_rows(tensors_of(next_state), self.is_shared, tokens.shape)
        return log_probs.unflatten(0, tokens.shape), *(tensor.contiguous() for tensor in next_tensors)


@dataclass(frozen=True)
class Example:
    """Inputs of both graphs in the middle of a search."""

    source: tuple[Tensor, Tensor]  # [B, S], and its mask
    tokens: Tensor  # [B, K]
    memory: Any
    state: Any
    is_shared: tuple[bool, ...]  # of each tensor of the state: without a row for each hypothesis

    @classmethod
    def of_size(cls, model: Seq2Seq, b: int, k: int, s: int) -> Self:
        """For B sentences of different lengths up to S, with K hypotheses each."""
        source, tokens = torch.full((b, s), UNK), torch.full((b, k), BOS)
        mask = torch.arange(s) < torch.arange(s, s - b, -1)[:, None]
        memory, state = model.encode(source, Sequences(mask))
        _, state = model.step(tokens.flatten(), repeat_rows(state, k), memory)
        is_shared = tuple(tensor.size(0) != b * k for tensor in tensors_of(state))
        return cls((source, mask), tokens, memory, state, is_shared)

    @property
    def step(self) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Inputs of `StepGraph`."""
        state = split_rows(tensors_of(self.state), self.is_shared, self.tokens.shape)
        return self.tokens, tensors_of(self.memory), [tensor.contiguous() for tensor in state]


@dataclass(frozen=True)
class GraphExport:
    """A module, two examples of its inputs, and the names of its inputs and outputs."""

    module: nn.Module
    examples: tuple[Any, Any]
    inputs: Sequence[str]
    outputs: Sequence[str]

    @torch.no_grad()
    def save(self, path: Path) -> None:
        """Write the graph. Raises an exception of any class for a component that PyTorch cannot export."""
        first, second = self.examples
        sizes = AdditionalInputs()
        sizes.add(second)
        with quiet():
            graph = torch.onnx.export(
                export(self.module, first, dynamic_shapes=sizes.dynamic_shapes(self.module, first)),
                first,
                input_names=self.inputs,
                output_names=self.outputs,
                opset_version=OPSET,
                verbose=False,
            )
        assert graph is not None
        graph.save(path, external_data=False)


@torch.no_grad()
def build_graphs(model: Seq2Seq) -> tuple[GraphExport, GraphExport]:
    """`encode` and `step` of a model in eval mode, which cannot be called afterwards."""
    first, second = (Example.of_size(model, *sizes) for sizes in EXAMPLE_SIZES)
    memory = [f"memory.{i}" for i in range(len(tensors_of(first.memory)))]
    state = [f"{SHARED if shared else STATE}{i}" for i, shared in enumerate(first.is_shared)]
    if isinstance(model.encoder, RecurrentEncoder):
        model.encoder = OnnxRecurrentEncoder(model.encoder)
    encode, step = EncodeGraph(model, first.is_shared), StepGraph(model, first.is_shared, first.memory, first.state)
    next_state = [NEXT + name for name in state]
    return (
        GraphExport(encode, (first.source, second.source), ["source", "source_mask"], [*memory, *state]),
        GraphExport(step, (first.step, second.step), ["tokens", *memory, *state], ["log_probs", *next_state]),
    )


def with_tensors(tree: Tree, tensors: Iterable[Tensor]) -> Tree:
    """A state or a memory with other tensors, in the order of `map_tensors`."""
    others = iter(tensors)
    return map_tensors(lambda _: next(others), tree)


def split_rows(tensors: Iterable[Tensor], is_shared: Sequence[bool], shape: Sequence[int]) -> list[Tensor]:
    """Tensors of a state: [B, ...] where they are shared, [B*K, ...] -> [B, K, ...] for the others"""
    return [x if shared else x.unflatten(0, shape) for x, shared in zip(tensors, is_shared, strict=True)]

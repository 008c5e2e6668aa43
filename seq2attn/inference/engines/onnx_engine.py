"""Search with a model in ONNX Runtime: the search of this package over two graphs.

Only the coverage penalty is not supported.

Shapes: B sentences, K hypotheses per sentence, N = B*K rows, S source tokens, V target vocabulary.
"""

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Self

import torch
from torch import Tensor

from seq2attn.config.base import FieldError
from seq2attn.data.collate import collate, collate_source
from seq2attn.errors import RunError, UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.models.seq2seq import IdPairs
from seq2attn.nn.decoding_state import (
    SharedState,
    map_tensors,
    reorder_beams,
    repeat_rows,
    select_rows,
    select_sentences,
)
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds

ENGINE_NAME = "onnx"
ENCODE_FILE, STEP_FILE = "encode.onnx", "step.onnx"
STATE, SHARED, NEXT = "state.", "shared.", "next."
"""Prefixes of names: tensors of the state with a row for each hypothesis, for each sentence, and those after a step."""
DTYPE_KEY = "seq2attn.dtype"
"""Key of the data type of quantized weights in the metadata of a graph."""


class Graph:
    """A graph of named tensors, run on one CPU thread: batches are searched in parallel."""

    def __init__(self, path: Path) -> None:
        """Raises RunError for a file that ONNX Runtime cannot load."""
        onnxruntime = import_package("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # errors are exceptions as well
        self.path = path
        with run_errors(path):
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [tensor.name for tensor in self._session.get_inputs()]
        self.outputs = [tensor.name for tensor in self._session.get_outputs()]
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs by name."""
        with run_errors(self.path):
            arrays = self._session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        return dict(zip(self.outputs, map(torch.from_numpy, arrays), strict=True))


def import_package(name: str) -> ModuleType:
    """A package of the extra `onnx`. Raises UserError when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"this engine needs the package `{name}`: pip install 'seq2attn[onnx]'") from None


@contextmanager
def run_errors(path: Path) -> Iterator[None]:
    """Errors of ONNX Runtime, which have no common base class, as RunError."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise RunError(f"{path}: {' '.join(str(error).split())}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """No messages of exporter and quantizer, which are about their own parts; errors are raised."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class OnnxState(SharedState):
    """Decoding state as the tensors of a graph."""

    rows: Tensors  # [N, ...]
    shared: Tensors  # [B, ...]

    def map_tensors(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same with `fn` applied to every tensor."""
        return type(self)(map_tensors(fn, self.rows), map_tensors(fn, self.shared))

    def select_rows(self, rows: Tensor) -> Self:
        """Rows, each as a sentence."""
        beam_size = len(self.rows[0]) // len(self.shared[0]) if self.shared else 1
        return type(self)(select_rows(self.rows, rows), select_rows(self.shared, rows // beam_size))

    def repeat_rows(self, times: int) -> Self:
        """Each row `times` times."""
        return replace(self, rows=repeat_rows(self.rows, times))

    def reorder(self, parent: Tensor) -> Self:
        """The rows of the parents."""
        return replace(self, rows=reorder_beams(self.rows, parent))

    def select_sentences(self, sentences: Tensor, beam_size: int) -> Self:
        """Some sentences with their hypotheses."""
        return type(self)(select_sentences(self.rows, sentences, beam_size), select_rows(self.shared, sentences))

    def with_fixed_capacity(self, steps: int) -> Self:
        """Not needed: steps are captured on a GPU only."""
        raise NotImplementedError("the state of an exported model grows with each step")


class OnnxModel:
    """Both graphs of a model, with the methods that a search calls."""

    device = torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        """Raises RunError for files that `export` did not write."""
        self.encode_graph, self.step_graph = Graph(folder / ENCODE_FILE), Graph(folder / STEP_FILE)
        names = self.step_graph.inputs[1:]
        self.rows = [name for name in names if name.startswith(STATE)]
        self.shared = [name for name in names if name.startswith(SHARED)]
        self.memory = names[: len(names) - len(self.rows) - len(self.shared)]
        state = names[len(self.memory) :]
        found = [(graph.inputs, graph.outputs) for graph in (self.encode_graph, self.step_graph)]
        expected = (["source", "source_mask"], names), (["tokens", *names], ["log_probs", *(NEXT + x for x in state)])
        if found != [*expected] or not self.memory:
            raise RunError(f"{folder}: {ENCODE_FILE} and {STEP_FILE} do not fit together; export the run again")

    def encode_sources(self, sources: TokenIds) -> tuple[Tensors, OnnxState]:
        """Memory, and the state before the first token, of token ids without EOS."""
        ids, sequences = collate_source(sources)
        outputs = self.encode_graph.run({"source": ids, "source_mask": sequences.mask})
        return tuple(outputs[name] for name in self.memory), self._state(outputs)

    def step(self, ids: Tensor, state: OnnxState, memory: Tensors) -> tuple[Tensor, OnnxState]:
        """Decode one token [N] -> log-probabilities [N, V] of the next token, and the next state."""
        beams = len(memory[0]), -1
        inputs = {"tokens": ids.unflatten(0, beams)}
        inputs |= zip(self.memory, memory, strict=True)
        inputs |= zip(self.rows, (tensor.unflatten(0, beams) for tensor in state.rows), strict=True)
        inputs |= zip(self.shared, state.shared, strict=True)
        outputs = self.step_graph.run(inputs)
        return outputs["log_probs"].flatten(0, 1), self._state(outputs, NEXT)

    def token_log_probs(self, pairs: IdPairs) -> Tensor:
        """Log-probabilities of the target tokens and EOS of each pair [B, T], by forced decoding; then padding."""
        batch, log_probs = collate(pairs), list[Tensor]()
        memory, state = self.encode_sources([source for source, _ in pairs])
        for tokens, labels in zip(batch.target.unbind(1), batch.labels.clamp(min=0).split(1, 1), strict=True):
            next_log_probs, state = self.step(tokens, state, memory)
            log_probs.append(next_log_probs.gather(1, labels))
        return torch.cat(log_probs, 1)

    def _state(self, outputs: Mapping[str, Tensor], prefix: str = "") -> OnnxState:
        rows = (outputs[prefix + name].flatten(0, 1) for name in self.rows)
        return OnnxState(tuple(rows), tuple(outputs[prefix + name] for name in self.shared))


@dataclass(frozen=True)
class OnnxEngine(NativeEngine):
    """The search of this package over the graphs of an export."""

    name = ENGINE_NAME
    model: OnnxModel

    @property
    def description(self) -> str:
        """Name and precision, for reports."""
        return f"{self.name} {self.model.step_graph.metadata.get(DTYPE_KEY, 'float32')}"

    def unsupported(self, search: SearchConfig) -> list[FieldError]:
        """The coverage penalty, which needs attention weights."""
        message = "the graphs give no attention weights; use 0, or ``engine=native``"
        return [FieldError("search.coverage_penalty", message)] if search.coverage_penalty else []

    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each source, best first. Raises EngineError for a search that is `unsupported`."""
        self.check_search(search)
        return super().translate(sources, search, budget=budget, prefixes=prefixes, phrases=phrases)


def load_onnx(run: RunDirectory, folder: Path, device: torch.device) -> OnnxEngine:
    """The engine of an exported model. Raises UserError for another device than the CPU."""
    if device.type != "cpu":
        raise UserError(f"the engine {ENGINE_NAME} runs on the CPU only; give ``device=cpu``")
    return OnnxEngine(OnnxModel(folder))

"""ONNX files and ONNX Runtime, which are optional dependencies."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from seq2attn.errors import RunError, UserError

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

"""Weights of Hugging Face's encoder-decoders with the names of our model.

Layers differ in names only. The tables of embeddings and the output layer also differ in the order of their rows.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from seq2attn.errors import DataError
from seq2attn.io.weights import TensorSpec, tensor_specs, unique_state_dict
from seq2attn.tokenizers.vocabulary import BOS, PAD

OUR_SOURCE, OUR_TARGET = "source_embedding.embedding.weight", "target_embedding.embedding.weight"
OUR_OUTPUT, OUR_BIAS = "output_projection.weight", "output_projection.bias"
FORBIDDEN_LOGIT = -100.0
"""Bias of PAD and BOS, which the model did not have: their probability is zero."""
FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class WeightNames:
    """Names of a family's weights."""

    layers: tuple[tuple[str, str], ...]  # patterns of parts of our names in encoder and decoder, and parts of theirs
    shared: str  # embeddings
    source: str
    target: str
    output: str
    bias: str = ""  # of the output; empty where the family has none
    sinusoids: tuple[str, ...] = ()  # tables of computed positions, which a file may have
    unused: tuple[str, ...] = ()  # weights that a file may have, and that have no effect
    learned: tuple[str, ...] = ()  # tables of learned positions
    first_position: int = 0  # the row of the first position in these

    def layer(self, name: str) -> str:
        """The name of a weight of our encoder or decoder."""
        for ours, theirs in self.layers:
            name = re.sub(ours, theirs, name)
        return name


@dataclass(frozen=True)
class Weights:
    """Weights with their names in a file, which are read once their specs were checked."""

    specs: Mapping[str, TensorSpec]
    read: Callable[[], Mapping[str, Tensor]]

    @classmethod
    def in_memory(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Weights that were read already."""
        return cls(tensor_specs(tensors), lambda: tensors)


@dataclass(frozen=True)
class Tables:
    """Names and sizes of the tables, and which of them are one."""

    names: WeightNames
    source_size: int
    target_size: int
    dim: int
    shared: bool  # embeddings of source and target
    tied: bool  # target embeddings and output layer

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """For each of our tables its names in a file, the first of which counts."""
        names = self.names
        if self.shared and self.tied:
            all_names = (names.shared, names.source, names.target, names.output)
            return dict.fromkeys((OUR_SOURCE, OUR_TARGET, OUR_OUTPUT), all_names)
        if self.tied:
            target = (names.target, names.output)
            return {OUR_SOURCE: (names.source,), OUR_TARGET: target, OUR_OUTPUT: target}
        source, target = (names.source, names.shared), (names.target, names.shared)
        return {OUR_SOURCE: source, OUR_TARGET: target, OUR_OUTPUT: (names.output,)}

    def table(self, name: str, tensors: Mapping[str, Tensor]) -> Tensor:
        """One of our tables, with their rows."""
        return next(tensors[theirs] for theirs in self.groups[name] if theirs in tensors)

    def all_names(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tables of a file by all names of source, target and output."""
        ours = {OUR_SOURCE: self.names.source, OUR_TARGET: self.names.target, OUR_OUTPUT: self.names.output}
        return {theirs: self.table(name, tensors) for name, theirs in ours.items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all names."""
        target = self.target_size, self.dim
        tables = dict.fromkeys((self.names.shared, self.names.target, self.names.output), target)
        return {self.names.source: (self.source_size, self.dim), **tables, self.names.bias: (1, self.target_size)}


def read_tensors(
    folder: Path, weights: Weights, model: nn.Module, tables: Tables, compute: Callable[[], Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """The weights of the model in `folder`, in float32 and with their names there.

    `model`, perhaps on the meta device, is ours. `compute` gives weights that the files may lack. The specs are
    compared with the model before anything is read, and their tables before anything is computed.

    Raises DataError with the first weight that is missing, unknown, of another shape, or not finite.
    """
    specs = weights.specs
    parameters = {name: tuple(tensor.shape) for name, tensor in unique_state_dict(model).items()}
    for names in tables.groups.values():
        if not any(name in specs for name in names):
            raise DataError(f"{folder}: its weights lack `{names[0]}`")
    _check_shapes(folder, specs, tables.shapes())
    computed = compute()
    layers = {tables.names.layer(name): shape for name, shape in parameters.items() if "coder." in name}
    for name in tables.names.learned:
        layers[name] = layers[name][0] + tables.names.first_position, *layers[name][1:]
    _check_specs(folder, specs, layers, tables, computed)
    tensors = {**computed} | {name: tensor.float() for name, tensor in weights.read().items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise DataError(f"{folder}: `{name}` has values that are NaN or infinite")
    for names in tables.groups.values() if tables.tied else ():
        first, *others = [name for name in names if name in tensors]
        for other in others:
            if not torch.equal(tensors[first], tensors[other]):
                raise DataError(
                    f"{folder}: `{first}` and `{other}` differ, but config.json says that they are one table;"
                    " it was saved from a corrupt model: look for a newer one"
                )
    return tensors


def _check_specs(
    folder: Path,
    specs: Mapping[str, TensorSpec],
    required: Mapping[str, tuple[int, ...]],
    tables: Tables,
    computed: Collection[str],
) -> None:
    if missing := [name for name in required if name not in specs and name not in computed]:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"{folder}: its weights lack `{missing[0]}`{more}")
    known = {**tables.shapes(), **required}
    for name, spec in specs.items():
        if name in (*tables.names.sinusoids, *tables.names.unused) and name not in required:
            continue
        if name not in known:
            raise DataError(f"{folder}: its weights have `{name}`, which is not of this architecture")
        if spec.dtype not in FLOAT_DTYPES:
            raise DataError(f"{folder}: `{name}` is of {spec.dtype}, expected one of {', '.join(FLOAT_DTYPES)}")
    _check_shapes(folder, specs, known)


def _check_shapes(folder: Path, specs: Mapping[str, TensorSpec], shapes: Mapping[str, tuple[int, ...]]) -> None:
    for name, spec in specs.items():
        if name in shapes and spec.shape != shapes[name]:
            expected = TensorSpec(spec.dtype, shapes[name])
            raise DataError(f"{folder}: `{name}` is {spec}, and {expected} by config.json")


def convert_weights(
    tensors: Mapping[str, Tensor], model: nn.Module, tables: Tables, rows: tuple[Sequence[int], Sequence[int]]
) -> dict[str, Tensor]:
    """The weights of our `model`, perhaps on the meta device; `rows`: their id of each of our ids of both sides.

    PAD and BOS are never in the output.
    """
    source, target = (torch.tensor(side) for side in rows)
    weights = {}
    for name in unique_state_dict(model):
        if name in tables.groups:
            weights[name] = tables.table(name, tensors)[source if name == OUR_SOURCE else target]
        elif name == OUR_BIAS:
            bias = tensors[tables.names.bias][0] if tables.names.bias in tensors else torch.zeros(tables.target_size)
            weights[name] = bias[target].index_fill(0, torch.tensor([PAD, BOS]), FORBIDDEN_LOGIT)
        else:
            theirs = tables.names.layer(name)
            weights[name] = tensors[theirs][tables.names.first_position if theirs in tables.names.learned else 0 :]
    return weights

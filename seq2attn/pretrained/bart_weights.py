"""Weights of Hugging Face's encoder-decoders that descend from BART (Marian among them), with the names of our model.

Layers differ in names only. The tables of embeddings and the output layer also differ in the order of their rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from seq2attn.errors import DataError
from seq2attn.io.hf_folder import read_hf_specs, read_hf_tensors
from seq2attn.io.weights import TensorSpec, unique_state_dict
from seq2attn.nn.layers import SinusoidalPositionEncoding
from seq2attn.tokenizers.vocabulary import BOS, PAD

LAYER_NAMES = (
    ("self_attention_residual.norm", "self_attn_layer_norm"),
    ("cross_attention_residual.norm", "encoder_attn_layer_norm"),
    ("feed_forward_residual.norm", "final_layer_norm"),
    ("self_attention", "self_attn"),
    ("cross_attention", "encoder_attn"),
    ("score.query_proj", "q_proj"),
    ("score.key_proj", "k_proj"),
    ("value_proj", "v_proj"),
    ("output_proj", "out_proj"),
    ("feed_forward.up_proj", "fc1"),
    ("feed_forward.down_proj", "fc2"),
    ("coder.norm", "coder.layer_norm"),
)
"""Parts of our names, and theirs."""
SHARED, LM_HEAD, BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
OUR_SOURCE, OUR_TARGET = "source_embedding.embedding.weight", "target_embedding.embedding.weight"
OUR_OUTPUT, OUR_BIAS = "output_projection.weight", "output_projection.bias"
FORBIDDEN_LOGIT = -100.0
"""Bias of PAD and BOS, which the model did not have: their probability is zero."""
FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class BartTables:
    """Sizes of the tables, and which of them are one."""

    source_size: int
    target_size: int
    dim: int
    shared: bool  # embeddings of source and target
    tied: bool  # target embeddings and output layer

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """For each of our tables its names in a file, the first of which counts."""
        if self.shared and self.tied:
            return dict.fromkeys((OUR_SOURCE, OUR_TARGET, OUR_OUTPUT), (SHARED, SOURCE, TARGET, LM_HEAD))
        if self.tied:
            return {OUR_SOURCE: (SOURCE,), OUR_TARGET: (TARGET, LM_HEAD), OUR_OUTPUT: (TARGET, LM_HEAD)}
        return {OUR_SOURCE: (SOURCE, SHARED), OUR_TARGET: (TARGET, SHARED), OUR_OUTPUT: (LM_HEAD,)}

    def table(self, name: str, tensors: Mapping[str, Tensor]) -> Tensor:
        """One of our tables, with their rows."""
        return next(tensors[other] for other in self.groups[name] if other in tensors)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all names."""
        target = self.target_size, self.dim
        return {SOURCE: (self.source_size, self.dim), SHARED: target, TARGET: target, LM_HEAD: target}


def hf_name(name: str) -> str:
    """The name of a weight of our encoder or decoder in a file of Hugging Face."""
    for ours, theirs in LAYER_NAMES:
        name = name.replace(ours, theirs)
    return f"model.{name}"


def read_bart_tensors(folder: Path, weights: Path, model: nn.Module, tables: BartTables) -> dict[str, Tensor]:
    """The weights in the folder `weights`, in float32 and with their names there; `folder` is that of the model.

    `model`, perhaps on the meta device, is ours. The headers are compared with the model before anything is read.

    Raises: DataError with the first weight that is missing, unknown, of another shape, or not finite.
    """
    specs = read_hf_specs(weights)
    layers = {hf_name(name): tuple(t.shape) for name, t in unique_state_dict(model).items() if "coder." in name}
    for names in tables.groups.values():
        if not any(name in specs for name in names):
            raise DataError(f"{folder}: its weights lack `{names[0]}`")
    optional = {**tables.shapes(), BIAS: (1, tables.target_size)}
    _check_specs(folder, specs, layers, optional)
    tensors = {name: tensor.float() for name, tensor in read_hf_tensors(weights).items()}
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
    optional: Mapping[str, tuple[int, ...]],
) -> None:
    if missing := [name for name in required if name not in specs]:
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(f"{folder}: its weights lack `{missing[0]}`{more}")
    for name, spec in specs.items():
        shape = required.get(name) or optional.get(name)
        if shape is None and name in POSITIONS:
            continue
        if shape is None:
            raise DataError(f"{folder}: its weights have `{name}`, which is not of this architecture")
        if spec.shape != shape:
            expected = TensorSpec(spec.dtype, shape)
            raise DataError(f"{folder}: `{name}` is {spec}, and {expected} by config.json")
        if spec.dtype not in FLOAT_DTYPES:
            raise DataError(f"{folder}: `{name}` is of {spec.dtype}, expected one of {', '.join(FLOAT_DTYPES)}")


def convert_bart_weights(
    tensors: Mapping[str, Tensor], model: nn.Module, tables: BartTables, rows: tuple[Sequence[int], Sequence[int]]
) -> dict[str, Tensor]:
    """The weights of our `model`, perhaps on the meta device; `rows`: their id of each of our ids of both sides.

    PAD and BOS are never in the output.
    """
    source, target = (torch.tensor(side) for side in rows)
    weights = {}
    for name in unique_state_dict(model):
        if name in tables.groups:
            table = tables.table(name, tensors)
            weights[name] = table[source if name == OUR_SOURCE else target]
        elif name == OUR_BIAS:
            bias = tensors[BIAS][0] if BIAS in tensors else torch.zeros(tables.target_size)
            weights[name] = bias[target].index_fill(0, torch.tensor([PAD, BOS]), FORBIDDEN_LOGIT)
        else:
            weights[name] = tensors[hf_name(name)]
    return weights


def check_positions(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raises DataError for a table of positions in the file that is not of either formula."""
    for name in POSITIONS:
        if name in tensors:
            table = tensors[name]
            for wavelengths in ("tensor2tensor", "paper"):
                formula = SinusoidalPositionEncoding(table.size(1), wavelengths)(torch.arange(len(table)))
                if torch.allclose(table, formula, atol=2e-3):  # of float16
                    break
            else:
                raise DataError(f"{folder}: `{name}` has other positions than sinusoids")

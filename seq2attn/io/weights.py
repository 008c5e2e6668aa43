"""Weights of a model in a safetensors file; tied weights are stored once.

The file may be untrusted. Its head is read first: names, shapes and types must be those of the model, which is then
as large as the file, before memory is taken for either. That the head itself is valid (its length, offsets that neither
overlap nor lead out of the file, shapes that fill them) is seen to by the safetensors library, and tested here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from seq2attn.errors import CorruptFileError, RunError
from seq2attn.io.files import parse_json

SIDES = ("source", "target")
DIGEST_KEY, ORIGIN_KEY = "digest", "origin"
"""Keys of the file's metadata: the digest of its content, and the origin of its weights."""
WEIGHTS_HINT = "take another checkpoint"
SAFETENSORS_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Names of dtypes in safetensors."""


@dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return " x ".join(map(str, self.shape)) or "one number"


def unique_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """State dict of the model with each shared tensor once, under the first of its names."""
    weights: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            weights[name] = tensor.detach()
    return weights


def tensors_digest(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> str:
    """SHA-256 of names, types, shapes and bytes, and of what is said about them: however a file lays them out."""
    found = hashlib.sha256(json.dumps(sorted(about.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def save_tensors(tensors: Mapping[str, Tensor], path: Path, about: Mapping[str, str] | None = None) -> str:
    """Write tensors to a file, and what there is to know about them. Returns the digest that the file holds.

    The same tensors and metadata give the same bytes.
    """
    contents = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    digest = tensors_digest(contents, about or {})
    try:
        safetensors.torch.save_file(contents, path, {**(about or {}), DIGEST_KEY: digest})
        _sort_metadata(path)
    except safetensors.SafetensorError as error:
        raise RunError(f"{path}: cannot be written ({error})") from None
    return digest


def _sort_metadata(path: Path) -> None:
    """Sort the metadata in the header of a file, which safetensors writes in an order that is drawn at random."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        assert len(text) <= length, "the same JSON is no longer than before"
        file.seek(8)
        file.write(text.ljust(length))


def load_tensors(path: Path, device: torch.device | str = "cpu", *, digest: str | None = None) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote; `digest` is what it returned then, where that is known.

    Raises: RunError when the file is missing; CorruptFileError when it does not hold what was written.
    """
    with open_tensors(path, device) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
        about = dict(file.metadata() or {})
    stored = about.pop(DIGEST_KEY, None)
    expected = digest or stored  # none in weights of another making, which say no origin either
    if (expected or ORIGIN_KEY in about) and not tensors_digest(tensors, about) == stored == expected:
        raise CorruptFileError(f"{path}: is corrupt: it does not hold what was written to it (the digest differs)")
    return tensors


def is_corrupt(path: Path) -> bool:
    """Whether a file that is there does not hold what was written to it."""
    try:
        load_tensors(path)
    except CorruptFileError:
        return True
    return False


def read_origin(path: Path) -> dict[str, Any]:
    """Where the weights in a file come from.

    Raises: RunError when it cannot be read, or does not say.
    """
    with open_tensors(path, "cpu") as file:
        text = (file.metadata() or {}).get(ORIGIN_KEY, "null")
    origin = parse_json(text, path, WEIGHTS_HINT)
    if not isinstance(origin, dict):
        raise RunError(f"{path}: does not say where its weights come from; {WEIGHTS_HINT}")
    return origin


@contextmanager
def open_tensors(path: Path, device: torch.device | str) -> Iterator[Any]:
    """An open safetensors file. Raises: RunError when it is missing or corrupt."""
    try:
        with safetensors.safe_open(path, "pt", device=str(device)) as file:
            yield file
    except FileNotFoundError:
        raise RunError(
            f"{path}: there is no such file; was the training stopped before its first checkpoint?"
        ) from None
    except (safetensors.SafetensorError, OSError) as error:
        raise CorruptFileError(f"{path}: the weights cannot be read ({error}); {WEIGHTS_HINT}") from None


def read_tensor_specs(path: Path) -> dict[str, TensorSpec]:
    """What tensors a file has, without reading them.

    Raises: RunError when the file is missing or torn.
    """
    with open_tensors(path, "cpu") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
        return {name: TensorSpec(part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}


def tensor_specs(weights: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """The same of tensors that are there."""
    return {
        name: TensorSpec(SAFETENSORS_DTYPES.get(t.dtype, str(t.dtype)), tuple(t.shape)) for name, t in weights.items()
    }


def check_tensor_specs(model: nn.Module, found: Mapping[str, TensorSpec], path: Path) -> None:
    """Refuse tensors of `path` that are not those of a model, which need not have memory of its own.

    Raises: RunError with the first that does not fit.
    """
    own = tensor_specs(unique_state_dict(model))
    for name in [*own, *found]:
        if name not in found:
            raise RunError(f"{path}: lacks `{name}`; the model's config is not the one it was trained with")
        if name not in own:
            raise RunError(f"{path}: holds `{name}`, which the model has not; the config is another one")
        if own[name].shape != found[name].shape:
            raise RunError(f"{path}: `{name}` is {found[name]}, and {own[name]} in the model of the config")
        if own[name].dtype != found[name].dtype:
            raise RunError(f"{path}: `{name}` is of {found[name].dtype}, and of {own[name].dtype} in the model")


def copy_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a model the weights that were read from `path`.

    Raises: RunError with the first tensor that does not fit, or that has a number in it that is none.
    """
    check_tensor_specs(model, tensor_specs(weights), path)
    own = unique_state_dict(model)
    for name, _ in model.named_parameters():
        if name in weights and not weights[name].isfinite().all():
            raise RunError(f"{path}: `{name}` has numbers that are infinite or none; {WEIGHTS_HINT}")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])

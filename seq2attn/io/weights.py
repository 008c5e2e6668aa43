"""Weights of a model in a safetensors file; tied weights are stored once.

The file may be untrusted. The length of its header and the number of its values are limited before it is parsed, which
takes many times its size. Then names, shapes and dtypes must be those of the model, which is as large as the file,
before memory is allocated for either. The safetensors library checks that the header is valid: its length, offsets that
neither overlap nor leave the file, and shapes that fill them.
"""

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
from seq2attn.io.files import check_num_values, open_regular, parse_object

METADATA_KEY = "seq2attn"
"""The key of the file's metadata. One, since safetensors writes several in random order."""
WEIGHTS_HINT = "take another checkpoint"
MAX_ARRAYS = 2**15
"""Maximum number of tensors in a file: a model of 1,000 layers has half of them."""
MAX_HEADER_BYTES = 10**8
"""Maximum size of a header, that of the library: it has the vocabularies of both sides."""


@dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return " x ".join(map(str, self.shape)) or "one number"


def unique_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """State dict of the model with each shared tensor once, under the first of its names."""
    names: dict[int, str] = {}
    weights = model.state_dict(keep_vars=True)
    return {name: tensor.detach() for name, tensor in weights.items() if names.setdefault(id(tensor), name) == name}


def tensors_digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """SHA-256 of names, dtypes, shapes, bytes and metadata, whatever their order in a file."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, Any] | None = None) -> str:
    """Write tensors, and metadata that JSON can hold, to a file. Returns their digest, which the file holds too.

    The same tensors and metadata give the same bytes.
    """
    contents = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    digest = tensors_digest(contents, metadata or {})
    text = json.dumps({**(metadata or {}), "digest": digest}, sort_keys=True)
    write_safetensors(contents, path, {METADATA_KEY: text})
    return digest


def write_safetensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    """Write a safetensors file with the permissions of any other file: the library's are its owner's alone."""
    path.touch()
    mode = path.stat().st_mode
    try:
        safetensors.torch.save_file(tensors, path, metadata)
    except safetensors.SafetensorError as error:
        raise RunError(f"{path}: cannot be written ({error})") from None
    path.chmod(mode)


def load_tensors(path: Path, *, digest: str | None = None) -> dict[str, Tensor]:
    """Read what `save_tensors` wrote; `digest` is the one that it returned, if known.

    Raises RunError when the file is missing; CorruptFileError when its content has changed.
    """
    with open_tensors(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
        metadata = _metadata(file, path)  # empty in weights that seq2attn did not write
    stored = metadata.pop("digest", None)
    if (metadata or stored or digest) and not tensors_digest(tensors, metadata) == stored == (digest or stored):
        raise CorruptFileError(f"{path}: is corrupt: it does not hold what was written to it (the digest differs)")
    return tensors


def is_corrupt(path: Path) -> bool:
    """True for an existing file whose content has changed since it was written."""
    try:
        load_tensors(path)
    except CorruptFileError:
        return True
    return False


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata that `save_tensors` wrote, with the digest.

    Raises RunError without a file, CorruptFileError when it or its metadata cannot be read.
    """
    with open_tensors(path) as file:
        return _metadata(file, path)


def _metadata(file: Any, path: Path) -> dict[str, Any]:
    return parse_object((file.metadata() or {}).get(METADATA_KEY, "{}"), path, WEIGHTS_HINT)


@contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """An open safetensors file. Raises RunError when it is missing, CorruptFileError when it cannot be read."""
    try:
        _check_header(path)
        with safetensors.safe_open(path, "pt") as file:
            yield file
    except FileNotFoundError:
        raise RunError(
            f"{path}: there is no such file; was the training stopped before its first checkpoint?"
        ) from None
    except (safetensors.SafetensorError, OSError) as error:
        raise CorruptFileError(f"{path}: the weights cannot be read ({error}); {WEIGHTS_HINT}") from None
    except RunError as error:  # about the header or the metadata
        raise CorruptFileError(str(error)) from None


def _check_header(path: Path) -> None:
    """Raises RunError for a header that would take much memory, OSError for a file that is not regular."""
    with open_regular(path) as file:
        header = file.read(min(int.from_bytes(file.read(8), "little"), MAX_HEADER_BYTES))
    check_num_values(header, path, WEIGHTS_HINT)
    if header.count(b"{") > MAX_ARRAYS:  # also in tokens of the vocabularies, of which few have one
        raise RunError(f"{path}: has more than {MAX_ARRAYS:,} tensors; {WEIGHTS_HINT}")


def read_tensor_specs(path: Path) -> dict[str, TensorSpec]:
    """The specs of the tensors in a file, without reading them. Raises RunError when the file is missing or corrupt."""
    with open_tensors(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
        return {name: TensorSpec(part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}


def tensor_specs(weights: Mapping[str, Tensor]) -> dict[str, TensorSpec]:
    """The specs of tensors in memory."""
    return {name: TensorSpec(_dtype_name(tensor.dtype), tuple(tensor.shape)) for name, tensor in weights.items()}


def _dtype_name(dtype: torch.dtype) -> str:
    """The name of a dtype in safetensors, such as F32, BF16 or U8."""
    return str(dtype).removeprefix("torch.").upper().replace("FLOAT", "F").replace("INT", "I").replace("UI", "U")


def check_tensor_specs(model: nn.Module, specs: Mapping[str, TensorSpec], path: Path) -> None:
    """Check that the tensors in `path` are those of a model, which may be on the meta device.

    Raises RunError with the first that does not fit.
    """
    expected = tensor_specs(unique_state_dict(model))
    for name in [*expected, *specs]:
        if name not in specs:
            raise RunError(f"{path}: lacks `{name}`; the model's config is not the one it was trained with")
        if name not in expected:
            raise RunError(f"{path}: has `{name}`, which the model of the config lacks; it belongs to another config")
        if expected[name].shape != specs[name].shape:
            raise RunError(f"{path}: `{name}` is {specs[name]}, and {expected[name]} in the model of the config")
        if expected[name].dtype != specs[name].dtype:
            raise RunError(f"{path}: `{name}` is of {specs[name].dtype}, and of {expected[name].dtype} in the model")


def copy_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Copy the weights that were read from `path` into a model.

    Raises RunError with the first tensor that does not fit, or that is not finite.
    """
    check_tensor_specs(model, tensor_specs(weights), path)
    for name, _ in model.named_parameters():
        if name in weights and not weights[name].isfinite().all():
            raise RunError(f"{path}: `{name}` has values that are NaN or infinite; {WEIGHTS_HINT}")
    with torch.no_grad():
        for name, tensor in unique_state_dict(model).items():
            tensor.copy_(weights[name])

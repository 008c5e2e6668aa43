"""A folder of Hugging Face's `save_pretrained`: a config and weights in safetensors. Both may be untrusted.

config.json                     architecture
model.safetensors               weights, or
model.safetensors.index.json    the files that they are split into
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from torch import Tensor

from seq2attn.errors import DataError, RunError
from seq2attn.io.files import FILE_HINT, read_object
from seq2attn.io.weights import WEIGHTS_HINT, TensorSpec, load_tensors, read_tensor_specs

CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLE_FILE = "pytorch_model.bin"
Section = TypeVar("Section", bound=BaseModel)


def check_files(
    folder: Path, *, allow_pickle: bool = False, pickle_hint: str = "is not read: convert it with `save_pretrained`"
) -> None:
    """Raises DataError when the config or the weights are missing. `pickle_hint`: about weights in a pickle."""
    missing = [] if (folder / CONFIG_FILE).is_file() else [CONFIG_FILE]
    has_pickle = (folder / PICKLE_FILE).is_file()
    if not any((folder / name).is_file() for name in (WEIGHTS_FILE, INDEX_FILE)) and not (allow_pickle and has_pickle):
        missing.append(WEIGHTS_FILE)
    if missing:
        hint = f"; {PICKLE_FILE} {pickle_hint}" if has_pickle and WEIGHTS_FILE in missing else ""
        raise DataError(f"{folder} has no {' and no '.join(missing)}{hint}")


def validate_fields(model: type[Section], content: Mapping[str, Any], file: Path) -> Section:
    """The fields of `content` that `model` has. Raises DataError with missing and invalid keys of `file`."""
    try:
        return model.model_validate({name: content[name] for name in model.model_fields if name in content})
    except ValidationError as error:
        details = "; ".join(f"`{detail['loc'][0]}`: {detail['msg']}" for detail in error.errors())
        raise DataError(f"{file}: {details}") from None


def read_hf_specs(folder: Path) -> dict[str, TensorSpec]:
    """Dtypes and shapes of the weights, from the headers of their files. Raises UserError when they cannot be read."""
    specs: dict[str, TensorSpec] = {}
    for file in _weight_files(folder):
        if not file.exists():
            raise DataError(f"{folder} has no {file.name}, which {INDEX_FILE} names")
        try:
            specs |= read_tensor_specs(file)
        except RunError as error:
            reason = str(error).removeprefix(f"{file}: ").removesuffix(f"; {WEIGHTS_HINT}")
            message = f"{file} ({file.stat().st_size:,} bytes) is not a complete safetensors file: {reason}"
            raise DataError(f"{message}; download it again") from None
    return specs


def read_hf_tensors(folder: Path) -> dict[str, Tensor]:
    """The weights, whose specs were read before. Raises RunError when they have changed since."""
    return {name: tensor for file in _weight_files(folder) for name, tensor in load_tensors(file).items()}


def _weight_files(folder: Path) -> list[Path]:
    """Raises UserError for an index that cannot be read, or that names files outside the folder."""
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    names = read_object(folder / INDEX_FILE, FILE_HINT).get("weight_map")
    if not isinstance(names, dict):
        raise DataError(f"{folder / INDEX_FILE}: has no `weight_map`; {FILE_HINT}")
    for name in names.values():
        if not isinstance(name, str) or Path(name).name != name:
            raise DataError(f"{folder / INDEX_FILE}: {name!r} is not the name of a file in the same folder")
    return [folder / name for name in sorted({*names.values()})]

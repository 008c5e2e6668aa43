"""Weight files of Marian: `.npz` of NumPy, or `.bin`, whose matrices may be 8-bit integers (marian-dev, binary.cpp).

A `.bin` file has a version, the number of arrays, all headers, all names, all shapes, padding, and the data. Integers
are divided by a scale, which follows them. Matrices of products are stored transposed, tables of embeddings are not.
"""

import math
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2attn.config.yaml_reader import parse_yaml
from seq2attn.errors import DataError
from seq2attn.io.files import open_regular
from seq2attn.io.weights import MAX_ARRAYS
from seq2attn.pretrained.bart import BART_NAMES
from seq2attn.pretrained.hf_weights import FORBIDDEN_LOGIT

ArrayReader: TypeAlias = Callable[[], NDArray[Any]]
OPTIONS = "special:model.yml"
ACTIVATION_SCALE = "_QuantMultA"
HEADER = struct.Struct("<4Q")  # length of the name, type, number of dimensions, bytes of data
DTYPES = {0x101: "<i1", 0x402: "<f2", 0x404: "<f4", 0x4101: "<i1"}
SCALED_INT8 = 0x4101
TABLES = {
    "Wemb": BART_NAMES.shared,
    "encoder_Wemb": BART_NAMES.source,
    "decoder_Wemb": BART_NAMES.target,
    "decoder_ff_logit_out_W": BART_NAMES.output,
    "decoder_ff_logit_out_b": BART_NAMES.bias,
}
NORMS = {
    "self_Wo": "self_attn_layer_norm",
    "context_Wo": "encoder_attn_layer_norm",
    "ffn_ffn": "final_layer_norm",
    "rnn_ffn": "ssru_residual.norm",
}
ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
PROJECTIONS = {
    **{f"self_{letter}": f"self_attn.{name}" for letter, name in ATTENTION.items()},
    **{f"context_{letter}": f"encoder_attn.{name}" for letter, name in ATTENTION.items()},
    "ffn_1": "fc1",
    "ffn_2": "fc2",
    "rnn_": "ssru.input_proj",
    "rnn_f": "ssru.forget_gate",
}
"""Layers and letters of Marian, and names of Hugging Face; SSRUs, which it does not have, are named as here."""


def read_marian_weights(file: Path) -> tuple[dict[str, Any], dict[str, ArrayReader]]:
    """Options of the training, and a function that reads each array, by name.

    Raises UserError for a file that is none of Marian's.
    """
    with _data_errors(file):
        with open_regular(file) as stream:
            data = stream.read()
        arrays = dict(_open_npz(data) if file.suffix == ".npz" else _open_bin(data))
        options = arrays.pop(OPTIONS)().tobytes().rstrip(b"\0")
    return parse_yaml(options, file), arrays


@contextmanager
def _data_errors(file: Path) -> Iterator[None]:
    """Errors about the content of a file as DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{file}: there is no such file") from None
    except Exception as error:  # a corrupt file raises any
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise DataError(f"{file}: is not a complete model of Marian ({reason})") from None


def _open_npz(data: bytes) -> Iterator[tuple[str, ArrayReader]]:
    """A function that reads each array of an uncompressed `.npz` file.

    Raises ValueError, or BadZipFile, for another file, and for arrays that are together larger than the file.
    """
    if data.count(b"PK\x01\x02") > MAX_ARRAYS:
        raise ValueError(f"it has more than {MAX_ARRAYS:,} arrays")
    with zipfile.ZipFile(BytesIO(data)) as archive:
        entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it is compressed, as Marian's files are not")
    if sum(entry.file_size for entry in entries) > len(data):
        raise ValueError("its arrays overlap")
    with np.load(BytesIO(data), allow_pickle=False) as arrays:
        for name, array in arrays.items():
            yield name, partial(np.asarray, array)


def _open_bin(data: bytes) -> Iterator[tuple[str, ArrayReader]]:
    """A function that reads each array. Raises ValueError for one that is larger than its part of the file."""
    version, count = struct.unpack_from("<2Q", data)
    if version != 1 or count > MAX_ARRAYS:
        raise ValueError(f"version {version}, expected 1, with {count} arrays")
    headers = [HEADER.unpack_from(data, 16 + number * HEADER.size) for number in range(count)]
    position = 16 + count * HEADER.size
    names, shapes = list[str](), list[tuple[int, ...]]()
    for length, *_ in headers:
        names.append(data[position : position + length - 1].decode())
        position += length
    for _, _, dims, _ in headers:
        shapes.append(struct.unpack_from(f"<{dims}i", data, position))
        position += 4 * dims
    position += 8 + struct.unpack_from("<Q", data, position)[0]
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        if min(shape) < 1 or kind not in DTYPES:
            raise ValueError(f"`{name}` has the shape {shape} and the type {kind:#x}")
        if size < math.prod(shape) * np.dtype(DTYPES[kind]).itemsize or position + size > len(data):
            raise ValueError(f"`{name}` has the shape {shape} in {size:,} bytes")
        if not name.endswith(ACTIVATION_SCALE):
            yield name, partial(_array, data, position, name, shape, kind)
        position += size


def _array(data: bytes, position: int, name: str, shape: tuple[int, ...], kind: int) -> NDArray[Any]:
    values = np.frombuffer(data, DTYPES[kind], math.prod(shape), position)
    if kind != SCALED_INT8:
        return values.reshape(shape)
    (scale,) = np.frombuffer(data, "<f4", 1, position + values.nbytes)
    scaled = values.astype(np.float32) / scale
    return scaled.reshape(shape) if name.endswith("Wemb") else scaled.reshape(shape[::-1]).T


def to_hf_tensors(file: Path, arrays: Mapping[str, ArrayReader], size: int) -> dict[str, Tensor]:
    """Float32 tensors with the names of Hugging Face; tables of embeddings get rows of zeros up to `size`.

    Raises DataError for an array of `file` that is none of numbers, or no table.
    """
    with _data_errors(file):
        return {_hf_name(name): _tensor(name, read(), size).contiguous() for name, read in arrays.items()}


def _tensor(name: str, array: NDArray[Any], size: int) -> Tensor:
    if array.dtype.kind not in "iuf" or array.ndim == 0 or (name in TABLES and array.ndim != 2):
        raise ValueError(f"`{name}` has the shape {array.shape} and the type {array.dtype}")
    tensor = torch.tensor(array.T if re.search("_W[qkvo12f]?$", name) else array, dtype=torch.float32)
    if name == "decoder_ff_logit_out_b":
        return torch.nn.functional.pad(tensor, (0, size - tensor.size(1)), value=FORBIDDEN_LOGIT)
    if name in TABLES:
        return torch.nn.functional.pad(tensor, (0, 0, 0, size - len(tensor)))
    return tensor[0] if tensor.dim() == 2 and len(tensor) == 1 else tensor


def _hf_name(name: str) -> str:
    """The name of Hugging Face, or the same where there is none."""
    if name in TABLES:
        return TABLES[name]
    layer = re.fullmatch(r"(encoder|decoder)_l([1-9]\d*)_(\w+)", name)
    if layer is None:
        return name
    prefix, part = f"model.{layer[1]}.layers.{int(layer[2]) - 1}.", layer[3]
    if (norm := re.fullmatch("(.*)_ln_(scale|bias)", part)) and norm[1] in NORMS:
        return f"{prefix}{NORMS[norm[1]]}.{'weight' if norm[2] == 'scale' else 'bias'}"
    if (linear := re.fullmatch("(self_|context_|ffn_|rnn_)([Wb])(.?)", part)) and linear[1] + linear[3] in PROJECTIONS:
        return f"{prefix}{PROJECTIONS[linear[1] + linear[3]]}.{'weight' if linear[2] == 'W' else 'bias'}"
    return name

"""A model's weights in a safetensors file; what is tied is stored once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from seq2attn.errors import RunError


def own_weights(model: nn.Module) -> dict[str, Tensor]:
    """Each tensor of the model's state once, under the first of its names."""
    weights: dict[str, Tensor] = {}
    seen: set[tuple[int, int]] = set()
    for name, tensor in model.state_dict().items():
        key = (tensor.data_ptr(), tensor.numel())
        if tensor.numel() and key in seen:
            continue
        seen.add(key)
        weights[name] = tensor
    return weights


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors to a file."""
    safetensors.torch.save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path)


def load_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Read what `save_tensors` wrote.

    Raises: RunError when the file is missing or torn.
    """
    try:
        return safetensors.torch.load_file(path, device=str(device))
    except FileNotFoundError:
        raise RunError(
            f"{path}: there is no such file; was the training stopped before its first checkpoint?"
        ) from None
    except (safetensors.SafetensorError, OSError) as error:
        raise RunError(f"{path}: the weights cannot be read ({error}); take another checkpoint") from None


def put_weights(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Give a model the weights that were read from `path`.

    Raises: RunError with the first tensor that does not fit.
    """
    own = own_weights(model)
    for name in [*own, *weights]:
        if name not in weights:
            raise RunError(f"{path}: lacks `{name}`; the model's config is not the one it was trained with")
        if name not in own:
            raise RunError(f"{path}: holds `{name}`, which the model has not; the config is another one")
        if own[name].shape != weights[name].shape:
            found, expected = (" x ".join(map(str, t.shape)) for t in (weights[name], own[name]))
            raise RunError(f"{path}: `{name}` is {found}, and {expected} in the model of the config")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])

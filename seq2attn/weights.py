"""A model's weights in a safetensors file, with the vocabularies they know; what is tied is stored once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from seq2attn.errors import RunError
from seq2attn.text.vocabulary import Vocabulary, check_same

SIDES = ("source", "target")
Vocabularies = tuple[Vocabulary, Vocabulary]


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


def save_tensors(tensors: Mapping[str, Tensor], path: Path, about: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file, and what there is to know about them."""
    contents = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    try:
        safetensors.torch.save_file(contents, path, dict(about or {}))
    except safetensors.SafetensorError as error:
        raise RunError(f"{path}: cannot be written ({error})") from None


def load_tensors(path: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Read what `save_tensors` wrote.

    Raises: RunError when the file is missing or torn.
    """
    with _opened(path, device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping


def save_weights(weights: Mapping[str, Tensor], vocabularies: Vocabularies, path: Path) -> None:
    """Write a model's weights, and the vocabularies that give its rows their meaning."""
    tokens = zip(SIDES, vocabularies, strict=True)
    save_tensors(weights, path, {side: json.dumps(v.tokens, ensure_ascii=False) for side, v in tokens})


def check_vocabularies(weights: Path, folder: Path, vocabularies: Vocabularies) -> None:
    """Refuse weights that were trained with other vocabularies than those of the run in `folder`.

    Raises: RunError with both files, how many entries there are, and the first that differs.
    """
    with _opened(weights, "cpu") as file:
        about = file.metadata() or {}
    for side, vocabulary in zip(SIDES, vocabularies, strict=True):
        if side in about:  # not in weights of another making
            trained = Vocabulary(tuple(json.loads(about[side])))
            try:
                check_same(trained, vocabulary, folder / side / "vocabulary.json")
            except RunError as error:
                raise RunError(f"{weights}: was trained with another vocabulary. {error}") from None


@contextmanager
def _opened(path: Path, device: torch.device | str) -> Iterator[Any]:
    try:
        with safetensors.safe_open(path, "pt", device=str(device)) as file:
            yield file
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

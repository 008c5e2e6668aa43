"""LoRA adapters of Hugging Face's `peft`: updates of a pretrained model, with the names of its weights.

adapter_config.json          the pretrained model, rank and alpha
adapter_model.safetensors    A and B of each updated layer
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from seq2attn.config.base import Config
from seq2attn.errors import DataError
from seq2attn.io.files import FILE_HINT, open_regular, read_object
from seq2attn.io.hf_folder import validate_fields
from seq2attn.io.weights import load_tensors
from seq2attn.nn.lora import updated_weight
from seq2attn.pretrained.hf_weights import Tables

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


class AdapterConfig(Config):
    """Fields of `adapter_config.json`, with their names there; others change no weights, or add some to the file."""

    peft_type: Literal["LORA"]
    base_model_name_or_path: str
    r: PositiveInt
    lora_alpha: PositiveFloat
    rank_pattern: dict[str, int] = Field(default_factory=dict, max_length=0)
    alpha_pattern: dict[str, float] = Field(default_factory=dict, max_length=0)
    use_rslora: Literal[False] = False
    init_lora_weights: bool | Literal["gaussian", "eva", "orthogonal", "mica"] = True  # others change the model too


@dataclass(frozen=True)
class Adapter:
    """An adapter in a folder."""

    folder: Path
    config: AdapterConfig
    model: Path  # the folder of the pretrained model

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The adapter in a folder; None for a folder with something else.

        Raises: UserError with the file and the key that cannot be used, or when the pretrained model is not here.
        """
        path = folder / ADAPTER_CONFIG
        if not path.is_file():
            return None
        config = validate_fields(AdapterConfig, read_object(path, FILE_HINT), path)
        model = Path(config.base_model_name_or_path)
        if not model.is_dir():
            raise DataError(
                f"{path}: `base_model_name_or_path`: there is no folder {model} here; download the model"
                f" (hf download {model} --local-dir {model}), or write its folder into this file"
            )
        return cls(folder, config, model)

    def merge(self, tensors: Mapping[str, Tensor], tables: Tables) -> dict[str, Tensor]:
        """The weights of the pretrained model with the updates.

        Raises: DataError with the first update that is not of one of its layers.
        """
        path = self.folder / ADAPTER_WEIGHTS
        try:
            open_regular(path).close()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        updates, merged = load_tensors(path), dict(tensors)
        embeddings = {name for group in tables.groups.values() for name in group}
        layers = {name for name, tensor in tensors.items() if tensor.dim() == 2} - embeddings
        for name in updates:
            layer = name.removesuffix(DOWN).removesuffix(UP)
            weight = f"{layer.removeprefix(PREFIX)}.weight"
            if layer + DOWN not in updates or layer + UP not in updates or weight not in layers:
                raise DataError(f"{path}: `{name}` is not A or B of a layer of {self.model}")
            if not name.endswith(DOWN):
                continue
            down, up = updates[name].float(), updates[layer + UP].float()
            rows, columns = tensors[weight].shape
            if (up.shape, down.shape) != ((rows, self.config.r), (self.config.r, columns)):
                shapes = ", ".join(" x ".join(map(str, part.shape)) for part in (up, down))
                raise DataError(
                    f"{path}: B and A of `{layer}` are {shapes}, and {rows} x {self.config.r},"
                    f" {self.config.r} x {columns} by {ADAPTER_CONFIG} and {self.model}"
                )
            merged[weight] = updated_weight(tensors[weight], down, up, self.config.lora_alpha / self.config.r)
            if not merged[weight].isfinite().all():
                raise DataError(f"{path}: `{layer}` has values that are NaN or infinite")
        return merged

"""The model that weights are of, which may be a stranger's: no larger than their file, whatever the config says."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.config.plugin import modules_in
from seq2attn.errors import RunError
from seq2attn.initial import Undrawn
from seq2attn.model.build import build_model
from seq2attn.model.config import ModelConfig
from seq2attn.model.seq2seq import Seq2Seq
from seq2attn.weights import check_forms, load_tensors, put_weights, read_forms


def build_with(weights: Path, config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """The model of a config, with the weights in a file.

    It is first built without memory and compared with the file's head, so that neither asks for more than it has. Parts
    from elsewhere need not be buildable so; they were trusted by name.

    Raises: RunError when the file is missing or torn, or its weights are not of this model.
    """
    if not modules_in(config):
        try:
            with Undrawn(), torch.device("meta"):
                empty = build_model(config, source_size, target_size)
        except (RuntimeError, TypeError, OverflowError) as error:  # sizes that no tensor can have
            reason = str(error).partition("\n")[0]
            raise RunError(f"{weights}: a model as the config says cannot be built ({reason})") from None
        check_forms(empty, read_forms(weights), weights)
    model = build_model(config, source_size, target_size)
    put_weights(model, load_tensors(weights), weights)
    return model

"""Hugging Face's `peft` as an export target: the LoRA adapter of a run, for the export of the run it began with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seq2attn.config.base import FieldError
from seq2attn.errors import UserError
from seq2attn.experiment.experiment_config import ExperimentConfig
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.export.huggingface_target import HuggingFaceTarget
from seq2attn.export.tokenizer_export import check_exported_tokenizer, usage_code
from seq2attn.inference.engines.exported import check_manifest
from seq2attn.io.files import write_json
from seq2attn.io.weights import unique_state_dict, write_safetensors
from seq2attn.pretrained.bart import BART_NAMES
from seq2attn.pretrained.peft_adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS, DOWN, PREFIX, UP, Adapter
from seq2attn.pretrained.transformers_engine import TransformersEngine
from seq2attn.tokenizers.base import Tokenizer


class PeftTarget(HuggingFaceTarget):
    """Export of low-rank updates for `PeftModel`; no engine to translate with."""

    name = "peft"
    hub_library = "peft"

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """A training without LoRA or without a first run, and options that `transformers` does not have."""
        try:
            import peft  # noqa: F401
        except ImportError:
            raise UserError("this export needs peft: pip install peft") from None
        needed = {"lora": "trained with `lora`", "init_from": "that began with another run"}
        return [
            FieldError(f"training.{key}", f"{self.name} has adapters of runs {reason} only; use --to huggingface")
            for key, reason in needed.items()
            if getattr(experiment.training, key) is None
        ] or super().unsupported(experiment)

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write the config and the updates."""
        training = run.load_config().training
        assert training.lora is not None  # else it is unsupported
        base = _first_run(run)
        check_manifest(base, HuggingFaceTarget.name, exported := base.folder / HuggingFaceTarget.name)
        rank = training.lora.rank * len(run.weights_origin()["checkpoints"])  # of their mean
        layers = {BART_NAMES.layer(name): update for name, update in _updates(run, base).items()}
        weights = {}
        for name, update in layers.items():
            weights[f"{PREFIX}{name}{UP}"], weights[f"{PREFIX}{name}{DOWN}"] = factorize(update, rank)
        write_safetensors(weights, folder / ADAPTER_WEIGHTS, {"format": "pt"})
        content: dict[str, Any] = {"peft_type": "LORA", "task_type": "SEQ_2_SEQ_LM", "inference_mode": True}
        content |= {"base_model_name_or_path": str(exported), "target_modules": [*layers]}
        content |= {"r": rank, "lora_alpha": rank}
        write_json(folder / ADAPTER_CONFIG, content)

    def load(self, run: RunDirectory, folder: Path, device: torch.device) -> TransformersEngine:
        """The exported model of the first run, with the adapter in its layers."""
        from peft import PeftModel

        base = _first_run(run)
        engine = super().load(base, base.folder / HuggingFaceTarget.name, device)
        PeftModel.from_pretrained(engine.model, folder)  # changes the layers of the model
        return engine

    def check_tokenizer(self, source: Tokenizer, folder: Path, lines: Sequence[str]) -> None:
        """Raises UserError if the tokenizer of the first run's export gives other ids than `source` for a line."""
        adapter = Adapter.read(folder)
        assert adapter is not None
        check_exported_tokenizer(source, adapter.model, lines)

    def usage(self, run: RunDirectory, folder: Path, options: Sequence[str]) -> str:
        """A program for the lines of a file."""
        return usage_code(run.load_tokenizers()[0], _first_run(run).folder / HuggingFaceTarget.name, adapter=folder)


def factorize(update: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """B and A, of which an update of at most this rank is the product: [O, I] -> [O, R], [R, I]"""
    up, values, down = torch.linalg.svd(update.double(), full_matrices=False)
    missing = max(rank - len(values), 0)
    roots = nn.functional.pad(values[:rank].sqrt(), (0, missing))
    up, down = nn.functional.pad(up[:, :rank], (0, missing)), nn.functional.pad(down[:rank], (0, 0, 0, missing))
    return (up * roots).float().contiguous(), (roots[:, None] * down).float().contiguous()


def _first_run(run: RunDirectory) -> RunDirectory:
    init = run.load_config().training.init_from
    assert init is not None  # else it is unsupported
    return RunDirectory(init.run_dir)


def _updates(run: RunDirectory, base: RunDirectory) -> dict[str, Tensor]:
    """The differences of both runs by our names of layers.

    Raises: ConfigError if others than linear layers of encoder and decoder differ, or none.
    """
    model, *_ = run.load_model()
    before = unique_state_dict(base.load_model()[0])
    after = unique_state_dict(model)
    changed = [name for name, tensor in after.items() if name not in before or not tensor.equal(before[name])]
    layers = {f"{name}.weight": name for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    others = [name for name in changed if name not in layers or not name.startswith(("encoder.", "decoder."))]
    if others or not changed:
        reason = f"`{others[0]}` differs from that of" if others else "no weight differs from those of"
        message = f"{reason} {base.folder}; peft has adapters of linear layers in encoder and decoder"
        raise run.config_error([FieldError("training.init_from", message)])
    return {layers[name]: after[name] - before[name] for name in changed}

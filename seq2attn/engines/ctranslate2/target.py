"""CTranslate2 as an export target: supported models, export, and loading."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.config.base import FieldError
from seq2attn.engines.base import ExportTarget
from seq2attn.engines.ctranslate2.engine import ENGINE_NAME, CTranslate2Engine, import_ctranslate2
from seq2attn.engines.ctranslate2.spec import MAX_POSITIONS, build_spec
from seq2attn.engines.transformer_parts import no_option, unsupported_parts
from seq2attn.experiment import ExperimentConfig
from seq2attn.run_directory import RunDirectory


class CTranslate2Target(ExportTarget):
    """Export of Transformers by CTranslate2's model specification."""

    name = ENGINE_NAME
    dtypes = ("float32", "float16", "int8")

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Options of a model that CTranslate2 has no layer for, with their config keys."""
        import_ctranslate2()
        model = experiment.model
        mistakes = unsupported_parts(ENGINE_NAME, model)
        norms = [getattr(part, "norm_type", None) for part in (model.encoder, model.decoder)]
        if None not in norms and norms[0] != norms[1]:
            message = f"norm for the decoder that differs from the encoder's, `{norms[0]}`"
            mistakes.append(no_option(ENGINE_NAME, "decoder.norm_type", message))
        return mistakes

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Write weights, vocabularies and a config in the format of CTranslate2."""
        model, source, target = run.load_model()
        spec = build_spec(run.load_config().model, model, (source.vocabulary, target.vocabulary))
        spec.validate()
        spec.optimize(dtype)
        spec.save(str(folder))

    def load(self, run: RunDirectory, folder: Path, device: torch.device) -> CTranslate2Engine:
        """The engine of an exported model, with the number of threads of PyTorch."""
        source, target = run.load_tokenizers()
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        # Absolute positions of both kinds are exported as a table.
        has_table = run.load_config().model.encoder.position_encoding in ("sinusoidal", "learned")  # type: ignore[union-attr]
        max_source_length = MAX_POSITIONS - 1 if has_table else None
        return CTranslate2Engine(folder, (source.vocabulary, target.vocabulary), device, threads, max_source_length)

"""CTranslate2 as an export target: supported models, export, and loading."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.attention.alignment import GlobalAlignmentConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.config.base import FieldError
from seq2attn.decoders.transformer import TransformerDecoderConfig
from seq2attn.encoders.transformer import TransformerEncoderConfig
from seq2attn.engines.base import ExportTarget
from seq2attn.engines.ctranslate2.engine import ENGINE_NAME, CTranslate2Engine, import_ctranslate2
from seq2attn.engines.ctranslate2.spec import MAX_POSITIONS, build_spec
from seq2attn.experiment import ExperimentConfig
from seq2attn.run_directory import RunDirectory


class CTranslate2Target(ExportTarget):
    """Export of Transformers by CTranslate2's model specification."""

    name = ENGINE_NAME
    dtypes = ("float32", "float16", "int8")

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """Options of a model that CTranslate2 has no layer for, with their config keys."""
        import_ctranslate2()
        encoder, decoder = experiment.model.encoder, experiment.model.decoder
        mistakes = []
        if not isinstance(encoder, TransformerEncoderConfig):
            mistakes.append(_no("encoder.kind", f"encoder `{encoder.kind}`, only `transformer`"))
        if not isinstance(decoder, TransformerDecoderConfig):
            return [*mistakes, _no("decoder.kind", f"decoder `{decoder.kind}`, only `transformer`")]
        score, align = decoder.attention.score, decoder.attention.align
        if not isinstance(score, MultiHeadScoreConfig):
            mistakes.append(_no("decoder.attention.score.kind", f"score `{score.kind}`, only `multi-head`"))
        elif score.heads != decoder.heads:
            message = f"decoder of {decoder.heads} heads with cross-attention of another number"
            mistakes.append(_no("decoder.attention.score.heads", message))
        if not isinstance(align, GlobalAlignmentConfig):
            mistakes.append(_no("decoder.attention.align.kind", f"alignment `{align.kind}`, only `global`"))
        if isinstance(encoder, TransformerEncoderConfig) and encoder.norm_type != decoder.norm_type:
            message = f"norm for the decoder that differs from the encoder's, `{encoder.norm_type}`"
            mistakes.append(_no("decoder.norm_type", message))
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


def _no(key: str, option: str) -> FieldError:
    return FieldError(f"model.{key}", f"{ENGINE_NAME} has no {option}")

"""What of our models CTranslate2 has, and how they come there and back."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.attention.alignment import GlobalAlignmentConfig
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import MultiHeadScoreConfig
from seq2attn.config.base import FieldError
from seq2attn.decoders import TransformerDecoderConfig
from seq2attn.encoders import TransformerEncoderConfig
from seq2attn.engines.ctranslate2.engine import CTranslate2Engine
from seq2attn.engines.ctranslate2.package import ENGINE_NAME, import_ctranslate2
from seq2attn.engines.ctranslate2.spec import MAX_POSITIONS, build_spec
from seq2attn.experiment import ExperimentConfig
from seq2attn.run_directory import RunDirectory


class CTranslate2Target:
    """Exports Transformers through CTranslate2's own specification of models."""

    name = ENGINE_NAME
    dtypes = ("float32", "float16", "int8")

    def unsupported(self, experiment: ExperimentConfig) -> list[FieldError]:
        """What of a model CTranslate2 has no layer for."""
        import_ctranslate2()
        model = experiment.model
        mistakes = []
        if not isinstance(model.encoder, TransformerEncoderConfig):
            mistakes.append(_no("model.encoder.kind", f"encoder `{model.encoder.kind}`, only `transformer`"))
        if not isinstance(model.decoder, TransformerDecoderConfig):
            mistakes.append(_no("model.decoder.kind", f"decoder `{model.decoder.kind}`, only `transformer`"))
            return mistakes
        mistakes += _asked(model.decoder.attention, model.decoder.heads)
        if isinstance(model.encoder, TransformerEncoderConfig) and model.encoder.norm_type != model.decoder.norm_type:
            message = f"norm for the decoder that differs from the encoder's, `{model.encoder.norm_type}`"
            mistakes.append(_no("model.decoder.norm_type", message))
        return mistakes

    def export(self, run: RunDirectory, folder: Path, dtype: str) -> None:
        """Weights, vocabularies and a config, all of them CTranslate2's."""
        model, source, target = run.load_model()
        spec = build_spec(run.load_config().model, model, (source.vocabulary, target.vocabulary))
        spec.validate()
        spec.optimize(dtype)
        spec.save(str(folder))

    def load(self, run: RunDirectory, folder: Path, device: torch.device) -> CTranslate2Engine:
        """Their translator, with as many threads as PyTorch would take."""
        source, target = run.load_tokenizers()
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        # Both kinds of absolute positions are exported as a table.
        has_table = run.load_config().model.encoder.position_encoding in ("sinusoidal", "learned")  # type: ignore[union-attr]
        max_source_length = MAX_POSITIONS - 1 if has_table else None
        return CTranslate2Engine(folder, (source.vocabulary, target.vocabulary), device, threads, max_source_length)


def _asked(attention: AttentionConfig, heads: int) -> list[FieldError]:
    """What stands in the way in a decoder's attention to the source."""
    key, score = "model.decoder.attention", attention.score
    mistakes = []
    if not isinstance(score, MultiHeadScoreConfig):
        mistakes.append(_no(f"{key}.score.kind", f"score `{score.kind}`, only `multi-head`"))
    elif score.heads != heads:
        message = f"decoder of {heads} heads with an attention to the source of another number"
        mistakes.append(_no(f"{key}.score.heads", message))
    if not isinstance(attention.align, GlobalAlignmentConfig):
        mistakes.append(_no(f"{key}.align.kind", f"alignment `{attention.align.kind}`, only `global`"))
    return mistakes


def _no(key: str, what: str) -> FieldError:
    return FieldError(key, f"{ENGINE_NAME} has no {what}")

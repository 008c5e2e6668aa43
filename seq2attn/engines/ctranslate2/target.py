"""What of our models CTranslate2 has, and how they come there and back."""

from __future__ import annotations

from pathlib import Path

import torch

from seq2attn.attention.alignment import GlobalConfig
from seq2attn.attention.config import AttentionConfig
from seq2attn.attention.scores import MultiHeadConfig
from seq2attn.config.base import Mistake
from seq2attn.decoders import TransformerDecoderConfig
from seq2attn.encoders import TransformerEncoderConfig
from seq2attn.engines.ctranslate2.engine import Searcher
from seq2attn.engines.ctranslate2.package import NAME, ctranslate2
from seq2attn.engines.ctranslate2.spec import POSITIONS, specification
from seq2attn.experiment import Experiment
from seq2attn.run_directory import Run


class CTranslate2:
    """Exports Transformers through CTranslate2's own specification of models."""

    name = NAME
    types = ("float32", "float16", "int8")

    def refused(self, experiment: Experiment) -> list[Mistake]:
        """What of a model CTranslate2 has no layer for."""
        ctranslate2()
        model = experiment.model
        mistakes = []
        if not isinstance(model.encoder, TransformerEncoderConfig):
            mistakes.append(_no("model.encoder.kind", f"encoder `{model.encoder.kind}`, only `transformer`"))
        if not isinstance(model.decoder, TransformerDecoderConfig):
            mistakes.append(_no("model.decoder.kind", f"decoder `{model.decoder.kind}`, only `transformer`"))
            return mistakes
        mistakes += _asked(model.decoder.attention, model.decoder.heads)
        if (
            isinstance(model.encoder, TransformerEncoderConfig)
            and model.encoder.norm_layer != model.decoder.norm_layer
        ):
            message = f"norm for the decoder that differs from the encoder's, `{model.encoder.norm_layer}`"
            mistakes.append(_no("model.decoder.norm_layer", message))
        return mistakes

    def write(self, run: Run, folder: Path, type_: str) -> None:
        """Weights, vocabularies and a config, all of them CTranslate2's."""
        model, source, target = run.model()
        spec = specification(run.experiment().model, model, (source.vocabulary, target.vocabulary))
        spec.validate()
        spec.optimize(type_)
        spec.save(str(folder))

    def open(self, run: Run, folder: Path, device: torch.device) -> Searcher:
        """Their translator, with as many threads as PyTorch would take."""
        source, target = run.tokenizers()
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        # Both kinds of absolute positions are exported as a table.
        has_table = run.experiment().model.encoder.positions in ("sinusoidal", "learned")  # type: ignore[union-attr]
        max_source_length = POSITIONS - 1 if has_table else None
        return Searcher(folder, (source.vocabulary, target.vocabulary), device, threads, max_source_length)


def _asked(attention: AttentionConfig, heads: int) -> list[Mistake]:
    """What stands in the way in a decoder's attention to the source."""
    key, score = "model.decoder.attention", attention.score
    mistakes = []
    if not isinstance(score, MultiHeadConfig):
        mistakes.append(_no(f"{key}.score.kind", f"score `{score.kind}`, only `multi-head`"))
    elif score.heads != heads:
        message = f"decoder of {heads} heads with an attention to the source of another number"
        mistakes.append(_no(f"{key}.score.heads", message))
    if not isinstance(attention.align, GlobalConfig):
        mistakes.append(_no(f"{key}.align.kind", f"alignment `{attention.align.kind}`, only `global`"))
    return mistakes


def _no(key: str, what: str) -> Mistake:
    return Mistake(key, f"{NAME} has no {what}")

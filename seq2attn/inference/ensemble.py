"""Translators of one run, or of an ensemble of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from seq2attn.errors import RunError, UserError
from seq2attn.inference.engines.native import NativeEngine, SearchPrecision
from seq2attn.inference.source_line import SourceLine
from seq2attn.inference.translator import SETTINGS, Translator
from seq2attn.inference.unknown_words import check_replaces_unknown_words
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.models.ensemble import Ensemble, EnsembleSource
from seq2attn.search.search_config import LengthsConfig
from seq2attn.tokenizers.vocabulary import check_same


class EnsembleTranslator(Translator):
    """Translation by the mean of the probabilities of several models, which may have different source tokenizers.

    Search settings and warnings are those of the first; no source is longer than any model allows.
    """

    def __init__(self, members: Sequence[Translator], precision: SearchPrecision = "float32") -> None:
        """`members` are translators by the native engine, with equal target vocabularies."""
        first = members[0]
        super().__init__(
            first.model,
            first.source,
            first.target,
            first.search,
            engine=NativeEngine(Ensemble(tuple(member.model for member in members)), precision),
            training_report=first.training_report,
        )
        self.members, self.precision = tuple(members), precision

    def __reduce__(self) -> tuple[Any, ...]:
        """Its members, each loaded again."""
        return type(self), (self.members, self.precision), {name: vars(self)[name] for name in SETTINGS}

    def with_target_language(self, language: str) -> Self:
        """The same into another language of multilingual models. Raises UserError if one has no such language."""
        translator = super().with_target_language(language)
        translator.members = tuple(one.with_target_language(language) for one in self.members)
        return translator

    def __repr__(self) -> str:
        return f"EnsembleTranslator({', '.join(map(repr, self.members))})"

    def encode(self, line: str, lengths: LengthsConfig) -> SourceLine:
        """The line as token ids of the first model, split or truncated by each model in turn."""
        first, *others = self.members
        encoded = first.encode(line, lengths)
        texts, warning = encoded.texts, encoded.warning
        for member in others:
            parts = [member.encode(text, lengths) for text in texts]
            texts = tuple(text for part in parts for text in part.texts)
            warning = next((part.warning for part in parts if part.warning), warning)
        if texts == encoded.texts:
            return encoded
        segments = tuple(tuple(self.source.encode(text)) for text in texts)
        return replace(encoded, segments=segments, segment_texts=texts, warning=warning)

    def _segments(self, line: SourceLine) -> list[EnsembleSource]:
        """The token ids of each segment for all models; a segment is cut where `encode` cuts it."""
        return [
            EnsembleSource((ids, *(member.source.encode(text) for member in self.members[1:])))
            for ids, text in zip(line.segments, line.texts, strict=True)
        ]

    def _compute_weights(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        raise UserError("an ensemble has no attention weights of its own: show those of one of its runs")


def load(
    run: Path | str,
    device: str = "auto",
    *,
    ensemble: Path | str | Sequence[Path | str] = (),
    engine: str = "native",
    export_dir: Path | None = None,
    precision: SearchPrecision = "float32",
    allow_code: Sequence[str] = (),
    replace_unk: bool = False,
) -> Translator:
    """The translator of a run directory: `seq2attn.load("runs/phrasebook").translate("Guten Morgen.").text`.

    With `ensemble`, the mean of the probabilities of the run and of this or these others. `replace_unk` replaces
    unknown words of `words` tokenizers by the source words with the most attention. Other options are those of
    `Translator.load`, which names the errors; also raises RunError for a run that cannot be in the ensemble.
    """
    if ensemble and engine != "native":
        raise UserError(f"an ensemble is translated by the native engine, not by `{engine}`")
    first = Translator.load(
        run, device, engine=engine, export_dir=export_dir, precision=precision, allow_code=allow_code
    )
    if replace_unk:
        check_replaces_unknown_words(first.model, first.tokenizers)
    members = [first]
    for other in [ensemble] if isinstance(ensemble, Path | str) else ensemble:
        members.append(Translator.load(other, device, precision=precision, allow_code=allow_code))
        _check_member(members[-1], Path(other), first, Path(run))
    translator = EnsembleTranslator(members, precision) if ensemble else first
    translator.replace_unk = replace_unk
    return translator


def _check_member(member: Translator, run: Path, first: Translator, first_run: Path) -> None:
    """Raises RunError if two runs cannot be in one ensemble."""
    message = f"{run}: cannot be in an ensemble with {first_run}"
    try:
        check_same(first.target.vocabulary, member.target.vocabulary, run / "target" / "vocabulary.json")
    except RunError as error:
        raise RunError(f"{message}, which has another target vocabulary. {error}") from None
    if member.target.is_right_to_left != first.target.is_right_to_left:
        raise RunError(f"{message}: one writes from left to right, the other from right to left")
    if {*member.source.tags} != {*first.source.tags}:
        tags = [", ".join(one.source.tags) or "none" for one in (member, first)]
        raise RunError(f"{message}, which has other tags: {tags[1]}, not {tags[0]}")
    own, others = (getattr(one.source.config, "tag", None) for one in (member, first))
    if own and others and own != others:
        raise RunError(f"{message}, which was imported for `{others}`, not `{own}`; import one of them again")

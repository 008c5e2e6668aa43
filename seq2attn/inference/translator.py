"""Translation of lines with a trained run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeAlias, overload

from seq2attn.data.inspection import CorpusReport, DataReport
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.exported import RunEngine
from seq2attn.inference.engines.native import NativeEngine, SearchPrecision
from seq2attn.inference.engines.source_limit import SourceLimit, model_source_limit
from seq2attn.inference.glossary import Glossary
from seq2attn.inference.input_checks import InputChecker, warn_at_caller
from seq2attn.inference.minimum_bayes_risk import rank_by_expected_chrf
from seq2attn.inference.reranking import Reranker, rerank
from seq2attn.inference.source_line import (
    SourceLine,
    are_truncated,
    build_translation,
    effective_source_limit,
    encode_prefix,
)
from seq2attn.inference.translation import Translation
from seq2attn.inference.unknown_words import replace_unknown_words
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.models.build import count_parameters
from seq2attn.search.search_config import (
    LengthsConfig,
    SampleConfig,
    SearchConfig,
    check_num_hypotheses,
    resolve_search,
)
from seq2attn.search.translate_ids import (
    NAN_HYPOTHESIS,
    Hypothesis,
    default_batch_tokens,
    require_finite,
    retry_with_smaller_batches,
)
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair

RankedHypotheses: TypeAlias = Sequence[Sequence[Hypothesis]]
"""Hypotheses of each segment of a line, best first."""

SETTINGS = ("source", "target", "search", "max_batch_tokens", "replace_unk", "glossary", "rerankers")
"""Attributes of a translator that can be changed after it was loaded."""


class Translator:
    """A trained model with its tokenizers and an inference engine, the native one by default.

    If `replace_unk` is set, unknown words of `words` tokenizers are replaced by source words, or by their terms in the
    `glossary`. With a `glossary`, translations by beam search have its terms. `rerankers` order hypotheses again.
    A translator is pickled as its run and the arguments of `load`, and loaded again.
    """

    def __init__(
        self,
        model: Seq2Seq,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchConfig,
        *,
        engine: Engine | None = None,
        source_limit: SourceLimit | None = None,
        training_report: CorpusReport | None = None,
        origin: RunEngine | None = None,
    ) -> None:
        """`source_limit` is that of the model; `training_report` describes its training text; `origin`: see `load`."""
        self.model, self.source, self.target, self.search = model, source, target, search
        self.engine, self.max_batch_tokens = engine or NativeEngine(model), default_batch_tokens(model.device)
        self.source_limit, self.training_report, self._origin = source_limit, training_report, origin
        self.replace_unk = False
        self.glossary: Glossary | None = None
        self.rerankers: Sequence[Reranker] = ()

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of source and target."""
        return TokenizerPair(self.source, self.target)

    @classmethod
    def load(
        cls,
        run: Path | str,
        device: str = "auto",
        *,
        engine: str = "native",
        export_dir: Path | None = None,
        precision: SearchPrecision = "float32",
        allow_code: Sequence[str] = (),
    ) -> Translator:
        """The translator of a run directory.

        `device` is `auto` (CUDA if available), `cpu`, `cuda` or `cuda:N`. An `engine` other than `native` is one that
        the run was exported to, in `export_dir` or in the run directory. `precision` is `float32` or, faster on a GPU,
        `bfloat16`. `allow_code` names modules of custom components that may be imported; name only those you trust.

        Raises RunError when the directory is not a run, its files do not match, or the run was not exported or has
        changed since; UserError for a device that does not exist, for a precision of an exported model, and for an
        `export_dir` without its engine.
        """
        folder = RunDirectory(Path(run))
        digest = folder.weights_digest()
        return cls._load(RunEngine(folder, digest, device, engine, export_dir, precision, tuple(allow_code)))

    @classmethod
    def _load(cls, origin: RunEngine) -> Translator:
        loaded, engine = origin.load()
        report = DataReport.load(origin.run.folder)
        return cls(
            loaded.model,
            loaded.source,
            loaded.target,
            loaded.experiment.search,
            engine=engine,
            source_limit=model_source_limit(loaded.experiment),
            training_report=report.train if report else None,
            origin=origin.absolute(),
        )

    def __copy__(self) -> Self:
        """A translator with the same model."""
        translator = object.__new__(type(self))
        vars(translator).update(vars(self))
        return translator

    def __reduce__(self) -> tuple[Any, ...]:
        """Run and arguments, with what was set since: packed weights and engines cannot be pickled."""
        if self._origin is None:
            return object.__new__, (type(self),), vars(self)
        return self._load, (self._origin,), {name: vars(self)[name] for name in SETTINGS}

    def with_target_language(self, language: str) -> Self:
        """The same into another language of a multilingual model. Raises UserError if it has no such language."""
        translator = copy(self)
        translator.source, translator.target = self.tokenizers.translate_into(language)
        return translator

    def __repr__(self) -> str:
        parameters = count_parameters(self.model)
        return f"Translator({parameters:,} parameters on {self.model.device}, {self.search.kind} search)"

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is also an iterable of strings
        self,
        lines: str,
        search: SearchConfig | None = None,
        *,
        beam_size: int | None = None,
        num_hypotheses: int | None = None,
        prefix: str = "",
        to: str | None = None,
        attention: bool = False,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        lines: Iterable[str],
        search: SearchConfig | None = None,
        *,
        beam_size: int | None = None,
        num_hypotheses: int | None = None,
        prefix: str | Iterable[str] = "",
        to: str | None = None,
        attention: bool = False,
    ) -> list[Translation]: ...

    def translate(
        self,
        lines: str | Iterable[str],
        search: SearchConfig | None = None,
        *,
        beam_size: int | None = None,
        num_hypotheses: int | None = None,
        prefix: str | Iterable[str] = "",
        to: str | None = None,
        attention: bool = False,
    ) -> Translation | list[Translation]:
        """The translation of one line, or a list of translations of several lines, in their order.

        An empty line has an empty translation. `search` replaces the search of the run, and `beam_size` makes it a beam
        search of this width. `num_hypotheses` is the number of translations of each line: the best and its
        `alternatives`; by default all hypotheses of the search. `prefix` is the beginning of all translations, or of
        each; its log-probability is included. `to` is the language of the translations of a multilingual model, by
        default that of the run. With `attention` the best translation has attention weights, unless the line is empty.
        Gives an InputWarning about lines that the model may translate badly; the translation of a line for which it
        gives no finite log-probabilities is empty and has the score NaN.

        Raises UserError for more hypotheses than the search has, for a prefix with unknown tokens, and for a language
        that the model does not have; ValueError if the numbers of prefixes and lines differ.
        """
        checker = InputChecker(self.training_report)
        translator = self if to is None else self.with_target_language(to)
        translations = list(
            translator.translate_iterable(
                [lines] if isinstance(lines, str) else lines,
                search,
                beam_size=beam_size,
                num_hypotheses=num_hypotheses,
                prefix=prefix,
                attention=attention,
                checker=checker,
            )
        )
        warn_at_caller(checker)
        return translations[0] if isinstance(lines, str) else translations

    def translate_iterable(
        self,
        lines: Iterable[str],
        search: SearchConfig | None = None,
        *,
        beam_size: int | None = None,
        num_hypotheses: int | None = None,
        prefix: str | Iterable[str] = "",
        attention: bool = False,
        window: int = 4096,
        checker: InputChecker | None = None,
    ) -> Iterator[Translation]:
        """The translations of `lines` one by one, for long or endless input. For the arguments see `translate`.

        Lines are read `window` at a time, and lines of similar lengths are translated together. A line that is too long
        is split or truncated, as `search.lengths.long_inputs` says. Warnings are collected in `checker`, which may have
        those of earlier lines; without it, they are given at the end.
        """
        if isinstance(lines, str):
            raise TypeError("`lines` is one string: give a list, or use `translate`")
        search = resolve_search(search or self.search, beam=beam_size)
        check_num_hypotheses(search, 1 if num_hypotheses is None else num_hypotheses)
        checks = InputChecker(self.training_report) if checker is None else checker
        pairs = ((line, prefix) for line in lines) if isinstance(prefix, str) else zip(lines, prefix, strict=True)
        while batch := list(islice(pairs, window)):
            number = checks.num_lines + 1
            encoded = [
                replace(self.encode(line, search.lengths), prefix=encode_prefix(self.target, text))
                for line, text in batch
            ]
            checks.add_lines(encoded, self.source)
            own_seed = search.for_lines_after(number - 1) if isinstance(search, SampleConfig) else search
            ranked = self._search(encoded, own_seed)
            truncated = are_truncated(encoded, ranked, search.lengths)
            checks.add_truncated([line for line, is_truncated in enumerate(truncated, number) if is_truncated])
            checks.not_finite += [line for line, segments in enumerate(ranked, number) if [NAN_HYPOTHESIS] in segments]
            for line, hypotheses, is_truncated in zip(encoded, ranked, truncated, strict=True):
                translation = replace(
                    build_translation(line, hypotheses, num_hypotheses, self.tokenizers), truncated=is_truncated
                )
                weights = self._line_weights(line, hypotheses) if attention else None
                yield replace(translation, attention_weights=weights)
        if checker is None:
            warn_at_caller(checks)

    def encode(self, line: str, lengths: LengthsConfig) -> SourceLine:
        """The line as token ids, split or truncated if it has more than the model or its engine takes."""
        limit = effective_source_limit(lengths, self.source_limit, self.engine.max_source_length)
        return SourceLine.encode(self.source, line, lengths, limit)

    def _search(self, lines: Sequence[SourceLine], search: SearchConfig) -> list[RankedHypotheses]:
        """The hypotheses of all segments of each line."""
        segments = [segment for line in lines for segment in self._segments(line)]
        prefixes = [ids for line in lines for ids in line.prefixes(self.target.line_prefix)]
        texts = [text for line in lines for text in line.texts]
        phrases = [] if self.glossary is None else [self.glossary.phrases(text, search) for text in texts]
        translate = partial(self.engine.translate, segments, search, prefixes=prefixes, phrases=phrases)
        output, self.max_batch_tokens = retry_with_smaller_batches(
            translate, self.max_batch_tokens, max(map(len, segments))
        )
        if self.replace_unk:
            output = replace_unknown_words(self.model, self.tokenizers, lines, output, self.glossary)
        if search.mbr:
            output = [rank_by_expected_chrf(hypotheses, search, self._decode) for hypotheses in output]
        if self.rerankers:
            sources = [*map(self.source.split_tag, texts)]
            output = rerank(self.rerankers, sources, output, search.lengths.build_penalty(), self._decode)
        hypotheses = map(require_finite, output)
        ranked = [[next(hypotheses) for _ in line.segments] for line in lines]
        return [[[NAN_HYPOTHESIS]] * len(line) if [NAN_HYPOTHESIS] in line else line for line in ranked]

    def _decode(self, hypothesis: Hypothesis) -> str:
        return hypothesis.text or self.target.decode(hypothesis.tokens)

    def _segments(self, line: SourceLine) -> Sequence[Sequence[int]]:
        """The segments of a line as the engine takes them."""
        return line.segments

    def attention_weights(self, source: str, target: str) -> AttentionWeights:
        """The attention weights of a given translation of a line, by forced decoding."""
        return self._compute_weights(self.source.encode(source), self.target.encode(target))

    def _line_weights(self, line: SourceLine, hypotheses: RankedHypotheses) -> AttentionWeights | None:
        """The attention weights of the best translation; None for an empty line, or one that is not finite."""
        if not any(line.segments) or [NAN_HYPOTHESIS] in hypotheses:
            return None
        best = [(segment, one.tokens) for segment, (one, *_) in zip(line.segments, hypotheses, strict=True)]
        return AttentionWeights.concat([self._compute_weights(*pair) for pair in best])

    def _compute_weights(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        return AttentionWeights.compute(self.model, self.tokenizers, source, target)

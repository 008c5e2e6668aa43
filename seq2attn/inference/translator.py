"""Translating with a trained run: lines in, as many lines out, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias, overload
from warnings import warn

import torch

from seq2attn.config import trust
from seq2attn.data.inspection.report import DataReport
from seq2attn.data.inspection.statistics import CorpusReport
from seq2attn.engines.base import Engine, EngineError
from seq2attn.engines.native import NativeEngine
from seq2attn.engines.targets import load_exported_engine
from seq2attn.errors import UserError
from seq2attn.inference.input_checks import InputChecker, InputWarning
from seq2attn.inference.source_line import (
    SourceLimit,
    SourceLine,
    combined_score,
    effective_source_limit,
    encode_prefix,
    join_sentences,
    model_source_limit,
    zip_by_rank,
)
from seq2attn.inference.translation import Translation
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.nn.device import resolve_device
from seq2attn.nn.linear import prepack_linears
from seq2attn.nn.out_of_memory import is_oom_error
from seq2attn.run_directory import RunDirectory
from seq2attn.search.config import LengthsConfig, SearchConfig, check_num_hypotheses, resolve_search
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.base import Tokenizer

RankedHypotheses: TypeAlias = Sequence[Sequence[Hypothesis]]
"""Those of each segment of a line, best first."""
NATIVE = "native"
"""The name of our own engine."""


class Translator:
    """A trained model with its tokenizers, and the engine that searches: our own unless another is given."""

    def __init__(
        self,
        model: Seq2Seq,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchConfig,
        *,
        engine: Engine | None = None,
        budget: int = 8192,
        source_limit: SourceLimit | None = None,
        training_report: CorpusReport | None = None,
    ) -> None:
        """`source_limit` is that of the model; `training_report` describes its training text."""
        self.model, self.source, self.target, self.search, self.max_batch_tokens = (
            model,
            source,
            target,
            search,
            budget,
        )
        self.engine = engine or NativeEngine(model)
        self.source_limit, self.training_report = source_limit, training_report

    @classmethod
    def load(
        cls,
        run: Path | str,
        device: str = "auto",
        *,
        engine: str = NATIVE,
        export_dir: Path | None = None,
        allow_code: Sequence[str] = (),
    ) -> Translator:
        """The translator of a run directory, on `device` or on a CUDA GPU if there is one.

        An `engine` other than our own is one that the run was exported to, in `export_dir` or inside the
        run. `allow_code` names modules that the run's config has parts from and that may be imported; they may do
        anything that you may.
        Raises RunError when the directory is no run, its files do not fit together, or it was not exported or has
        changed since; UserError for a device that is not there.
        """
        where = resolve_device(device)
        trust.allow_code(allow_code)
        folder = RunDirectory(Path(run))
        # In a thread that ends, and with it the team of OpenMP threads that it calls together. CTranslate2 runs on the
        # same OpenMP, whose threads sleep between two products once there are more of them than processors: a lone
        # sentence then took three times as long.
        with ThreadPoolExecutor(1) as thread:
            model, source, target = thread.submit(folder.load_model, where).result()
        if engine == NATIVE:
            prepack_linears(model)
            searcher: Engine = NativeEngine(model)
        else:
            searcher = load_exported_engine(folder, engine, export_dir, where)
        experiment, report = folder.load_config(), DataReport.load(folder.folder)
        return cls(
            model,
            source,
            target,
            experiment.search,
            engine=searcher,
            source_limit=model_source_limit(experiment),
            training_report=report.train if report else None,
        )

    def __repr__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
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
        attention: bool = False,
    ) -> Translation | list[Translation]:
        """The translation of one line, or a list of translations of several, in their order.

        An empty line has an empty translation. `beam_size` asks for beam search of that width in place of the run's
        own search, or of `search`. `num_hypotheses` is the number of translations of each line, the best and its
        `alternatives`; by default all that the search finds. `prefix` is the beginning of each translation, or of all
        of them; its log-probability counts. With `attention` the best translation has attention weights; an empty line
        has none. Warns with InputWarning of lines that the model may translate badly.

        Raises UserError for more hypotheses than the search finds, and for a prefix with unknown words; ValueError
        when there are not as many prefixes as lines.
        """
        noticed = InputChecker(self.training_report)
        found = self.translate_iterable(
            [lines] if isinstance(lines, str) else lines,
            resolve_search(search or self.search, beam=beam_size, greedy=False),
            num_hypotheses=num_hypotheses,
            prefix=prefix,
            attention=attention,
            noticed=noticed,
        )
        translations = list(found)
        _warn(noticed)
        return translations[0] if isinstance(lines, str) else translations

    def translate_iterable(
        self,
        lines: Iterable[str],
        search: SearchConfig | None = None,
        *,
        num_hypotheses: int | None = None,
        prefix: str | Iterable[str] = "",
        attention: bool = False,
        window: int = 4096,
        noticed: InputChecker | None = None,
    ) -> Iterator[Translation]:
        """The translations of `lines` one by one, for input that is long or has no end.

        Lines are taken `window` at a time, and those alike in length are translated together. A line that is too long
        is treated as `search.lengths.long_inputs` says. Remarks on the lines are added to `noticed`, which may have
        remarks on earlier ones; without it, they are warned of at the end.
        """
        search = search or self.search
        check_num_hypotheses(search, num_hypotheses or 1)
        notes = InputChecker(self.training_report) if noticed is None else noticed
        pairs = ((x, prefix) for x in lines) if isinstance(prefix, str) else zip(lines, prefix, strict=True)
        limit = effective_source_limit(search.lengths, self.source_limit, self.engine.max_source_length)
        while some := list(islice(pairs, window)):
            number = notes.num_lines + 1
            read = [SourceLine.encode(self.source, line, search.lengths, limit) for line, _ in some]
            read = [
                replace(one, prefix=encode_prefix(self.target, begin)) if begin else one
                for one, (_, begin) in zip(read, some, strict=True)
            ]
            notes.add_lines(read, self.source)
            answers = list(zip(read, self._search(read, search), strict=True))
            truncated = _are_truncated(answers, search.lengths)
            notes.add_truncated([line for line, is_so in enumerate(truncated, number) if is_so])
            for (one, found), is_truncated in zip(answers, truncated, strict=True):
                translation = replace(self._translation(one, found, num_hypotheses), truncated=is_truncated)
                if attention and any(one.segments):
                    translation = replace(translation, attention_weights=self._best_weights(one, found))
                yield translation
        if noticed is None:
            _warn(notes)

    def _search(self, lines: Sequence[SourceLine], search: SearchConfig) -> list[RankedHypotheses]:
        """The hypotheses of all segments of each line; batches are halved until they fit into memory."""
        segments = [segment for line in lines for segment in line.segments]
        prefixes = [ids for line in lines for ids in line.prefixes]
        longest = max(map(len, segments))
        while True:
            try:
                found = iter(self.engine.translate(segments, search, budget=self.max_batch_tokens, prefixes=prefixes))
                return [[next(found) for _ in line.segments] for line in lines]
            except (RuntimeError, MemoryError, UserError) as error:
                if not is_oom_error(error) or self.max_batch_tokens <= longest:  # one segment at a time
                    raise
            self.max_batch_tokens //= 2  # after the error, which holds on to tensors, is gone

    def _translation(self, line: SourceLine, found: RankedHypotheses, count: int | None) -> Translation:
        sources = [self.source.convert_ids_to_tokens(segment) for segment in line.segments]
        every = [
            Translation(
                join_sentences([self.target.decode(one.tokens) for one in hypotheses]),
                combined_score(line, hypotheses),
                sum(one.log_prob for one in hypotheses),
                tuple(token for one in hypotheses for token in self.target.convert_ids_to_tokens(one.tokens)),
                tuple(token for tokens in sources for token in tokens),
                segments=line.segment_texts,
            )
            for hypotheses in islice(zip_by_rank(found), count)
        ]
        return replace(every[0], alternatives=tuple(every[1:]))

    def attention_weights(self, source: str, target: str) -> AttentionWeights:
        """The attention weights of a given translation of a given line, by forced decoding."""
        return self._compute_weights(self.source.encode(source), self.target.encode(target))

    def _best_weights(self, line: SourceLine, found: RankedHypotheses) -> AttentionWeights:
        pairs = zip(line.segments, found, strict=True)
        return AttentionWeights.concat([self._compute_weights(segment, best.tokens) for segment, (best, *_) in pairs])

    def _compute_weights(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        return AttentionWeights.compute(self.model, (self.source, self.target), source, target)


def _warn(noticed: InputChecker) -> None:
    """Warn the caller of the caller."""
    for message in noticed.remaining_warnings():
        warn(message, InputWarning, stacklevel=3)


def _are_truncated(answers: Sequence[tuple[SourceLine, RankedHypotheses]], lengths: LengthsConfig) -> list[bool]:
    """Whether the best hypothesis of any segment of a line has the maximum length: only the end could follow."""
    segments = [segment for line, _ in answers for segment in line.segments]
    best = [hypotheses[0] for _, found in answers for hypotheses in found]
    most = (lengths.limits(torch.tensor([len(segment) for segment in segments])).max_length - 1).tolist()
    are = iter(
        [
            len(segment) > 0 and len(one.tokens) >= limit
            for segment, one, limit in zip(segments, best, most, strict=True)
        ]
    )
    return [sum(next(are) for _ in line.segments) > 0 for line, _ in answers]


def check_engine_supports(engine: Engine, search: SearchConfig, run: RunDirectory, overrides: Sequence[str]) -> None:
    """Raises ConfigError for a search of the run's config that an engine has not: better known before the work."""
    try:
        engine.translate([], search, budget=1)
    except EngineError as error:
        raise run.config_error(error.errors, overrides) from None


def load(run: Path | str, device: str = "auto", *, allow_code: Sequence[str] = ()) -> Translator:
    """The translator of a run directory: `seq2attn.load("runs/phrasebook").translate("Guten Morgen.").text`."""
    return Translator.load(run, device, allow_code=allow_code)

"""Translation of lines with a trained run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, overload

import seq2attn
from seq2attn.errors import UserError
from seq2attn.inference.engines.base import Engine
from seq2attn.inference.engines.native import NativeEngine
from seq2attn.inference.glossary import Glossary
from seq2attn.inference.input_checks import LONG_TERMS, TRUNCATED, InputChecker, warn_at_caller
from seq2attn.inference.minimum_bayes_risk import rank_by_expected_chrf
from seq2attn.inference.reranking import Reranker, check_reranked_search, rerank
from seq2attn.inference.scoring import token_log_probs
from seq2attn.inference.source_line import (
    Member,
    SourceLine,
    are_truncated,
    build_translation,
    encode_line,
    encode_prefix,
    engine_sources,
)
from seq2attn.inference.translation import Translation
from seq2attn.inference.unknown_words import replace_unknown_words
from seq2attn.models import Seq2Seq
from seq2attn.models.attention_weights import AttentionWeights
from seq2attn.models.build import count_parameters
from seq2attn.search.search_config import (
    BeamConfig,
    LengthsConfig,
    SampleConfig,
    SearchConfig,
    beam_search,
    check_num_hypotheses,
)
from seq2attn.search.translate_ids import (
    NAN_HYPOTHESIS,
    Hypothesis,
    Phrases,
    default_batch_tokens,
    require_finite,
    retry_with_smaller_batches,
)
from seq2attn.tokenizers.base import Tokenizer, TokenizerPair


@dataclass(eq=False, repr=False)
class Translator:
    """A trained model with its tokenizers and an inference engine, or an ensemble of several.

    An ensemble translates by the mean of the probabilities of its members, which may have different source tokenizers;
    no source is longer than any of them allows. A translator is pickled as its run and its options, and loaded again.
    """

    members: tuple[Member, ...]
    search: SearchConfig
    engine: Engine
    max_batch_tokens: int  # smaller once memory was too small
    known_characters: frozenset[str] = frozenset()  # of the training text; none if they are not known
    rerankers: Sequence[Reranker] = ()  # order the hypotheses again
    glossary: Glossary | None = None  # terms that translations by beam search have
    replace_unk: bool = False  # replace unknown words by source words, or by their terms in the glossary
    reload: Callable[[], Translator] | None = None  # the translator without its glossary, for pickling

    @classmethod
    def from_model(
        cls, model: Seq2Seq, source: Tokenizer, target: Tokenizer, search: SearchConfig | None = None
    ) -> Translator:
        """The translator of a model in eval mode that was trained in another way; by default with a beam of 5."""
        member = Member(model, TokenizerPair(source, target))
        return cls((member,), search or BeamConfig(), NativeEngine(model), default_batch_tokens(model.device))

    @property
    def model(self) -> Seq2Seq:
        """The model, or the first of an ensemble."""
        return self.members[0].model

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of source and target, of the first model."""
        return self.members[0].tokenizers

    @property
    def source(self) -> Tokenizer:
        """The tokenizer of the source."""
        return self.tokenizers.source

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the target."""
        return self.tokenizers.target

    def __copy__(self) -> Translator:
        """A translator with the same models, which are not loaded again."""
        return replace(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """`reload`, since packed weights and engines cannot be pickled, with what is not of the run."""
        if self.reload is None:
            return object.__new__, (type(self),), vars(self)
        own = {"search": self.search, "glossary": self.glossary, "replace_unk": self.replace_unk}
        return self.reload, (), own | {"max_batch_tokens": self.max_batch_tokens}

    def with_target_language(self, language: str) -> Translator:
        """The same into another language of a multilingual model. Raises UserError without it, and with rerankers."""
        if self.rerankers:  # they score the language of the run
            raise UserError("``rerank`` and ``to`` exclude each other")
        members = tuple(member.translating_into(language) for member in self.members)
        reload = self.reload and partial(_reload_into, self.reload, language)
        return replace(self, members=members, reload=reload)

    def __repr__(self) -> str:
        parameters = " + ".join(f"{count_parameters(member.model):,}" for member in self.members)
        return f"Translator({parameters} parameters on {self.model.device}, {self.search.kind} search)"

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is also an iterable of strings
        self,
        lines: str,
        search: SearchConfig | None = None,
        *,
        beam: int | None = None,
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
        beam: int | None = None,
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
        beam: int | None = None,
        num_hypotheses: int | None = None,
        prefix: str | Iterable[str] = "",
        to: str | None = None,
        attention: bool = False,
    ) -> Translation | list[Translation]:
        """The translation of one line, or a list of translations of several lines, in their order.

        An empty line has an empty translation. `search` replaces the search of the run, and `beam` makes it a beam
        search of this width. `num_hypotheses` is the number of translations of each line: the best and its
        `alternatives`; by default all hypotheses of the search. `prefix` is the beginning of all translations, or of
        each; its log-probability is included. `to` is the language of the translations of a multilingual model, by
        default that of the run. With `attention` the best translation has attention weights, unless the line is empty.
        Gives an InputWarning about lines that the model may translate badly; the translation of a line for which it
        gives no finite log-probabilities is empty and has the score NaN.

        Raises UserError for more hypotheses than the search has, for a prefix with unknown tokens, and for a language
        that the model does not have; ValueError if the numbers of prefixes and lines differ.
        """
        checker = InputChecker(self.known_characters)
        translator = self if to is None else self.with_target_language(to)
        search = search or self.search
        search = search if beam is None else beam_search(search, beam)
        texts = [lines] if isinstance(lines, str) else lines
        output = translator.translate_iterable(
            texts, search, num_hypotheses=num_hypotheses, prefix=prefix, attention=attention, checker=checker
        )
        translations = list(output)
        warn_at_caller(checker)
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
        checker: InputChecker | None = None,
    ) -> Iterator[Translation]:
        """The translations of `lines` one by one, for long or endless input. For the arguments see `translate`.

        Lines are read `window` at a time, and lines of similar lengths are translated together. A line that is too long
        is split or truncated, as `search.lengths.long_inputs` says. Warnings are collected in `checker`, which may have
        those of earlier lines; without it, they are given at the end.
        """
        if isinstance(lines, str):
            raise TypeError("`lines` is one string: give a list, or use `translate`")
        search = search or self.search
        if self.rerankers:
            check_reranked_search(search)
        check_num_hypotheses(search, 1 if num_hypotheses is None else num_hypotheses)
        checks = InputChecker(self.known_characters) if checker is None else checker
        pairs = ((line, prefix) for line in lines) if isinstance(prefix, str) else zip(lines, prefix, strict=True)
        while batch := list(islice(pairs, window)):
            encoded = [
                replace(self.encode(line, search.lengths), prefix=encode_prefix(self.target, text))
                for line, text in batch
            ]
            yield from self.translate_encoded(encoded, search, checks, num_hypotheses, attention=attention)
        if checker is None:
            warn_at_caller(checks)

    def translate_encoded(
        self,
        lines: Sequence[SourceLine],
        search: SearchConfig,
        checker: InputChecker,
        num_hypotheses: int | None = None,
        *,
        attention: bool = False,
    ) -> Iterator[Translation]:
        """The translations of lines as `encode` gives them. For the arguments see `translate_iterable`."""
        number = checker.num_lines + 1
        checker.add_lines(lines, self.source)
        if isinstance(search, SampleConfig):
            search = search.for_lines_after(number - 1)
        glossary = self.glossary
        phrases = [[glossary.phrases(text, search) for text in line.texts] for line in lines] if glossary else []
        checker.add(LONG_TERMS, [line for line, found in enumerate(phrases, number) if None in found])
        ranked = self._search(lines, search, [found or () for each in phrases for found in each])
        truncated = are_truncated(lines, ranked, search.lengths)
        checker.add(TRUNCATED, [line for line, is_truncated in enumerate(truncated, number) if is_truncated])
        checker.not_finite.extend(line for line, segments in enumerate(ranked, number) if [NAN_HYPOTHESIS] in segments)
        for line, hypotheses, is_truncated in zip(lines, ranked, truncated, strict=True):
            sources = engine_sources(self.members, line)
            translation = build_translation(line, sources, hypotheses, num_hypotheses, self.tokenizers, self._decode)
            weights = self.translation_weights(translation) if attention else None
            yield replace(translation, truncated=is_truncated, attention_weights=weights)

    def encode(self, line: str, lengths: LengthsConfig) -> SourceLine:
        """The line as token ids of the first model, split or truncated if it has more than a model or engine takes."""
        return encode_line(self.members, line, lengths, self.engine.max_source_length)

    def _search(
        self, lines: Sequence[SourceLine], search: SearchConfig, phrases: Phrases
    ) -> list[list[list[Hypothesis]]]:
        """The hypotheses, best first, of all segments of each line; `phrases` of each, if there is a glossary."""
        segments = [segment for line in lines for segment in engine_sources(self.members, line)]
        prefixes = [ids for line in lines for ids in line.prefixes(self.target.line_prefix)]
        translate = partial(self.engine.translate, segments, search, prefixes=prefixes, phrases=phrases)
        longest = max(map(len, segments))
        output, self.max_batch_tokens = retry_with_smaller_batches(translate, self.max_batch_tokens, longest)
        if self.replace_unk:
            output = replace_unknown_words(self.model, self.tokenizers, lines, output, self.glossary)
        if search.mbr:
            output = [rank_by_expected_chrf(hypotheses, search, self._decode) for hypotheses in output]
        if self.rerankers:
            sources = [self.source.split_tag(text) for line in lines for text in line.texts]
            output = rerank(self.rerankers, sources, output, search.lengths.build_penalty(), self._decode)
        hypotheses = map(require_finite, output)
        ranked = [[next(hypotheses) for _ in line.segments] for line in lines]
        return [[[NAN_HYPOTHESIS]] * len(line) if [NAN_HYPOTHESIS] in line else line for line in ranked]

    def _decode(self, hypothesis: Hypothesis) -> str:
        return hypothesis.text or self.target.decode(hypothesis.tokens)

    def token_log_probs(self, translations: Sequence[Translation]) -> list[tuple[float, ...]]:
        """Log-probabilities of the tokens of each translation, and of EOS after each segment, by forced decoding."""
        pairs = [pair for translation in translations for pair in translation.ids]
        log_probs = iter(token_log_probs(self.engine, pairs, self.max_batch_tokens))
        return [tuple(x for _ in translation.ids for x in next(log_probs)) for translation in translations]

    def attention_weights(self, source: str, target: str) -> AttentionWeights:
        """The attention weights of a given translation of a line, by forced decoding."""
        return self._compute_weights(self.source.encode(source), self.target.encode(target))

    def translation_weights(self, translation: Translation) -> AttentionWeights | None:
        """The attention weights of a translation; None for an empty line, or one that is not finite."""
        if math.isnan(translation.score) or not any(len(source) for source, _ in translation.ids):
            return None
        return AttentionWeights.concat([self._compute_weights(*pair) for pair in translation.ids])

    def explore(self, *texts: str, live: bool = False) -> Any:
        """The explorer's page of some sentences, for a notebook or a file: see `seq2attn.explore`."""
        return seq2attn.explore(self, *texts, live=live)

    def _compute_weights(self, source: Sequence[int], target: Sequence[int]) -> AttentionWeights:
        if len(self.members) > 1:
            raise UserError("an ensemble has no attention weights of its own: show those of one of its runs")
        return AttentionWeights.compute(self.model, self.tokenizers, source, target)


def _reload_into(reload: Callable[[], Translator], language: str) -> Translator:
    return reload().with_target_language(language)

"""Greedy and beam search by CTranslate2.

Differences from the native search:

- A call has one maximum length: sentences of similar lengths are searched with the largest of their limits.
- A hypothesis is truncated at the limit, so its log-probability does not include EOS.
- Its scores do not include the tokens of a prefix: their log-probabilities come from forced decoding.
- A beam ends when `patience` times its width are finished; the native one also when no other can become better.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from seq2attn.config.base import FieldError
from seq2attn.data.batch_planner import batch_by_length
from seq2attn.engines.base import EngineError
from seq2attn.errors import UserError
from seq2attn.models.seq2seq import IdPairs
from seq2attn.search.config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds
from seq2attn.tokenizers.vocabulary import EOS, Vocabulary

ENGINE_NAME = "ctranslate2"
UNLIMITED_PATIENCE = 1e6
"""Patience for `search.patience: null`: each sentence is searched to its limit."""
MAX_TOKENS_CPU, MAX_TOKENS_GPU = 1024, 2**14
"""Maximum tokens of a call. On a CPU more are not faster, and one long translation delays fewer others."""
CUBLAS_HINT = "a PyTorch for another CUDA does not bring it; `pip install nvidia-cublas-cu12`, or give --device cpu"


@dataclass(frozen=True)
class CTranslate2Engine:
    """The engine of a folder with an exported model."""

    folder: Path
    vocabularies: tuple[Vocabulary, Vocabulary]
    device: torch.device
    threads: int
    max_source_length: int | None = None

    @property
    def description(self) -> str:
        """Name and precision, for reports."""
        return f"{ENGINE_NAME} {self._translator.compute_type}"

    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each source, best first. Raises EngineError for a search that CTranslate2 does not support."""
        if phrases:
            raise UserError(f"{ENGINE_NAME} has no lexical constraints: use --glossary with --engine native")
        if mistakes := unsupported_search(search):
            raise EngineError(ENGINE_NAME, mistakes)
        width, patience = search.num_hypotheses, 1.0
        if isinstance(search, BeamConfig) and width > 1:
            patience = search.patience or UNLIMITED_PATIENCE
        prefixes = prefixes or [()] * len(sources)
        lengths = torch.tensor([len(source) for source in sources])
        limits = (search.lengths.limits(lengths).max_length - 1).tolist()  # without EOS
        limits = [max(limit, len(prefix) + 1) for limit, prefix in zip(limits, prefixes, strict=True)]
        share = sum(len(source) + 1 for source in sources) // self.threads + 1  # so that no thread is idle
        batches = batch_by_length(sources, min(budget // width, share, self._max_tokens))
        penalty = search.lengths.build_penalty().penalty(torch.arange(max(limits, default=0) + 2)).tolist()
        prefixed = [row for row, prefix in enumerate(prefixes) if prefix and sources[row]]
        pairs = [(sources[row], prefixes[row]) for row in prefixed]
        forced = dict(zip(prefixed, self.token_log_probs(pairs, budget=budget), strict=True)) if pairs else {}
        output = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
        with user_errors():
            futures = [
                self._translator.translate_batch(
                    self._tokens([sources[row] for row in rows], 0),
                    target_prefix=self._tokens([prefixes[row] for row in rows], 1),
                    beam_size=width,
                    num_hypotheses=width,
                    patience=patience,
                    min_decoding_length=0,
                    max_decoding_length=max(limits[row] for row in rows),
                    max_input_length=0,
                    return_scores=True,
                    return_end_token=True,
                    asynchronous=True,
                )
                for rows in batches
            ]
            for rows, results in zip(batches, futures, strict=True):
                for row, result in zip(rows, results, strict=True):
                    prefix_log_prob = sum(forced.get(row, ())[:-1])  # without EOS
                    output[row] = self._hypotheses(result.result(), penalty, prefix_log_prob)
        return output

    def token_log_probs(self, pairs: IdPairs, *, budget: int) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of EOS."""
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        with user_errors():
            results = self._translator.score_batch(
                self._tokens(sources, 0),
                self._tokens(targets, 1),
                max_batch_size=min(budget, self._max_tokens),
                batch_type="tokens",
                max_input_length=0,
            )
        return [list(result.log_probs) for result in results]

    def _hypotheses(self, result: Any, penalty: Sequence[float], prefix_log_prob: float) -> list[Hypothesis]:
        """Hypotheses sorted by our length penalty; the scores of CTranslate2 are log-probabilities per token."""
        hypotheses = list[Hypothesis]()
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = tuple(map(self.vocabularies[1].id, tokens))
            log_prob = prefix_log_prob + score * len(ids)
            without_end = ids[:-1] if ids[-1:] == (EOS,) else ids
            hypotheses.append(Hypothesis(without_end, log_prob / penalty[len(ids)], log_prob))
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)

    @property
    def _max_tokens(self) -> int:
        return MAX_TOKENS_CPU if self.device.type == "cpu" else MAX_TOKENS_GPU

    def _tokens(self, sentences: TokenIds, side: int) -> list[list[str]]:
        tokens = self.vocabularies[side].tokens
        return [[tokens[id] for id in ids] for ids in sentences]

    @cached_property
    def _translator(self) -> Any:
        """The loaded model, with `threads` workers of one thread each."""
        with user_errors():
            return import_ctranslate2().Translator(
                str(self.folder),
                device=self.device.type,
                device_index=self.device.index or 0,
                inter_threads=self.threads,
                intra_threads=1,
            )


def unsupported_search(search: SearchConfig) -> list[FieldError]:
    """Options of a search that CTranslate2 does not support, with their config keys."""
    mistakes = []
    if isinstance(search, SampleConfig):
        message = f"{ENGINE_NAME} samples without `search.seed`; use `greedy` or `beam`, or --engine native"
        mistakes.append(FieldError("search.kind", message))
    if search.no_repeat_ngram_size is not None:
        message = f"{ENGINE_NAME} computes other scores where tokens are blocked; use null, or --engine native"
        mistakes.append(FieldError("search.no_repeat_ngram_size", message))
    if search.coverage_penalty:
        message = f"{ENGINE_NAME} has another coverage penalty; use 0, or --engine native"
        mistakes.append(FieldError("search.coverage_penalty", message))
    if isinstance(search, BeamConfig) and search.num_beam_groups > 1:
        message = f"{ENGINE_NAME} has no diverse beam search; use 1, or --engine native"
        mistakes.append(FieldError("search.num_beam_groups", message))
    for name in ("min_length", "min_length_ratio"):
        if getattr(search.lengths, name) > 0:
            message = f"{ENGINE_NAME} computes other scores where EOS is forbidden; use 0, or --engine native"
            mistakes.append(FieldError(f"search.lengths.{name}", message))
    return mistakes


def import_ctranslate2() -> ModuleType:
    """The package `ctranslate2`, an optional dependency. Raises UserError when it is not installed."""
    try:
        package = importlib.import_module(ENGINE_NAME)
    except ImportError:
        raise UserError("this engine needs CTranslate2: pip install 'seq2attn[ctranslate2]'") from None
    package.set_log_level(logging.ERROR)  # no warning that a CPU computes float16 weights in float32, as documented
    return package


@contextmanager
def user_errors() -> Iterator[None]:
    """Errors of CTranslate2 about a model or a device as UserError."""
    try:
        yield
    except RuntimeError as error:
        hint = f"; {CUBLAS_HINT}" if "libcublas" in str(error) else ""
        raise UserError(f"{ENGINE_NAME}: {error}{hint}") from None

"""Greedy and beam search by CTranslate2.

Differences from the native search:

- A hypothesis is truncated at the limit, so its log-probability does not include EOS.
- A beam ends when `patience` times its width are finished; the native one also when no other can become better. If more
  are, those with the lowest log-probability per token are left out.
- A beam of one is greedy search; the native one also considers an end that is second-best.

The finished hypotheses are ranked here: CTranslate2 has no `gnmt` penalty, and its scores do not include the tokens of
a prefix, whose log-probabilities come from forced decoding.
"""

import importlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from seq2attn.config.base import FieldError
from seq2attn.data.collate import batch_by_length
from seq2attn.errors import UserError
from seq2attn.experiment.run_directory import RunDirectory
from seq2attn.inference.engines.base import Engine
from seq2attn.models.seq2seq import IdPairs
from seq2attn.search.search_config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds
from seq2attn.tokenizers.vocabulary import EOS, Vocabulary

ENGINE_NAME = "ctranslate2"
UNLIMITED_PATIENCE = 1e6
"""Patience for `search.patience: null`: each sentence is searched to its limit."""
MAX_POSITIONS = 2048
"""Maximum tokens of a sentence with positions from a table; a shorter table repeats its last row."""
MAX_TOKENS_CPU, MAX_TOKENS_GPU = 1024, 2**14
"""Maximum tokens of a call. On a CPU more are not faster, and one long translation delays fewer others."""
CUBLAS_HINT = "a PyTorch for another CUDA does not bring it; `pip install nvidia-cublas-cu12`, or give ``device=cpu``"


@dataclass(frozen=True)
class _Sentence:
    row: int
    source: Sequence[int]
    prefix: Sequence[int]
    forced: Sequence[float]
    """Log-probabilities of the prefix and EOS; without a prefix, none."""
    max_length: int
    """Maximum tokens of a translation, without EOS."""

    @property
    def is_complete(self) -> bool:
        """True for a prefix of the maximum length: only EOS can follow."""
        return len(self.prefix) >= self.max_length

    def rank(self, finished: Sequence[tuple[tuple[int, ...], float]], search: SearchConfig) -> list[Hypothesis]:
        """The best of `finished`: ids, and the sum of the log-probabilities of those after the prefix."""
        lengths = torch.tensor([len(ids) for ids, _ in finished])
        penalties = search.lengths.build_penalty().penalty(lengths).tolist()
        prefix_log_prob = sum(self.forced[:-1])
        hypotheses = []
        for (ids, log_prob), penalty in zip(finished, penalties, strict=True):
            total = prefix_log_prob + log_prob
            hypotheses.append(Hypothesis(ids[:-1] if ids[-1:] == (EOS,) else ids, total / penalty, total))
        return sorted(hypotheses, key=lambda one: -one.score)[: search.num_hypotheses]


@dataclass(frozen=True)
class CTranslate2Engine(Engine):
    """The engine of a folder with an exported model."""

    name = ENGINE_NAME
    folder: Path
    vocabularies: tuple[Vocabulary, Vocabulary]
    device: torch.device
    threads: int
    max_source_length: int | None = None
    max_target_length: int | None = None

    @property
    def description(self) -> str:
        """Name and precision, for reports."""
        return f"{ENGINE_NAME} {self._translator.compute_type}"

    def unsupported(self, search: SearchConfig) -> list[FieldError]:
        """Options of a search that CTranslate2 does not have, with their config keys."""
        mistakes, longest = unsupported_search(search), self.max_target_length
        if longest is not None and search.lengths.max_length > longest:
            message = f"the exported model has positions for {longest:,} tokens; use at most that, or ``engine=native``"
            mistakes.append(FieldError("search.lengths.max_length", message))
        return mistakes

    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each source, best first. Raises EngineError for a search that is `unsupported`."""
        if phrases:
            raise UserError(f"{ENGINE_NAME} has no lexical constraints: use ``glossary`` with ``engine=native``")
        self.check_search(search)
        output = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
        sentences = self._sentences(sources, prefixes or [()] * len(sources), search, budget)
        for sentence in sentences:
            if sentence.is_complete:
                output[sentence.row] = sentence.rank([((*sentence.prefix, EOS), sentence.forced[-1])], search)
        batches = self._batches([one for one in sentences if not one.is_complete], budget // search.num_hypotheses)
        with user_errors():
            while batches:  # again for those that exceed their own limit in a call with that of others
                futures = [self._search(batch, search) for batch in batches]
                exceeding = defaultdict[tuple[int, int], list[_Sentence]](list)
                for number, (batch, results) in enumerate(zip(batches, futures, strict=True)):
                    for sentence, finished in zip(batch, map(self._finished, results), strict=True):
                        if max(len(ids) for ids, _ in finished) > sentence.max_length:
                            exceeding[number, sentence.max_length].append(sentence)
                        else:
                            output[sentence.row] = sentence.rank(finished, search)
                batches = [*exceeding.values()]
        return output

    def _sentences(self, sources: TokenIds, prefixes: TokenIds, search: SearchConfig, budget: int) -> list[_Sentence]:
        """The sources that are not empty, with their limits."""
        limits = search.lengths.limits(torch.tensor([len(source) for source in sources])).max_length - 1
        rows = [row for row, source in enumerate(sources) if source]
        prefixed = [row for row in rows if prefixes[row]]
        log_probs = self.token_log_probs([(sources[row], prefixes[row]) for row in prefixed], budget=budget)
        forced = dict(zip(prefixed, log_probs, strict=True))
        return [_Sentence(row, sources[row], prefixes[row], forced.get(row, ()), int(limits[row])) for row in rows]

    def _batches(self, sentences: Sequence[_Sentence], budget: int) -> list[list[_Sentence]]:
        sources = [sentence.source for sentence in sentences]
        share = sum(len(source) + 1 for source in sources) // self.threads + 1  # so that no thread is idle
        batches = batch_by_length(sources, min(budget, share, self._max_tokens))
        return [[sentences[index] for index in batch] for batch in batches]

    def _search(self, batch: Sequence[_Sentence], search: SearchConfig) -> list[Any]:
        """The results of a call, with one maximum length for all sentences."""
        width, patience = search.num_hypotheses, 1.0
        if isinstance(search, BeamConfig) and width > 1:
            patience = search.patience or UNLIMITED_PATIENCE
        results: list[Any] = self._translator.translate_batch(
            self._tokens([sentence.source for sentence in batch], 0),
            target_prefix=self._tokens([sentence.prefix for sentence in batch], 1),
            beam_size=width,
            num_hypotheses=int(width * patience),
            patience=patience,
            min_decoding_length=0,
            max_decoding_length=max(sentence.max_length for sentence in batch),
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )
        return results

    def _finished(self, future: Any) -> list[tuple[tuple[int, ...], float]]:
        """Ids and log-probability of all finished hypotheses; the scores of CTranslate2 are divided by the length."""
        result = future.result()
        ids = [tuple(map(self.vocabularies[1].id, tokens)) for tokens in result.hypotheses]
        return [(each, score * len(each)) for each, score in zip(ids, result.scores, strict=True)]

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
    lengths, has_blocks = search.lengths, search.no_repeat_ngram_size is not None
    is_diverse = isinstance(search, BeamConfig) and search.num_beam_groups > 1
    forbidden = "computes other scores where EOS is forbidden; use 0"
    reasons = {
        "kind": (isinstance(search, SampleConfig), "samples without `search.seed`; use `greedy` or `beam`"),
        "no_repeat_ngram_size": (has_blocks, "computes other scores where tokens are blocked; use null"),
        "coverage_penalty": (search.coverage_penalty > 0, "has another coverage penalty; use 0"),
        "num_beam_groups": (is_diverse, "has no diverse beam search; use 1"),
        "lengths.min_length": (lengths.min_length > 0, forbidden),
        "lengths.min_length_ratio": (lengths.min_length_ratio > 0, forbidden),
    }
    found = {key: reason for key, (is_lacking, reason) in reasons.items() if is_lacking}
    return [FieldError(f"search.{key}", f"{ENGINE_NAME} {why}, or ``engine=native``") for key, why in found.items()]


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


def load_ctranslate2(run: RunDirectory, folder: Path, device: torch.device) -> CTranslate2Engine:
    """The engine of an exported model, with the number of threads of PyTorch."""
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    model = run.load_config().model
    # Absolute positions of both kinds are exported as a table.
    has_table = [part.position_encoding in ("sinusoidal", "learned") for part in (model.encoder, model.decoder)]  # type: ignore[union-attr]
    max_source, max_target = (MAX_POSITIONS - 1 if each else None for each in has_table)
    return CTranslate2Engine(folder, run.load_tokenizers().vocabularies, device, threads, max_source, max_target)

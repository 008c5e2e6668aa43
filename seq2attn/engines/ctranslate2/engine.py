"""Search by CTranslate2: greedy and beam search of an exported model.

What it does otherwise than our search:

- It has one limit of length for a call: sentences alike in length are searched under the loosest limit among them.
- At the limit it cuts a hypothesis off, so that its log-probability is without the end.
- Its scores leave out the tokens of a prefix: they are read for their log-probability.
- A beam ends when `patience` times its width are finished; ours ends sooner where none could become better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from seq2attn.config.base import FieldError
from seq2attn.data.batch_planner import batch_by_length
from seq2attn.engines.base import EngineError
from seq2attn.engines.ctranslate2.package import ENGINE_NAME, import_ctranslate2
from seq2attn.errors import UserError
from seq2attn.search.config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.search.translate_ids import Hypothesis
from seq2attn.tokenizers.vocabulary import EOS, Vocabulary

UNLIMITED_PATIENCE = 1e6
"""Patience for `search.patience: null`: each sentence is searched to its limit."""
MAX_TOKENS = {"cpu": 1024}
"""Most tokens of a call on a kind of device: more gain nothing, and one long translation holds fewer others up."""
MAX_TOKENS_ON_GPU = 2**14
"""The same elsewhere, where a call has the device to itself."""
CUBLAS_HINT = "a PyTorch for another CUDA does not bring it; `pip install nvidia-cublas-cu12`, or give --device cpu"


@dataclass(frozen=True)
class CTranslate2Engine:
    """The engine of a folder with an exported model."""

    folder: Path
    vocabularies: tuple[Vocabulary, Vocabulary]
    device: torch.device
    threads: int
    max_source_length: int | None = None

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        search: SearchConfig,
        *,
        budget: int,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first. Raises EngineError for a search that CTranslate2 has not."""
        if mistakes := unsupported_search(search):
            raise EngineError(ENGINE_NAME, mistakes)
        width = search.beam_size if isinstance(search, BeamConfig) else 1
        patience = (search.patience or UNLIMITED_PATIENCE) if isinstance(search, BeamConfig) and width > 1 else 1.0
        prefixes = prefixes or [()] * len(sources)
        lengths = torch.tensor([len(source) for source in sources])
        limits = (search.lengths.limits(lengths).max_length - 1).tolist()  # without the end
        most = [max(limit, len(prefix) + 1) for limit, prefix in zip(limits, prefixes, strict=True)]
        share = sum(len(source) + 1 for source in sources) // self.threads + 1  # lest one thread has it all
        batches = batch_by_length(sources, min(budget // width, share, self._max_tokens))
        penalty = search.lengths.build_penalty().penalty(torch.arange(max(most, default=0) + 2)).tolist()
        given = [row for row, prefix in enumerate(prefixes) if prefix and sources[row]]
        pairs = [(sources[row], prefixes[row]) for row in given]
        known = dict(zip(given, self.token_log_probs(pairs, budget=budget), strict=True)) if pairs else {}
        answers = [[Hypothesis((), 0.0, 0.0)] for _ in sources]
        with user_errors():
            waiting = [
                self._translator.translate_batch(
                    [self._tokens(sources[row], 0) for row in rows],
                    target_prefix=[self._tokens(prefixes[row], 1) for row in rows],
                    beam_size=width,
                    num_hypotheses=width,
                    patience=patience,
                    min_decoding_length=0,
                    max_decoding_length=max(most[row] for row in rows),
                    max_input_length=0,
                    return_scores=True,
                    return_end_token=True,
                    asynchronous=True,
                )
                for rows in batches
            ]
            for rows, results in zip(batches, waiting, strict=True):
                for row, result in zip(rows, results, strict=True):
                    before = sum(known.get(row, ())[:-1])  # without the end
                    answers[row] = self._hypotheses(result.result(), penalty, before)
        return answers

    def token_log_probs(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int
    ) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of the end."""
        with user_errors():
            found = self._translator.score_batch(
                [self._tokens(source, 0) for source, _ in pairs],
                [self._tokens(target, 1) for _, target in pairs],
                max_batch_size=min(budget, self._max_tokens),
                batch_type="tokens",
                max_input_length=0,
            )
        return [list(one.log_probs) for one in found]

    def _hypotheses(self, result: Any, penalty: Sequence[float], prefix_log_prob: float) -> list[Hypothesis]:
        """Best first by our own rule for lengths; CTranslate2's scores are log-probabilities per token."""
        found = list[Hypothesis]()
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = tuple([self._ids[token] for token in tokens])
            log_prob = prefix_log_prob + score * len(ids)
            words = ids[:-1] if ids[-1:] == (EOS,) else ids
            found.append(Hypothesis(words, log_prob / penalty[len(ids)], log_prob))
        return sorted(found, key=lambda hypothesis: -hypothesis.score)

    @property
    def _max_tokens(self) -> int:
        return MAX_TOKENS.get(self.device.type, MAX_TOKENS_ON_GPU)

    def _tokens(self, ids: Sequence[int], side: int) -> list[str]:
        tokens = self.vocabularies[side].tokens
        return [tokens[id] for id in ids]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: id for id, token in enumerate(self.vocabularies[1].tokens)}

    @cached_property
    def _translator(self) -> Any:
        """The loaded model, with as many workers of one thread as there are threads."""
        with user_errors():
            return import_ctranslate2().Translator(
                str(self.folder),
                device=self.device.type,
                device_index=self.device.index or 0,
                inter_threads=self.threads,
                intra_threads=1,
            )


def unsupported_search(search: SearchConfig) -> list[FieldError]:
    """What of a search CTranslate2 does not do as we do, with its key in the config."""
    mistakes = []
    if isinstance(search, SampleConfig):
        message = f"{ENGINE_NAME} samples without `search.seed`; use `greedy` or `beam`, or --engine native"
        mistakes.append(FieldError("search.kind", message))
    for name in ("min_length", "min_length_ratio"):
        if getattr(search.lengths, name) > 0:
            message = f"{ENGINE_NAME} gives other scores where an end is forbidden; take 0, or --engine native"
            mistakes.append(FieldError(f"search.lengths.{name}", message))
    return mistakes


@contextmanager
def user_errors() -> Iterator[None]:
    """What CTranslate2 says about a model or a device that it cannot use, as a mistake of the user."""
    try:
        yield
    except RuntimeError as error:
        hint = f"; {CUBLAS_HINT}" if "libcublas" in str(error) else ""
        raise UserError(f"{ENGINE_NAME}: {error}{hint}") from None

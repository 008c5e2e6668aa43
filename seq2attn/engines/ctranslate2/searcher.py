"""Our searches done by CTranslate2.

What it does otherwise, and what is done about it:

- It has one limit of length for a call, we have one for each sentence. Sentences alike in length are searched together,
  under the loosest of their limits; those that went beyond their own are searched again under it.
- At the limit it cuts a hypothesis off, where we make it end. The same words are then read, for the end's probability.
- Its scores leave out the tokens of a prefix. Translations with a prefix are read again.
- It may choose the padding and the beginning as words, though no trained model does. Where a translation has them it
  searches again without.
- It ends a beam when `patience` times its width are finished; we end it sooner where none could be better any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from seq2attn.config.base import Mistake
from seq2attn.engines.base import EngineError
from seq2attn.engines.ctranslate2.package import NAME, ctranslate2
from seq2attn.errors import UserError
from seq2attn.search.batched import Hypothesis, by_length
from seq2attn.search.config import BeamConfig, SampleConfig, SearchConfig
from seq2attn.text.vocabulary import BOS, EOS, PAD, Vocabulary

UNENDING = 1e6
"""Their patience where ours has no end: each sentence is then searched to its limit, for they do not ask whether it can
still become better."""
MAX_TOKENS = {"cpu": 1024}
"""Tokens of a call at most on a kind of device: more gain nothing, and one long translation holds fewer others up."""
MAX_TOKENS_ON_CARD = 2**14
"""The same elsewhere, where a call has the device to itself."""
CUBLAS_HINT = (
    "a PyTorch for another CUDA does not bring it; `pip install nvidia-cublas-cu12`, or give --device cpu"
)
Found = list[tuple[tuple[int, ...], float]]
"""Of one source: the words of each hypothesis, with its end if it has come to it, and their log-probability."""


@dataclass(frozen=True)
class Call:
    """Sources that are searched together, and how long their translations may be."""

    rows: list[int]
    most: int  # words, the end not counted


@dataclass(frozen=True)
class Searcher:
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
        if mistakes := refused(search):
            raise EngineError(NAME, mistakes)
        width = search.width if isinstance(search, BeamConfig) else 1
        patience = (search.patience or UNENDING) if isinstance(search, BeamConfig) and width > 1 else 1.0
        beam = {"beam_size": width, "num_hypotheses": width, "patience": patience}
        prefixes = prefixes or [()] * len(sources)
        limits = search.lengths.limits(torch.tensor([len(source) for source in sources])).with_prefixes(
            prefixes
        )
        most = (limits.most - 1).tolist()
        share = sum(len(source) + 1 for source in sources) // self.threads + 1  # lest one thread has it all
        batches = by_length(sources, min(budget // width, share, self._max_tokens))
        pairs = list(zip(sources, prefixes, strict=True))
        found = self._search(pairs, [Call(rows, max(most[row] for row in rows)) for rows in batches], beam)
        astray = [row for row, some in found.items() if any(is_astray(words, most[row]) for words, _ in some)]
        calls = [
            Call([row for row in astray if most[row] == limit], limit)
            for limit in {most[row] for row in astray}
        ]
        if calls:
            found |= self._search(pairs, calls, beam, barred=(PAD, BOS))
        odd = {
            row: some
            for row, some in found.items()
            if row in astray or prefixes[row] or any(map(is_cut_off, some))
        }
        return self._ranked(len(sources), found | self._read_again(sources, odd, budget), search)

    @property
    def _max_tokens(self) -> int:
        return MAX_TOKENS.get(self.device.type, MAX_TOKENS_ON_CARD)

    def token_log_probs(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, budget: int
    ) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of the end."""
        read = [(self._names(source, 0), self._names(target, 1)) for source, target in pairs]
        with explained():
            found = self._translator(alone=len(read) == 1).score_batch(
                [source for source, _ in read],
                [target for _, target in read],
                max_batch_size=min(budget, self._max_tokens),
                batch_type="tokens",
                max_input_length=0,
            )
        return [list(one.log_probs) for one in found]

    def _search(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        calls: Sequence[Call],
        beam: dict[str, float],
        barred: Sequence[int] = (),
    ) -> dict[int, Found]:
        """What is found for the sources of all calls, each with its prefix, which are under way side by side."""
        translator = self._translator(alone=len(calls) == 1 and len(calls[0].rows) == 1)
        options: dict[str, Any] = {
            **beam,
            "suppress_sequences": [self._names([word], 1) for word in barred] or None,
            "min_decoding_length": 0,
            "max_input_length": 0,
            "return_scores": True,
            "return_end_token": True,
            "asynchronous": True,
        }
        with explained():
            waiting = [
                translator.translate_batch(
                    [self._names(pairs[row][0], 0) for row in call.rows],
                    target_prefix=[self._names(pairs[row][1], 1) for row in call.rows],
                    max_decoding_length=call.most,
                    **options,
                )
                for call in calls
            ]
            return {
                row: self._read_out(result.result())
                for call, results in zip(calls, waiting, strict=True)
                for row, result in zip(call.rows, results, strict=True)
            }

    def _read_out(self, result: Any) -> Found:
        """Their scores are log-probabilities divided by lengths, which count the end if it was come to."""
        ids = self._ids
        words = [tuple([ids[token] for token in hypothesis]) for hypothesis in result.hypotheses]
        return [(some, score * len(some)) for some, score in zip(words, result.scores, strict=True)]

    def _read_again(
        self, sources: Sequence[Sequence[int]], found: dict[int, Found], budget: int
    ) -> dict[int, Found]:
        """The same words, all ended, with the probabilities that our own search would have given them."""
        if not found:
            return {}
        words = {row: list(dict.fromkeys(whole(some) for some, _ in found[row])) for row in found}
        pairs = [(sources[row], some[:-1]) for row in words for some in words[row]]
        scores = map(sum, self.token_log_probs(pairs, budget=budget))
        return {row: [(some, next(scores)) for some in words[row]] for row in words}

    def _ranked(
        self, sentences: int, found: dict[int, Found], search: SearchConfig
    ) -> list[list[Hypothesis]]:
        """Best first by our own rule for lengths."""
        longest = max((len(words) for some in found.values() for words, _ in some), default=0)
        penalty = search.lengths.rule().penalty(torch.arange(longest + 1)).tolist()
        answers = [[Hypothesis((), 0.0, 0.0)] for _ in range(sentences)]
        for row, some in found.items():
            hypotheses = [
                Hypothesis(words[:-1], log_prob / penalty[len(words)], log_prob) for words, log_prob in some
            ]
            answers[row] = sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
        return answers

    def _names(self, ids: Sequence[int], side: int) -> list[str]:
        tokens = self.vocabularies[side].tokens
        return [tokens[id] for id in ids]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: id for id, token in enumerate(self.vocabularies[1].tokens)}

    def _translator(self, *, alone: bool) -> Any:
        """A lone sentence has all threads to itself; of many each has one.

        That takes two copies of the weights, which a lone sentence after many others is not worth.
        """
        return self._one if alone and self.threads > 1 and "_many" not in self.__dict__ else self._many

    @cached_property
    def _one(self) -> Any:
        return self._loaded(inter_threads=1, intra_threads=self.threads)

    @cached_property
    def _many(self) -> Any:
        return self._loaded(inter_threads=self.threads, intra_threads=1)

    def _loaded(self, **threads: int) -> Any:
        with explained():
            return ctranslate2().Translator(
                str(self.folder), device=self.device.type, device_index=self.device.index or 0, **threads
            )


def refused(search: SearchConfig) -> list[Mistake]:
    """What of a search CTranslate2 does not do as we do, with its key in the config."""
    mistakes = []
    if isinstance(search, SampleConfig):
        message = f"{NAME} draws by chance of its own, without our seed; take `greedy` or `beam`, or --engine native"
        mistakes.append(Mistake("search.kind", message))
    for name in ("min_length", "min_ratio"):
        if getattr(search.lengths, name) > 0:
            message = f"{NAME} gives other scores where an end is forbidden; take 0, or --engine native"
            mistakes.append(Mistake(f"search.lengths.{name}", message))
    return mistakes


def is_astray(words: tuple[int, ...], most: int) -> bool:
    """Whether a hypothesis has more words than it may have, or one that is none, so that no search of ours finds it."""
    return len(words) - (words[-1:] == (EOS,)) > most or PAD in words or BOS in words


def is_cut_off(hypothesis: tuple[tuple[int, ...], float]) -> bool:
    """Whether the end did not come within the limit."""
    words, _ = hypothesis
    return words[-1:] != (EOS,)


def whole(words: tuple[int, ...]) -> tuple[int, ...]:
    """The words with their end, also of what was cut off."""
    return words if words[-1:] == (EOS,) else (*words, EOS)


@contextmanager
def explained() -> Iterator[None]:
    """What CTranslate2 says about a model or a device that it cannot use, as a mistake of the user."""
    try:
        yield
    except RuntimeError as error:
        hint = f"; {CUBLAS_HINT}" if "libcublas" in str(error) else ""
        raise UserError(f"{NAME}: {error}{hint}") from None

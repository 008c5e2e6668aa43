"""Inference engines: their interface, and a search that an engine does not support."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from seq2attn.config.base import FieldError
from seq2attn.errors import UserError
from seq2attn.models.seq2seq import IdPairs
from seq2attn.search.search_config import SearchConfig
from seq2attn.search.translate_ids import Hypothesis, Phrases, TokenIds


class Engine(ABC):
    """Search and forced decoding of a model."""

    name: ClassVar[str]
    """Name in messages and in `TranslationOptions.engine`."""
    max_source_length: int | None = None
    """Maximum tokens of a source, without EOS; None for no limit."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Name and precision, for reports."""

    def unsupported(self, search: SearchConfig) -> list[FieldError]:
        """Options of a search that the engine does not support, with their config keys."""
        return []

    def check_search(self, search: SearchConfig) -> None:
        """Raises EngineError for a search that the engine does not support."""
        if mistakes := self.unsupported(search):
            raise EngineError(self.name, mistakes)

    @abstractmethod
    def translate(
        self, sources: TokenIds, search: SearchConfig, *, budget: int, prefixes: TokenIds = (), phrases: Phrases = ()
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each source (ids without EOS), best first, in the order of the sources.

        A batch has at most `budget` source tokens, with padding, times the hypotheses of each. An empty source has one
        empty hypothesis. The hypotheses of a source begin with its prefix, which counts in length, log-probability and
        score, and those of a beam contain its `phrases`.

        Raises EngineError for a search that is `unsupported`.
        """

    @abstractmethod
    def token_log_probs(self, pairs: IdPairs, *, budget: int) -> list[list[float]]:
        """Forced decoding: the log-probability of each target token and of EOS, for pairs of ids without EOS.

        The list of a pair of two empty sides is empty.
        """


class EngineError(UserError):
    """A search that an engine does not support, each reason with its config key."""

    def __init__(self, engine: str, mistakes: Sequence[FieldError]) -> None:
        reasons = "; ".join(f"`{mistake.field}`: {mistake.message}" for mistake in mistakes)
        super().__init__(f"the engine {engine} does not support this search: {reasons}")

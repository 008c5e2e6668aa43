"""Translating with a trained run: lines in, as many lines out, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seq2attn.engines.base import Engine, EngineError
from seq2attn.engines.native import Native
from seq2attn.engines.targets import exported_engine
from seq2attn.errors import UserError
from seq2attn.laid_out import lay_out_linears
from seq2attn.looked import Looked
from seq2attn.model import Seq2Seq
from seq2attn.model.int8 import int8
from seq2attn.run import Run
from seq2attn.search.batched import Hypothesis
from seq2attn.search.config import BeamConfig, GreedyConfig, SearchConfig
from seq2attn.text.tokenizer import Tokenizer

NATIVE, INT8 = "native", "int8"
"""What our own engine is called, and the same with linear layers of 8 bits."""


@dataclass(frozen=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    source_tokens: tuple[str, ...]
    alternatives: tuple[Translation, ...] = ()  # the other hypotheses, best first
    looked: Looked | None = None  # when it was asked for

    @property
    def attention(self) -> NDArray[np.float32] | None:
        """Where it looked in the source, [layers, heads, tokens + end, source tokens + end]."""
        return None if self.looked is None else self.looked.decoder


class Translator:
    """A trained model with its tokenisers, and the engine that searches: our own unless another is given."""

    def __init__(
        self,
        model: Seq2Seq,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchConfig,
        *,
        engine: Engine | None = None,
        budget: int = 8192,
    ) -> None:
        self.model, self.source, self.target, self.search, self.budget = model, source, target, search, budget
        self.engine = engine or Native(model)

    @classmethod
    def load(
        cls,
        run: Path | str,
        device: str = "auto",
        *,
        engine: str = NATIVE,
        engine_folder: Path | None = None,
        allow_code: Sequence[str] = (),
    ) -> Translator:
        """The translator of a run directory, on `device` or on a CUDA card if there is one.

        An `engine` other than our own, and `int8`, is one that the run was exported to, in `engine_folder` or inside
        the run. `allow_code` names what of the run's may be run as code: modules that its config has parts from, and
        `programs` of elsewhere. It may do anything that you may.
        Raises RunError when the directory is no run, its files do not fit together, or it was not exported or has
        changed since; UserError for a device that is not there.
        """
        where = chosen_device(device)
        folder = Run(Path(run), allow_code)
        model, source, target = folder.model(where)
        if engine == NATIVE:
            lay_out_linears(model)
            searcher: Engine = Native(model)
        elif engine == INT8:
            searcher = rounded_engine(model, where)
        else:
            searcher = exported_engine(folder, engine, engine_folder, where)
        return cls(model, source, target, folder.experiment().search, engine=searcher)

    def translate(
        self,
        lines: Iterable[str],
        search: SearchConfig | None = None,
        *,
        attention: bool = False,
        window: int = 4096,
    ) -> Iterator[Translation]:
        """A translation for each line, in their order. An empty line has an empty translation.

        With `attention` each best one tells where it looked; an empty line has nothing to look at.

        Lines are taken `window` at a time, and those alike in length are translated together.
        """
        search = search or self.search
        lines = iter(lines)
        while some := list(islice(lines, window)):
            sources = [self.source.encode(line) for line in some]
            found = self.engine.translate(sources, search, budget=self.budget)
            for source, hypotheses in zip(sources, found, strict=True):
                best, *others = (self._shown(source, hypothesis) for hypothesis in hypotheses)
                if attention and source:
                    best = replace(best, looked=self._looked(source, hypotheses[0].tokens))
                yield replace(best, alternatives=tuple(others))

    def _shown(self, source: list[int], hypothesis: Hypothesis) -> Translation:
        return Translation(
            self.target.decode(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_prob,
            tuple(self.target.tokens(hypothesis.tokens)),
            tuple(self.source.tokens(source)),
        )

    def look(self, source: str, target: str) -> Looked:
        """Where the model looks when it reads a given translation of a given line."""
        return self._looked(self.source.encode(source), self.target.encode(target))

    def _looked(self, source: Sequence[int], target: Sequence[int]) -> Looked:
        return Looked.at(self.model, (self.source, self.target), source, target)


def rounded_engine(model: Seq2Seq, device: torch.device) -> Engine:
    """Our own engine with linear layers of 8 bits. Raises UserError on a device that is no CPU."""
    if device.type != "cpu":
        raise UserError(f"the engine {INT8} runs on a CPU, not on {device}; give --device cpu")
    return Native(int8(model))


def check_engine(engine: Engine, search: SearchConfig, run: Run, overrides: Sequence[str]) -> None:
    """Raises ConfigError for a search of the run's config that an engine has not: better known before the work."""
    try:
        engine.translate([], search, budget=1)
    except EngineError as error:
        raise run.mistaken(error.mistakes, overrides) from None


def chosen_search(search: SearchConfig, *, beam: int | None, greedy: bool) -> SearchConfig:
    """The search asked for, else `search`; the limits and the normalisation of lengths stay.

    Raises UserError when both a beam and greedy search are asked for.
    """
    if greedy and beam is not None:
        raise UserError("--greedy and --beam exclude each other")
    if greedy:
        return GreedyConfig(kind="greedy", lengths=search.lengths)
    return search if beam is None else BeamConfig(kind="beam", width=beam, lengths=search.lengths)


def chosen_device(name: str) -> torch.device:
    """The device of that name; `auto` is a CUDA card where there is one.

    Raises UserError when there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        cards = [f"cuda:{card}" for card in range(torch.cuda.device_count())]
        known = ", ".join(["auto", "cpu", *cards])
        raise UserError(f"there is no device `{name}` here; known: {known}") from None
    return device


def load(run: Path | str, device: str = "auto", *, allow_code: Sequence[str] = ()) -> Translator:
    """The translator of a run directory: `seq2attn.load("runs/phrasebook").translate(["Guten Morgen."])`."""
    return Translator.load(run, device, allow_code=allow_code)

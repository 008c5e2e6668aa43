"""What is told of a training that has diverged, so that one can see why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from seq2attn.data.prepare import Prepared
from seq2attn.data.read import CorpusConfig, read_pairs
from seq2attn.data.texts import read_texts
from seq2attn.errors import UserError
from seq2attn.experiment import Experiment
from seq2attn.text.files import write_json
from seq2attn.training.checkpoint import TrainState
from seq2attn.training.report import plain
from seq2attn.training.soundness import Skipped

FILE = "divergence.json"
SHOWN = 5
"""Pairs that the message shows."""
WIDTH = 80
"""Characters of each side that it shows."""

Pair = tuple[str, str]


class DivergedError(UserError):
    """A training whose loss or gradients are no finite numbers, whatever the learning rate."""


@dataclass(frozen=True)
class Suspect:
    """A pair of the batch at which training went wrong."""

    place: str
    tokens: int  # of the longer side
    text: Pair


def diverged(
    config: Experiment, prepared: Prepared, state: TrainState, blamed: Skipped, *, writes: bool
) -> DivergedError:
    """The error that ends a training, and a file in the run with all of its batch."""
    suspects = _suspects(config, prepared, blamed.rows)
    path = config.run / FILE
    if writes:
        write_json(
            path,
            {
                "update": blamed.update,
                "epoch": round(state.epochs, 3),
                "learning_rate": plain(blamed.rate),
                "loss": plain(blamed.loss),
                "gradient_norm": plain(blamed.norm),
                "returns": state.returns,
                "pairs": [
                    {"place": s.place, "tokens": s.tokens, "source": s.text[0], "target": s.text[1]}
                    for s in suspects
                ],
            },
        )
    shown = "\n".join(
        f"  {s.place} ({s.tokens} tokens)\n    {_cut(s.text[0])}\n    {_cut(s.text[1])}"
        for s in suspects[:SHOWN]
    )
    then = "" if blamed.skipped else ", and what it learnt is of no use on the dev set"
    times = "once" if state.returns == 1 else f"{state.returns} times"
    return DivergedError(
        f"training has diverged: at update {blamed.update} the loss of a word is {blamed.loss:.6g} and the norm of the "
        f"gradient {blamed.norm:.6g}, at a learning rate of {blamed.rate:.6g}{then}. It went back {times}, each time "
        "with half the rate. Try a lower `training.optimizer.rate`, a longer warm-up in `training.schedule`, or a "
        f"lower `training.clip`; or look at the text it was to learn from. The longest pairs of the batch:\n{shown}\n"
        f"all {len(suspects)} of them, in full: {path}"
    )


def _suspects(config: Experiment, prepared: Prepared, rows: Collection[int]) -> list[Suspect]:
    """The pairs of some rows of the corpus, the longest first."""
    texts, lengths = prepared.train.texts, prepared.train.corpus.lengths
    wanted = {row: text for row, text in enumerate(read_texts(texts)) if row in set(rows)}
    try:
        lines = line_numbers(read_pairs(config.data.train), read_texts(texts), wanted)
    except UserError:  # the text may have gone since it was prepared
        lines = {}
    found = [
        Suspect(_place(config.data.train, texts, row, lines.get(row)), int(lengths[row].max()), text)
        for row, text in wanted.items()
    ]
    return sorted(found, key=lambda suspect: -suspect.tokens)


def line_numbers(read: Iterable[Pair], kept: Iterable[Pair], rows: Collection[int]) -> dict[int, int]:
    """The line of each row: `kept` are some of the pairs that were `read`, in their order.

    Of two equal pairs the first is kept, if any is: so each is the first that comes.
    """
    found: dict[int, int] = {}
    rest = enumerate(kept)
    row, pair = next(rest, (-1, None))
    for number, line in enumerate(read, start=1):
        if pair is None or len(found) == len(rows):
            break
        if line == pair:
            if row in rows:
                found[row] = number
            row, pair = next(rest, (-1, None))
    return found


def _place(corpus: CorpusConfig, texts: Path, row: int, line: int | None) -> str:
    return f"{texts}:{row + 1}" if line is None else f"{corpus.files[0]}:{line}"


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 2] + " …"

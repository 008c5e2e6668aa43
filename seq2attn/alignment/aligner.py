"""The work of `seq2attn align`: which pairs, by which head, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seq2attn.alignment.alignment_error import Agreement
from seq2attn.alignment.head_selection import FILE, FIX, Head, compare, record, recorded, usual_head
from seq2attn.alignment.word_attention import Weights, word_weights
from seq2attn.data.readers import AlignedConfig, check_regular, read_aligned
from seq2attn.data.word_alignment import Alignment, pharaoh
from seq2attn.errors import RunError, UserError
from seq2attn.io.files import output
from seq2attn.io.tables import format_table
from seq2attn.models import Seq2Seq
from seq2attn.nn.device import chosen_device
from seq2attn.run_directory import Run
from seq2attn.tokenizers.base import Tokenizer

WINDOW = 512
"""Pairs whose weights are held at a time."""

Pairs = Sequence[tuple[tuple[str, str], Alignment | None]]


@dataclass(frozen=True)
class Aligner:
    """A trained run that reads pairs to see where it looks."""

    run: Run
    model: Seq2Seq = field(repr=False)
    tokenizers: tuple[Tokenizer, Tokenizer] = field(repr=False)

    @classmethod
    def load(cls, folder: Path, device: str = "auto", *, allow_code: Sequence[str] = ()) -> Aligner:
        """Raises RunError when `folder` is no run, UserError for a device that is not there."""
        run = Run(folder, allow_code)
        model, *tokenizers = run.model(chosen_device(device))
        return cls(run, model, (tokenizers[0], tokenizers[1]))

    def weights(self, pairs: Pairs) -> Iterator[Weights | None]:
        """Where the model looks, pair by pair.

        Raises: RunError when it has no attention.
        """
        for start in range(0, len(pairs), WINDOW):
            some = [pair for pair, _ in pairs[start : start + WINDOW]]
            found = word_weights(self.model, self.tokenizers, some)
            if all(weights is None for weights in found) and any(a.strip() and b.strip() for a, b in some):
                raise RunError(f"{self.run.folder}: the model has no attention, so it aligns nothing")
            yield from found

    def choose(self, pairs: Sequence[tuple[tuple[str, str], Alignment]]) -> dict[Head, Agreement]:
        """Compare all heads on gold alignments, and record the best in the run."""
        compared = compare(zip(self.weights(pairs), (gold for _, gold in pairs), strict=True))
        if not compared:
            raise UserError("there is nothing to choose by: each pair has an empty side")
        record(self.run, compared)
        return compared

    def head(self, weights: Weights) -> tuple[Head, str]:
        """The head that links are taken from, and why.

        Raises: RunError when one was chosen that the model does not have.
        """
        found = recorded(self.run)
        if found is None:
            guided = self.run.experiment().training.guided
            why = "the guided one" if guided else f"none was chosen; {FIX}"
            return usual_head(weights, guided), why
        head, is_current = found
        if not head.fits(weights):
            raise RunError(f"{self.run.folder / FILE}: the model has no {head}; {FIX}")
        return head, "as chosen" if is_current else f"chosen for other weights; {FIX}"


def align_files(aligner: Aligner, corpus: AlignedConfig, to: Path | None) -> None:
    """Write the links of each pair as a line; say by which head, and how they agree with a gold alignment if given."""
    pairs = list(read_aligned(corpus))
    head, lines, agreement = None, list[str](), Agreement()
    for weights, (_, gold) in zip(aligner.weights(pairs), pairs, strict=True):
        if head is None and weights is not None:
            head, why = aligner.head(weights)
            print(f"links by {head} ({why})", file=sys.stderr)
        links = head.links(weights) if head else []
        lines.append(pharaoh(links) + "\n")
        agreement += Agreement.of(links, gold) if gold else Agreement()
    if to is None:
        sys.stdout.writelines(lines)
    else:
        with output(to) as file:
            file.write("".join(lines).encode())
    if corpus.alignment is not None:
        print(agreement, file=sys.stderr)


def choose_by(run: Run, corpus: AlignedConfig | None) -> AlignedConfig:
    """What heads are compared on: the files given, else the dev set of the run.

    Raises: UserError when there are no gold alignments.
    """
    if corpus is None:
        dev = run.experiment().data.dev
        corpus = dev if isinstance(dev, AlignedConfig) else None
        if corpus is None or corpus.alignment is None:
            raise UserError(
                "to choose a head needs gold alignments: give --source, --target and --reference"
                " (the run's `data.dev` has no `alignment`)"
            )
        check_regular(corpus)
    elif corpus.alignment is None:
        raise UserError("to choose a head needs gold alignments: give --reference too")
    return corpus


def choose_head(aligner: Aligner, corpus: AlignedConfig) -> None:
    """Compare all heads, record the best, and print the table, best first."""
    pairs = [(pair, gold) for pair, gold in read_aligned(corpus) if gold is not None]
    compared = aligner.choose(pairs)
    print(table(compared))
    best = next(iter(compared))
    print(f"{aligner.run.folder / FILE}: links are now by {best}", file=sys.stderr)


def table(compared: Mapping[Head, Agreement]) -> str:
    """How heads agree with the gold alignments, a line each."""
    rows = [
        (
            f"{head.layer}",
            f"{head.head}",
            head.step,
            *(f"{x:.1%}" for x in (own.precision, own.recall, own.error_rate)),
        )
        for head, own in compared.items()
    ]
    return format_table([("layer", "head", "step", "precision", "recall", "AER"), *rows], num_text_columns=3)

"""The work of `seq2attn align`: links of sentence pairs, and the selection of the head they are taken from."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seq2attn.alignment.alignment_error import AlignmentErrorRate
from seq2attn.alignment.head_selection import (
    ALIGNMENT_FILE,
    ALIGNMENT_HINT,
    AttentionHead,
    default_head,
    load_selected_head,
    save_selected_head,
    score_heads,
)
from seq2attn.alignment.word_attention import WordAttention, word_attention_weights
from seq2attn.data.readers import PlainTextConfig, check_regular, read_pairs_with_alignments
from seq2attn.data.word_alignment import WordAlignment, format_pharaoh
from seq2attn.errors import RunError, UserError
from seq2attn.io.files import output
from seq2attn.io.tables import format_table
from seq2attn.models import Seq2Seq
from seq2attn.nn.device import resolve_device
from seq2attn.run_directory import RunDirectory
from seq2attn.tokenizers.base import Tokenizer

PAIRS_PER_CHUNK = 512
"""Pairs whose weights are held at a time."""

Pairs = Sequence[tuple[tuple[str, str], WordAlignment | None]]


@dataclass(frozen=True)
class Aligner:
    """A trained run that reads pairs to see where it looks."""

    run: RunDirectory
    model: Seq2Seq = field(repr=False)
    tokenizers: tuple[Tokenizer, Tokenizer] = field(repr=False)

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> Aligner:
        """Raises RunError when `folder` is no run, UserError for a device that is not there."""
        run = RunDirectory(folder)
        model, *tokenizers = run.load_model(resolve_device(device))
        return cls(run, model, (tokenizers[0], tokenizers[1]))

    def attention_weights(self, pairs: Pairs) -> Iterator[WordAttention | None]:
        """Where the model looks, pair by pair.

        Raises: RunError when it has no attention.
        """
        for start in range(0, len(pairs), PAIRS_PER_CHUNK):
            some = [pair for pair, _ in pairs[start : start + PAIRS_PER_CHUNK]]
            found = word_attention_weights(self.model, self.tokenizers, some)
            if all(weights is None for weights in found) and any(a.strip() and b.strip() for a, b in some):
                raise RunError(f"{self.run.folder}: the model has no attention, so it aligns nothing")
            yield from found

    def select_head(
        self, pairs: Sequence[tuple[tuple[str, str], WordAlignment]]
    ) -> dict[AttentionHead, AlignmentErrorRate]:
        """Compare all heads on gold alignments, and record the best in the run."""
        compared = score_heads(zip(self.attention_weights(pairs), (gold for _, gold in pairs), strict=True))
        if not compared:
            raise UserError("there is nothing to choose by: each pair has an empty side")
        save_selected_head(self.run, compared)
        return compared

    def selected_head(self, weights: WordAttention) -> tuple[AttentionHead, str]:
        """The head that links are taken from, and why.

        Raises: RunError when one was chosen that the model does not have.
        """
        found = load_selected_head(self.run)
        if found is None:
            guided = self.run.load_config().training.guided_alignment
            why = "the guided one" if guided else f"none was chosen; {ALIGNMENT_HINT}"
            return default_head(weights, guided), why
        head, is_current = found
        if not head.exists_in(weights):
            raise RunError(f"{self.run.folder / ALIGNMENT_FILE}: the model has no {head}; {ALIGNMENT_HINT}")
        return head, "as chosen" if is_current else f"chosen for other weights; {ALIGNMENT_HINT}"


def align_files(aligner: Aligner, corpus: PlainTextConfig, to: Path | None) -> None:
    """Write the links of each pair as a line; report the head, and the agreement with a gold alignment if given."""
    pairs = list(read_pairs_with_alignments(corpus))
    head, lines, agreement = None, list[str](), AlignmentErrorRate()
    for weights, (_, gold) in zip(aligner.attention_weights(pairs), pairs, strict=True):
        if head is None and weights is not None:
            head, why = aligner.selected_head(weights)
            print(f"links by {head} ({why})", file=sys.stderr)
        links = head.links(weights) if head else []
        lines.append(format_pharaoh(links) + "\n")
        agreement += AlignmentErrorRate.from_links(links, gold) if gold else AlignmentErrorRate()
    if to is None:
        sys.stdout.writelines(lines)
    else:
        with output(to) as file:
            file.write("".join(lines).encode())
    if corpus.alignment is not None:
        print(agreement, file=sys.stderr)


def head_selection_corpus(run: RunDirectory, corpus: PlainTextConfig | None) -> PlainTextConfig:
    """What heads are compared on: the files given, else the dev set of the run.

    Raises: UserError when there are no gold alignments.
    """
    if corpus is None:
        dev = run.load_config().data.dev
        corpus = dev if isinstance(dev, PlainTextConfig) else None
        if corpus is None or corpus.alignment is None:
            raise UserError(
                "selecting a head needs gold alignments: give --source, --target and --gold"
                " (the run's `data.dev` has no `alignment`)"
            )
        check_regular(corpus)
    elif corpus.alignment is None:
        raise UserError("selecting a head needs gold alignments: give --gold too")
    return corpus


def run_head_selection(aligner: Aligner, corpus: PlainTextConfig) -> None:
    """Compare all heads, record the best, and print the table, best first."""
    pairs = [(pair, gold) for pair, gold in read_pairs_with_alignments(corpus) if gold is not None]
    compared = aligner.select_head(pairs)
    print(format_head_table(compared))
    best = next(iter(compared))
    print(f"{aligner.run.folder / ALIGNMENT_FILE}: links are now by {best}", file=sys.stderr)


def format_head_table(compared: Mapping[AttentionHead, AlignmentErrorRate]) -> str:
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

"""Word alignment of text: links of sentence pairs, and the selection of an attention head."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seq2attn.data.readers import PlainTextConfig, check_regular, read_pairs
from seq2attn.data.word_alignment import AlignmentLink, WordAlignment
from seq2attn.errors import RunError, UserError
from seq2attn.evaluation.head_selection import (
    ALIGNMENT_FILE,
    ALIGNMENT_HINT,
    AlignmentErrorRate,
    AttentionHead,
    WordAttention,
    default_head,
    load_selected_head,
    save_selected_head,
    score_heads,
    word_attention_weights,
)
from seq2attn.experiment.run_directory import LoadedRun, RunDirectory
from seq2attn.inference.input_checks import UNTAGGED, check_finite, enumerate_lines
from seq2attn.io.terminal import print_warnings
from seq2attn.models.attention_weights import cross_attention_weights
from seq2attn.nn.device import resolve_device
from seq2attn.options.runs import AlignOptions

PAIRS_PER_CHUNK = 64
"""Number of pairs whose weights are in memory at a time."""

Pairs = Sequence[tuple[tuple[str, str], WordAlignment | None]]


def _load(run: RunDirectory, options: AlignOptions, tag: str | None) -> LoadedRun:
    """The run with the target language of the options.

    Raises RunError for another folder, UserError for an unavailable device or language, and for an unknown tag.
    """
    loaded = run.load(resolve_device(options.device))
    if options.to is not None:
        loaded = replace(loaded, tokenizers=loaded.tokenizers.translate_into(options.to))
    loaded.tokenizers.source.check_tag(tag)
    return loaded


def _attention_weights(run: RunDirectory, loaded: LoadedRun, pairs: Pairs) -> Iterator[WordAttention | None]:
    """Attention weights pair by pair. Raises RunError for a model without attention."""
    if cross_attention_weights(loaded.model, [((), ())])[0] is None:
        raise RunError(f"{run.folder}: the model has no attention, so it cannot align words")
    for start in range(0, len(pairs), PAIRS_PER_CHUNK):
        chunk = [pair for pair, _ in pairs[start : start + PAIRS_PER_CHUNK]]
        yield from word_attention_weights(loaded.model, loaded.tokenizers, chunk)


def _head_of(run: RunDirectory, loaded: LoadedRun, weights: WordAttention) -> tuple[AttentionHead, str]:
    """The head that links come from, with the reason. Raises RunError for one that the model does not have."""
    selection = load_selected_head(run)
    if selection is None:
        guided = loaded.experiment.training.guided_alignment
        return default_head(weights, guided), "guided" if guided else f"default; {ALIGNMENT_HINT}"
    head, is_current = selection
    if not head.exists_in(weights):
        raise RunError(f"{run.folder / ALIGNMENT_FILE}: the model has no {head}; {ALIGNMENT_HINT}")
    return head, "selected" if is_current else f"selected for other weights; {ALIGNMENT_HINT}"


def _are_finite(weights: WordAttention | None) -> bool:
    return weights is None or bool(np.isfinite(weights).all())


def _require_finite(weights: Iterable[WordAttention | None]) -> Iterator[WordAttention | None]:
    """The weights of each pair. Raises UserError at the first that are not finite."""
    for number, pair_weights in enumerate(weights, start=1):
        check_finite([] if _are_finite(pair_weights) else [number])
        yield pair_weights


@dataclass(frozen=True)
class TextAlignment:
    """Word alignment of sentence pairs."""

    links: tuple[Sequence[AlignmentLink] | None, ...]  # of each pair; None without finite log-probabilities
    head: AttentionHead | None  # that gives the links; None if all pairs have an empty side
    reason: str  # of the choice of the head
    error_rate: AlignmentErrorRate | None  # with gold alignments

    @property
    def not_finite(self) -> list[int]:
        """The numbers, from 1, of pairs for which the model gives no finite log-probabilities."""
        return [number for number, links in enumerate(self.links, start=1) if links is None]


def align(run: Path | str, options: AlignOptions) -> TextAlignment:
    """The alignment of two files with the attention weights of a run, under forced decoding.

    Raises UserError for a tag that the model does not know; RunError for a model without attention.
    """
    corpus = _corpus(options)
    if corpus is None:
        raise UserError("give ``source`` and ``target``")
    directory = RunDirectory(Path(run))
    loaded = _load(directory, options, corpus.tag)
    pairs = list(read_pairs(corpus))
    untagged = [i for i, ((source, _), _) in enumerate(pairs, 1) if loaded.tokenizers.source.lacks_tag(source)]
    if untagged:
        print_warnings([f"{enumerate_lines(untagged)}: {UNTAGGED}"])
    head, reason = None, ""
    rate = AlignmentErrorRate()
    all_links = list[Sequence[AlignmentLink] | None]()
    for weights, (_, gold) in zip(_attention_weights(directory, loaded, pairs), pairs, strict=True):
        if not _are_finite(weights):
            all_links.append(None)
            continue
        if head is None and weights is not None:
            head, reason = _head_of(directory, loaded, weights)
        links = head.links(weights) if head else []
        all_links.append(links)
        rate += AlignmentErrorRate.from_links(links, gold) if gold else AlignmentErrorRate()
    return TextAlignment(tuple(all_links), head, reason, None if corpus.alignment is None else rate)


def _corpus(options: AlignOptions) -> PlainTextConfig | None:
    """The pairs of the options; None without. Raises UserError for options that need others."""
    if options.source is not None and options.target is not None:
        return PlainTextConfig.of_files(options.source, options.target, alignment=options.gold, tag=options.tag)
    if (options.source, options.target, options.gold) != (None, None, None):
        raise UserError("give ``source`` and ``target`` together")
    if (options.tag, options.to) != (None, None):
        raise UserError("``tag`` and ``to`` are for ``source``; the config's dev set has its own")
    return None


def _head_selection_corpus(run: RunDirectory, options: AlignOptions) -> PlainTextConfig:
    """The corpus for head selection, by default the dev set of the run. Raises UserError without gold alignments."""
    given = _corpus(options)
    corpus = given or run.load_config().data.dev
    if not isinstance(corpus, PlainTextConfig) or corpus.alignment is None:
        more = "``source``, ``target`` and ``gold`` (the run's `data.dev` has no `alignment`)"
        raise UserError(f"selecting a head needs gold alignments: give {'``gold`` too' if given else more}")
    if given is None:
        check_regular(corpus)
    return corpus


def select_alignment_head(run: Path | str, options: AlignOptions) -> dict[AttentionHead, AlignmentErrorRate]:
    """The error rates of all heads on gold alignments, best first; the best is recorded in the run, for `align`.

    Raises UserError without pairs to compare on, if the weights of a pair are not finite, and for an unknown tag.
    """
    directory = RunDirectory(Path(run))
    corpus = _head_selection_corpus(directory, options)
    loaded = _load(directory, options, corpus.tag)
    pairs = [(pair, gold) for pair, gold in read_pairs(corpus) if gold is not None]
    weights = _require_finite(_attention_weights(directory, loaded, pairs))
    rates = score_heads(zip(weights, (gold for _, gold in pairs), strict=True))
    if not rates:
        raise UserError("selecting a head needs sentence pairs: each pair has an empty side")
    save_selected_head(directory, rates)
    return rates

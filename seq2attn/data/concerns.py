"""What of a report on data its owner should know before training, or before believing a score.

The thresholds are shares; a handful of lines is not worth a word whatever its share.
"""

from __future__ import annotations

from collections.abc import Iterator

from seq2attn.data.report import DataReport, Found, PairsReport
from seq2attn.text.letters import closer
from seq2attn.text.manner import MANY_LETTERS, tokenised, unlike

HANDFUL = 3
UNKNOWN = 0.01
"""Unknown tokens among all of a side."""
LEFT_OUT = 0.1
"""Training pairs that filters leave out."""
ONE_SIDED = 0.001
"""Pairs with text on one side only: there are none in a sound corpus, and a shifted one often has some."""
DUPLICATE = 0.1
"""Training pairs that came before."""
IDENTICAL = 0.01
"""Pairs of which both sides are the same text."""
OTHER_SCRIPT = 0.01
"""Lines in another script than their side's."""
SWAPPED = 0.001
"""Pairs of which each side is in the script of the other."""
ODD = 0.001
"""Lines with control characters, U+FFFD, or UTF-8 that was read as Latin-1."""
LEARNT = 0.01
"""Pairs of a dev or test set that are training pairs. (Sources alone may well be: `Thank you.`)"""
CLEARER = 0.02
"""How much likelier, in nats a letter, the letters of each side must be as the training text's other side."""


def concerns(report: DataReport) -> list[str]:
    """What should be known of all corpora of a run, a line each."""
    train, kept = report.train, report.filters
    said = list(_of_any("train", train))
    if kept.read - kept.kept > LEFT_OUT * kept.read:
        said.append(f"train: {kept}")
    if train.duplicates > max(HANDFUL, DUPLICATE * train.pairs):
        share = train.duplicates / train.pairs
        said.append(
            f"train: {train.duplicates:,} pairs ({share:.1%}) came before;"
            " `data.filters.duplicates: true` leaves them out"
        )
    for name, one in report.measured.items():
        said += concerns_of(name, one, train)
    return said


def concerns_of(name: str, pairs: PairsReport, train: PairsReport | None) -> list[str]:
    """What should be known of a dev or test set beside the training text, where that is known."""
    said = list(_of_any(name, pairs))
    if pairs.learnt_pairs is not None and pairs.learnt_pairs > max(HANDFUL, LEARNT * pairs.pairs):
        share = pairs.learnt_pairs / pairs.pairs
        said.append(
            f"{name}: {pairs.learnt_pairs:,} of its {pairs.pairs:,} pairs ({share:.1%}) are training pairs;"
            " what is measured on them is memory"
        )
    if train is not None:
        said += _beside(name, pairs, train)
    return said


def _of_any(name: str, pairs: PairsReport) -> Iterator[str]:
    for side, one in pairs.sides:
        if one.unknown_rate > UNKNOWN:
            count = f"{one.unknown:,} of {one.all_tokens:,}"
            yield f"{name}: the {side} has {one.unknown_rate:.1%} unknown tokens, {count}"
        if _is_much(one.other_script, OTHER_SCRIPT, pairs.pairs):
            yield f"{name}: the {side} is in {one.script}, {_lines(one.other_script)} in another script"
        for what, found in (
            ("control characters", one.control),
            ("U+FFFD, where something was not decoded", one.replaced),
            ("UTF-8 that was read as Latin-1, such as `Ã¤` for `ä`", one.garbled),
        ):
            if _is_much(found, ODD, pairs.pairs):
                yield f"{name}: the {side} has {what} in {_lines(found)}"
    for what, found, share in (
        ("have text on one side only", pairs.one_sided, ONE_SIDED),
        ("have the same text on both sides", pairs.identical, IDENTICAL),
        ("have source and target swapped, by their scripts", pairs.swapped, SWAPPED),
    ):
        if _is_much(found, share, pairs.pairs):
            yield f"{name}: {_lines(found)} {what}"


def _beside(name: str, pairs: PairsReport, train: PairsReport) -> Iterator[str]:
    if is_swapped(pairs, train):
        yield f"{name}: source and target look swapped: the letters of each are those of the other in training"
        return  # all else would only say so again
    for (side, one), (_, learnt) in zip(pairs.sides, train.sides, strict=True):
        for what in unlike(one.manner, learnt.manner, case_matters=learnt.case_matters).values():
            yield f"{name}: the {side} {what}"


def tokenised_references(name: str, pairs: PairsReport) -> list[str]:
    """Whether the references are such that scores on them cannot be compared with those of others."""
    return [
        f"{name}: the references are tokenised ({what}), so scores on them cannot be compared with others'"
        for what in tokenised(pairs.target.manner)
    ]


def is_swapped(pairs: PairsReport, train: PairsReport) -> bool:
    """Whether the letters of either side are rather those of the other side in the training text."""
    ours, theirs = [side.letters for _, side in pairs.sides], [side.letters for _, side in train.sides]
    if min(sum(letters.values()) for letters in (*ours, *theirs)) < MANY_LETTERS:
        return False
    return all(closer(ours[i], theirs[1 - i], theirs[i]) > CLEARER for i in (0, 1))


def _is_much(found: Found, share: float, lines: int) -> bool:
    return found.lines >= HANDFUL and found.lines > share * lines


def _lines(found: Found) -> str:
    shown = ", ".join(map(str, found.first))
    more = found.lines - len(found.first)
    if found.lines == 1:
        return f"line {shown}"
    return f"{found.lines:,} lines ({shown}{f' and {more:,} more' if more else ''})"

"""Lines of public corpora in their own formats, as plain lines: SGML, XML and TED tags, and tab-separated pairs.

Lines are bytes that end with a newline, split at `\\n` only: some corpora hold U+2028 within sentences.
"""

import hashlib
import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

VALID_EVERY = 23
"""The pair in 23 of TED's training text that `prepare-iwslt14.sh` of fairseq sets aside for validation."""
HELD_OUT_PAIRS = 2000
"""Pairs of the dev set and the test set of Tatoeba."""
_SEGMENT = re.compile(rb"<seg[^>]*>(.*)</seg>")
_TED_METADATA = re.compile(rb"\s*<(url|talkid|keywords|speaker|reviewer|translator)\b")
_TED_TEXT_TAGS = re.compile(rb"</?(title|description)>")


def plain(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, each with a newline, so that files can be joined."""
    return (line.rstrip(b"\r\n") + b"\n" for line in lines)


def unescaped(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines with characters in the place of entities such as `&apos;`."""
    for line in plain(lines):
        yield html.unescape(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def sgml_segments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The segments of a WMT test set, with single spaces and as sacreBLEU has them (entities are kept)."""
    matches = map(_SEGMENT.search, lines)
    return (b" ".join(match[1].split()) + b"\n" for match in matches if match)


def xml_segments(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The segments of a test set of IWSLT."""
    return unescaped(sgml_segments(lines))


def ted(lines: Iterable[bytes], *, split: str) -> Iterator[bytes]:
    """A split of `train.tags`, `train` or `dev`: sentences, titles and descriptions of talks."""
    sentences = (_TED_TEXT_TAGS.sub(b"", line).strip() + b"\n" for line in lines if not _TED_METADATA.match(line))
    numbered = enumerate(unescaped(sentences), start=1)
    return (line for number, line in numbered if (number % VALID_EVERY == 0) == (split == "dev"))


def tatoeba(lines: Iterable[bytes], *, split: str, column: int) -> Iterator[bytes]:
    """One side of a split of tab-separated pairs, by groups of pairs that share a sentence on either side.

    No sentence of `dev` or `test` is in another split, although a sentence has several translations. Groups are in
    the order of a hash of their smallest pair, so that new pairs hardly change the splits of others.
    Duplicates are left out.
    """
    sizes = {"test": 0, "dev": 0}
    for group in _groups(lines):
        chosen = next((name for name, size in sizes.items() if size + len(group) <= HELD_OUT_PAIRS), "train")
        if chosen != "train":
            sizes[chosen] += len(group)
        if chosen == split:
            yield from (pair[column] + b"\n" for pair in group)


def _groups(lines: Iterable[bytes]) -> list[list[tuple[bytes, ...]]]:
    """The connected components of the graph of sentences, by union-find."""
    parents: dict[tuple[int, bytes], tuple[int, bytes]] = {}

    def root(node: tuple[int, bytes]) -> tuple[int, bytes]:
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = parents[parent]
            node = parent
        return node

    rows = (line.rstrip(b"\r\n").split(b"\t") for line in lines)
    pairs = sorted({tuple(columns[:2]) for columns in rows if len(columns) > 1 and all(columns[:2])})
    for source, target in pairs:
        parents[root((0, source))] = root((1, target))
    groups = defaultdict(list)
    for pair in pairs:
        groups[root((0, pair[0]))].append(pair)
    return sorted(groups.values(), key=lambda group: hashlib.sha256(b"\t".join(group[0])).digest())

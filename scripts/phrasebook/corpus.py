"""The corpus: which sentences are for training, for the two tests, and for the test of length."""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from phrasebook.compose import Composer
from phrasebook.long import LongComposer
from phrasebook.words import Text

SEED = 2024
SIZES = {"train": 9000, "dev": 500, "test": 500, "long": 300}
POOL = 10_000  # drawn for training, before those with rare words are left out
LONGEST = 15  # words of a training sentence, on either side
COMMON = 5  # how often training has every word of the tests


class Corpus(NamedTuple):
    """Pairs by the name of their part."""

    parts: dict[str, list[Text]]

    def files(self) -> dict[str, bytes]:
        """What is to be written, by file name."""
        return {
            f"{part}.{side}": "".join(f"{say(pair)}\n" for pair in pairs).encode()
            for part, pairs in self.parts.items()
            for side, say in (("de", _german), ("en", _english), ("align", _links))
        }


def _german(pair: Text) -> str:
    return pair.de


def _english(pair: Text) -> str:
    return pair.en


def _links(pair: Text) -> str:
    """German and English words that say the same thing, as the tools for alignment write it; `?` is only possible."""
    return " ".join(f"{de}{'-' if is_sure else '?'}{en}" for de, en, is_sure in pair.links)


def words(line: str) -> list[str]:
    """The words and marks of a line, in their own case."""
    return re.findall(r"\w+|[^\w\s]", line)


def length(line: str) -> int:
    """How many words the line has, by its spaces."""
    return len(line.split())


class _Fresh:
    """Draws pairs of which neither side has been drawn before."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def draw(self, sentence: Callable[[], Text], count: int, fits: Callable[[Text], bool]) -> list[Text]:
        """That many new pairs that fit."""
        pairs: list[Text] = []
        while len(pairs) < count:
            pair = sentence()
            if not fits(pair) or {pair.de.lower(), pair.en.lower()} & self._seen:
                continue
            self._seen |= {pair.de.lower(), pair.en.lower()}
            pairs.append(pair)
        return pairs


def _counts(pairs: list[Text]) -> Counter[str]:
    """How often the pairs have each word, both sides together."""
    return Counter(word for pair in pairs for line in (pair.de, pair.en) for word in words(line))


def _known(pair: Text, counts: Counter[str]) -> bool:
    """Whether each word of the pair is a common one."""
    return all(counts[word] >= COMMON for line in (pair.de, pair.en) for word in words(line))


def _common(pairs: list[Text]) -> list[Text]:
    """Leave out pairs with rare words, until no word is rare."""
    while True:
        counts = _counts(pairs)
        kept = [pair for pair in pairs if _known(pair, counts)]
        if len(kept) == len(pairs):
            return kept
        pairs = kept


@cache
def build() -> Corpus:
    """Everything, the same in each run."""
    fresh, short, long = _Fresh(), Composer(SEED), LongComposer(SEED + 1)

    def fits(pair: Text) -> bool:
        return max(length(pair.de), length(pair.en)) <= LONGEST

    train = _common(fresh.draw(short.sentence, POOL, fits))[: SIZES["train"]]
    counts = _counts(train)

    def fits_and_known(pair: Text) -> bool:
        return fits(pair) and _known(pair, counts)

    def long_and_known(pair: Text) -> bool:
        return min(length(pair.de), length(pair.en)) > LONGEST and _known(pair, counts)

    return Corpus(
        {
            "train": train,
            "dev": fresh.draw(short.sentence, SIZES["dev"], fits_and_known),
            "test": fresh.draw(short.sentence, SIZES["test"], fits_and_known),
            "long": fresh.draw(long.sentence, SIZES["long"], long_and_known),
        }
    )

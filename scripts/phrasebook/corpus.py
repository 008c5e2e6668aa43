"""The corpus: training, dev and test sentences, and a test set of longer ones."""

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
POOL = 10_000  # training sentences before those with rare words are left out
MAX_WORDS = 15  # of a training sentence, on either side
MIN_COUNT = 5  # of the words of the test sets in training


class Corpus(NamedTuple):
    """Pairs by the name of their part."""

    parts: dict[str, list[Text]]

    def files(self) -> dict[str, bytes]:
        """The content of the files, by name."""
        columns = {"de": lambda pair: pair.de, "en": lambda pair: pair.en, "align": _format_links}
        return {
            f"{part}.{suffix}": "".join(f"{column(pair)}\n" for pair in pairs).encode()
            for part, pairs in self.parts.items()
            for suffix, column in columns.items()
        }


def _format_links(pair: Text) -> str:
    """Links between German and English words in Pharaoh format; possible ones with `?`."""
    return " ".join(f"{de}{'-' if is_sure else '?'}{en}" for de, en, is_sure in pair.links)


def words(line: str) -> list[str]:
    """The words and punctuation marks of a line."""
    return re.findall(r"\w+|[^\w\s]", line)


def length(line: str) -> int:
    """The number of words between spaces."""
    return len(line.split())


class _Sampler:
    """Samples pairs whose sides are both new."""

    def __init__(self) -> None:
        self._sides: set[str] = set()

    def sample(self, sentence: Callable[[], Text], count: int, fits: Callable[[Text], bool]) -> list[Text]:
        """`count` new pairs that fit."""
        pairs: list[Text] = []
        while len(pairs) < count:
            pair = sentence()
            if not fits(pair) or {pair.de.lower(), pair.en.lower()} & self._sides:
                continue
            self._sides |= {pair.de.lower(), pair.en.lower()}
            pairs.append(pair)
        return pairs


def _counts(pairs: list[Text]) -> Counter[str]:
    """The counts of all words of both sides."""
    return Counter(word for pair in pairs for line in (pair.de, pair.en) for word in words(line))


def _known(pair: Text, counts: Counter[str]) -> bool:
    """True if each word of the pair is frequent enough."""
    return all(counts[word] >= MIN_COUNT for line in (pair.de, pair.en) for word in words(line))


def _without_rare_words(pairs: list[Text]) -> list[Text]:
    """The pairs without those that have rare words, repeatedly until no word is rare."""
    while True:
        counts = _counts(pairs)
        remaining = [pair for pair in pairs if _known(pair, counts)]
        if len(remaining) == len(pairs):
            return pairs
        pairs = remaining


@cache
def build() -> Corpus:
    """The whole corpus, the same in each run."""
    sampler, short, long = _Sampler(), Composer(SEED), LongComposer(SEED + 1)

    def fits(pair: Text) -> bool:
        return max(length(pair.de), length(pair.en)) <= MAX_WORDS

    train = _without_rare_words(sampler.sample(short.sentence, POOL, fits))[: SIZES["train"]]
    counts = _counts(train)

    def fits_and_known(pair: Text) -> bool:
        return fits(pair) and _known(pair, counts)

    def long_and_known(pair: Text) -> bool:
        return min(length(pair.de), length(pair.en)) > MAX_WORDS and _known(pair, counts)

    return Corpus(
        {
            "train": train,
            "dev": sampler.sample(short.sentence, SIZES["dev"], fits_and_known),
            "test": sampler.sample(short.sentence, SIZES["test"], fits_and_known),
            "long": sampler.sample(long.sentence, SIZES["long"], long_and_known),
        }
    )

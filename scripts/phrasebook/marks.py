"""Which words say the same thing: marks that words carry while a sentence is put together.

A mark is a character for private use after a word. A phrase marks its words with their parts in it, a clause says which
phrase that is, and where a clause has been said in both languages, words of the same mark are linked for good.
"""

import re
from enum import IntEnum, auto
from itertools import count

from phrasebook.words import Text

PARTS, LINKS, POSSIBLE, LAST = 0xF0000, 0x100000, 0x108000, 0x10FFFD
WORDS = 10
"""Words of a set phrase that are told apart."""
_links = count()


class Part(IntEnum):
    """What a word is within its phrase; a set phrase has words by number before these."""

    DETERMINER = WORDS
    ADJECTIVE = auto()
    NOUN = auto()
    ALONE = auto()
    PREPOSITION = auto()
    COMPARED = auto()
    THAN = auto()


class Slot(IntEnum):
    """What a phrase or a word is within its clause."""

    SUBJECT = 1
    OBJECT = auto()
    RECEIVER = auto()
    PLACE = auto()
    PREDICATE = auto()
    TIME = auto()
    VERB = auto()
    HELPER = auto()
    ANY_VERB = auto()
    MODAL = auto()
    NOT = auto()
    GLADLY = auto()
    PLEASE = auto()
    OPENING = auto()
    PURPOSE = auto()
    TO = auto()


def marked(words: str, what: Part | Slot | int) -> str:
    """The words, each with this mark unless it has one."""
    mark = chr(PARTS + (64 * what if isinstance(what, Slot) else what))
    return " ".join(word if bare(word) != word else word + mark for word in words.split(" ") if word)


def also(words: str, what: Part | Slot) -> str:
    """The words, each with this mark besides those that it has."""
    return " ".join(word + marked("x", what)[1:] for word in words.split(" ") if word)


def verb(words: str) -> str:
    """Words that carry the verb's meaning. With its helpers in the other language they are only possibly linked."""
    return also(marked(words, Slot.VERB), Slot.ANY_VERB)


def helper(words: str) -> str:
    """Words that help a verb: have, be and do."""
    return also(marked(words, Slot.HELPER), Slot.ANY_VERB)


def within(slot: Slot, phrase: str) -> str:
    """A phrase as part of a clause: its marks become those of the slot."""
    return re.sub(
        f"[{chr(PARTS)}-{chr(PARTS + 63)}]",
        lambda found: chr(ord(found[0]) + 64 * slot),
        marked(phrase, Part.ALONE),
    )


def parallel(text: Text, start: int = 0) -> Text:
    """A set phrase: word by word, if there are as many, else the last words and all others; one word with all."""
    de, en = text.de.split(" "), text.en.split(" ")
    numbers = [list(range(len(side))) for side in (de, en)]
    if min(len(de), len(en)) == 1:
        numbers = [[0] * len(side) for side in (de, en)]
    elif len(de) != len(en):
        numbers = [[0] * (len(side) - 1) + [1] for side in (de, en)]
    elif en[-1] == "ago":  # vor zwei Tagen
        numbers[1] = [*range(1, len(en)), 0]
    sides = [
        " ".join(marked(word, start + n) for word, n in zip(words, own, strict=True))
        for words, own in zip((de, en), numbers, strict=True)
    ]
    return Text(sides[0], sides[1])


def linked(de: str, en: str) -> Text:
    """A clause in both languages: its marks become links that no other clause has."""
    fresh: dict[str, str] = {}

    def link(found: re.Match[str]) -> str:
        first = POSSIBLE if found[0] == chr(PARTS + 64 * Slot.ANY_VERB) else LINKS
        return fresh.setdefault(found[0], chr(first + next(_links) % (LAST - POSSIBLE)))

    pattern = f"[{chr(PARTS)}-{chr(LINKS - 1)}]"
    return Text(re.sub(pattern, link, de), re.sub(pattern, link, en))


def bare(words: str) -> str:
    """The words without their marks."""
    return re.sub(f"[{chr(PARTS)}-{chr(LAST)}]", "", words)


def alignment(text: Text) -> tuple[tuple[int, int, bool], ...]:
    """The German and English words, by number, that carry the same link, in English order, and whether it is sure."""
    de, en = ([set(word) - set(bare(word)) for word in line.split()] for line in (text.de, text.en))
    both = [(i, j, german & english) for j, english in enumerate(en) for i, german in enumerate(de)]
    return tuple((i, j, min(shared) < chr(POSSIBLE)) for i, j, shared in both if shared)

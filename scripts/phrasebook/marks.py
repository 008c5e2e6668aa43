"""Word alignment of the sentences: marks on words while a sentence is composed.

A mark is a private-use character after a word. A phrase marks its words with their parts in it, a clause adds the slot
of the phrase, and words with the same mark in both languages of a clause are linked.
"""

import re
from enum import IntEnum, auto
from itertools import count

from phrasebook.words import Text

PARTS, LINKS, POSSIBLE, LAST = 0xF0000, 0x100000, 0x108000, 0x10FFFD
WORDS = 10
"""Maximum number of words in a set phrase."""
_MARK, _PART = re.compile(f"[{chr(PARTS)}-{chr(LAST)}]+"), re.compile(f"[{chr(PARTS)}-{chr(LINKS - 1)}]")
_links = count()


class Part(IntEnum):
    """Part of a word in its phrase; smaller values are the words of a set phrase."""

    DETERMINER = WORDS
    ADJECTIVE = auto()
    NOUN = auto()
    ALONE = auto()
    PREPOSITION = auto()
    COMPARED = auto()
    THAN = auto()


class Slot(IntEnum):
    """Slot of a phrase or a word in its clause."""

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
    return " ".join(word if word[-1] >= chr(PARTS) else word + mark for word in words.split(" ") if word)


def also(words: str, what: Part | Slot) -> str:
    """The words, each with this mark after its others."""
    return " ".join(word + marked("x", what)[1:] for word in words.split(" ") if word)


def verb(words: str) -> str:
    """Words with the meaning of a verb. Their links with auxiliaries of the other language are only possible ones."""
    return also(marked(words, Slot.VERB), Slot.ANY_VERB)


def helper(words: str) -> str:
    """Auxiliary verbs: have, be and do."""
    return also(marked(words, Slot.HELPER), Slot.ANY_VERB)


def within(slot: Slot, phrase: str) -> str:
    """A phrase as part of a clause: its marks become those of the slot."""
    return re.sub(
        f"[{chr(PARTS)}-{chr(PARTS + 63)}]",
        lambda match: chr(ord(match[0]) + 64 * slot),
        marked(phrase, Part.ALONE),
    )


def parallel(text: Text, start: int = 0) -> Text:
    """A set phrase with links: word by word for equal numbers of words, one word with all, or the last words."""
    de, en = text.de.split(" "), text.en.split(" ")
    numbers = [list(range(len(side))) for side in (de, en)]
    if min(len(de), len(en)) == 1:
        numbers = [[0] * len(side) for side in (de, en)]
    elif len(de) != len(en):
        numbers = [[0] * (len(side) - 1) + [1] for side in (de, en)]
    elif en[-1] == "ago":  # vor zwei Tagen
        numbers[1] = [*range(1, len(en)), 0]
    sides = [
        " ".join(marked(word, start + n) for word, n in zip(words, indices, strict=True))
        for words, indices in zip((de, en), numbers, strict=True)
    ]
    return Text(sides[0], sides[1])


def linked(de: str, en: str) -> Text:
    """A clause in both languages: its marks become links that no other clause has."""
    links: dict[str, str] = {}

    def link(match: re.Match[str]) -> str:
        first = POSSIBLE if match[0] == chr(PARTS + 64 * Slot.ANY_VERB) else LINKS
        return links.setdefault(match[0], chr(first + next(_links) % (LAST - POSSIBLE)))

    return Text(_PART.sub(link, de), _PART.sub(link, en))


def bare(words: str) -> str:
    """The words without their marks."""
    return _MARK.sub("", words)


def alignment(text: Text) -> tuple[tuple[int, int, bool], ...]:
    """Links of the German and English words, by number, in English order, and whether they are sure."""
    de, en = ([set("".join(_MARK.findall(word))) for word in line.split()] for line in (text.de, text.en))
    both = [(i, j, german & english) for j, english in enumerate(en) for i, german in enumerate(de)]
    return tuple((i, j, min(shared) < chr(POSSIBLE)) for i, j, shared in both if shared)

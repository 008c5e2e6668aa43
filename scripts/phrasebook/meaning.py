"""Meanings of sentences, independent of the language."""

from dataclasses import dataclass
from typing import Literal

from phrasebook.words import Adjective, Modal, Noun, Person, Tense, Text, Time, Verb

Determiner = Literal["the", "a", "this", "my", "your", "his", "her", "our", "their", ""]
POSSESSIVE: dict[Person, Determiner] = {
    "I": "my",
    "you": "your",
    "he": "his",
    "she": "her",
    "we": "our",
    "they": "their",
}


@dataclass(frozen=True)
class Pronoun:
    """I, you, he, ..."""

    person: Person


@dataclass(frozen=True)
class Name:
    """Somebody by name, or a question word that stands for somebody."""

    text: Text
    person: Person


@dataclass(frozen=True)
class Phrase:
    """A noun with what goes along; a determiner that is a number word counts, "" leaves the noun bare."""

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjective: Adjective | None = None

    @property
    def indefinite(self) -> bool:
        """True if negation turns the article into kein."""
        return self.determiner in ("a", "")


@dataclass(frozen=True)
class Gap:
    """The place in a relative clause of the noun that it describes: der, die, das."""

    noun: Noun
    plural: bool = False


Who = Pronoun | Name | Phrase | Gap


@dataclass(frozen=True)
class Place:
    """Being somewhere (at) or going there (to)."""

    phrase: Phrase | Text
    going: bool = False


@dataclass(frozen=True)
class Comparison:
    """Older than somebody."""

    adjective: Adjective
    than: Who


@dataclass(frozen=True)
class Clause:
    """One finite verb with everything that hangs on it."""

    subject: Who
    verb: Verb
    object: Who | None = None
    receiver: Who | None = None
    place: Place | None = None
    predicate: Text | Comparison | Phrase | None = None
    time: Time | None = None
    tense: Tense = "present"
    modal: Modal | None = None
    negated: bool = False
    gladly: bool = False
    time_first: bool = False


def person(who: Who) -> Person:
    """The pronoun that would stand for somebody or something."""
    if isinstance(who, Pronoun | Name):
        return who.person
    if who.plural:
        return "they"
    if "person" not in who.noun.kinds or who.noun.gender == "n":
        return "it"
    return "he" if who.noun.gender == "m" else "she"

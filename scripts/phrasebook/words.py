"""The words of the phrasebook, as read from the lexicon."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

Gender = Literal["m", "f", "n"]
Person = Literal["I", "you", "he", "she", "it", "we", "they"]
Tense = Literal["present", "past", "future"]


@dataclass(frozen=True)
class Text:
    """The same thing said in both languages."""

    de: str
    en: str
    links: tuple[tuple[int, int, bool], ...] = field(default=(), compare=False)
    """Which words belong together, German and English ones by number, and whether that is sure."""


@dataclass(frozen=True)
class Noun:
    """A noun, with what may be done with it (kinds) and how one is there or goes there (at, to)."""

    de: str
    en: str
    gender: Gender
    kinds: frozenset[str]
    plural: str = ""
    en_plural: str = ""
    weak: str = ""
    only_plural: bool = False
    at: tuple[str, str] | None = None
    to: tuple[str, str] | None = None


@dataclass(frozen=True)
class Verb:
    """A verb: its German forms by subject, its English ones, and which objects and places it takes."""

    de: str
    en: str
    participle: str
    past: str
    prefix: str = ""
    ing: str = ""
    ich: str = ""
    du: str = ""
    er: str = ""
    wir: str = ""
    command: str = ""
    simple_past: str = ""
    auxiliary: str = "haben"
    object: frozenset[str] = frozenset()
    government: str = "acc"
    receiver: bool = False
    reflexive: bool = False
    pronoun: bool = False
    single: bool = False
    en_split: bool = False
    stative: bool = False
    habit: bool = False
    fun: bool = False
    swapped: bool = False
    where: str = ""
    far: bool = False
    site: frozenset[str] = frozenset()
    named: bool = False


@dataclass(frozen=True)
class Modal:
    """A modal verb, and what stands between its English finite word and the other verb (want *to* go)."""

    de: str
    en: str
    ich: str
    du: str
    er: str = ""
    past: str = ""
    simple_past: str = ""
    rest: str = ""
    auxiliary: bool = False


@dataclass(frozen=True)
class Adjective:
    """An adjective, the kinds of noun it describes and those that it compares."""

    de: str
    en: str
    kinds: frozenset[str]
    stem: str = ""
    comparative: str = ""
    en_comparative: str = ""
    compared: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Time:
    """A time expression, with the tenses it fits; an adverb never opens a sentence."""

    de: str
    en: str
    tenses: frozenset[str]
    adverb: bool = False


@dataclass(frozen=True)
class Lexicon:
    """All words, by their German names."""

    nouns: dict[str, Noun]
    verbs: dict[str, Verb]
    modals: dict[str, Modal]
    adjectives: dict[str, Adjective]
    times: dict[str, Time]
    numbers: dict[str, str]
    cities: dict[str, str]
    names: dict[str, list[str]]
    moods: dict[str, list[str]]
    weathers: list[dict[str, Any]]
    effects: list[str]
    tasks: list[str]
    purposes: dict[str, list[str]]


def _fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Freeze the lists of a lexicon entry: prepositions in order, kinds as sets."""
    ordered = {"at", "to"}
    return {
        key: (tuple(value) if key in ordered else frozenset(value)) if isinstance(value, list) else value
        for key, value in raw.items()
    }


def _verb(name: str, raw: dict[str, Any]) -> Verb:
    """Read one verb; a bar in its name ends the separable prefix."""
    prefix, _, stem = name.rpartition("|")
    return Verb(de=stem, prefix=prefix, **_fields(raw))


@cache
def lexicon() -> Lexicon:
    """Read the lexicon that lies beside this file."""
    raw = yaml.safe_load(Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8"))
    return Lexicon(
        nouns={name: Noun(de=name, **_fields(entry)) for name, entry in raw["nouns"].items()},
        verbs={name.replace("|", ""): _verb(name, entry) for name, entry in raw["verbs"].items()},
        modals={name: Modal(de=name, **entry) for name, entry in raw["modals"].items()},
        adjectives={name: Adjective(de=name, **_fields(entry)) for name, entry in raw["adjectives"].items()},
        times={entry["de"]: Time(**_fields(entry)) for entry in raw["times"]},
        numbers=raw["numbers"],
        cities=raw["cities"],
        names=raw["names"],
        moods=raw["moods"],
        weathers=raw["weathers"],
        effects=raw["effects"],
        tasks=raw["tasks"],
        purposes=raw["purposes"],
    )

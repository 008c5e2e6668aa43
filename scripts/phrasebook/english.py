"""English: phrases, do-support, the third person's s, and the order of words."""

import re
from typing import NamedTuple

from phrasebook.meaning import Clause, Comparison, Gap, Name, Phrase, Place, Pronoun, Who, person
from phrasebook.words import Noun, Person, Text, Verb, lexicon

SUBJECT: dict[Person, str] = {person: person for person in ("I", "you", "he", "she", "it", "we", "they")}
OBJECT: dict[Person, str] = {
    "I": "me",
    "you": "you",
    "he": "him",
    "she": "her",
    "it": "it",
    "we": "us",
    "they": "them",
}
BE: dict[Person, str] = {"I": "am", "he": "is", "she": "is", "it": "is"}
HELPERS = ("be", "can", "will", "would", "should")


class Verbs(NamedTuple):
    """A finite helper if there is one, the word after it (finite itself without helper), and the rest."""

    helper: str
    head: str
    rest: str


def plural(noun: Noun) -> str:
    """The plural: given, or -s."""
    return noun.en_plural or noun.en + "s"


def phrase(what: Phrase, negated: bool = False) -> str:
    """A noun with its determiner and adjective; any for a negated one without article."""
    many = what.plural
    determiner = {"this": "these" if many else "this"}.get(what.determiner, what.determiner)
    determiner = lexicon().numbers.get(determiner, determiner)
    if determiner == "a" and many:
        determiner = ""
    if determiner == "" and negated:
        determiner = "any"
    noun = plural(what.noun) if many else what.noun.en
    words = " ".join(word for word in (what.adjective.en if what.adjective else "", noun) if word)
    if determiner == "a" and words[0] in "aeiou":
        determiner = "an"
    return f"{determiner} {words}".strip()


def who(whom: Who, forms: dict[Person, str], negated: bool = False) -> str:
    """Anybody or anything that may be subject or object."""
    if isinstance(whom, Pronoun):
        return forms[whom.person]
    if isinstance(whom, Name):
        return whom.text.en
    if isinstance(whom, Gap):
        return "who" if "person" in whom.noun.kinds else "that"
    return phrase(whom, negated)


def third(verb: str) -> str:
    """The form for he, she, it."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return verb + "es"
    return re.sub(r"(?<![aeiou])y$", "ie", verb) + "s"


def finite(verb: str, past: str, to: Person, in_past: bool) -> str:
    """The finite form of any verb, be included."""
    singular = to in ("I", "he", "she", "it")
    if verb == "be":
        return ("was" if singular else "were") if in_past else BE.get(to, "are")
    if in_past:
        return past
    return third(verb) if to in ("he", "she", "it") and verb not in HELPERS else verb


def progressive(clause: Clause) -> bool:
    """What happens now is said with -ing, unless it is a state."""
    now = clause.time is not None and clause.time.tenses == {"now"}
    return now and not (clause.modal or clause.verb.stative or clause.verb.en == "be" or clause.gladly)


def _ing(verb: Verb, word: str) -> str:
    """The form in -ing."""
    return verb.ing or word.removesuffix("e") + "ing"


def verbs(clause: Clause, to: Person, inverted: bool = False) -> Verbs:
    """The verbs in order, with do where a negation or question needs a helper."""
    base, past, rest = clause.verb.en.split()[0], clause.verb.past, ""
    in_past = clause.tense == "past"
    if clause.modal:
        base, past, rest = clause.modal.en, clause.modal.past, _words(clause.modal.rest, base)
    elif clause.gladly:
        base, past, rest = "like", "liked", f"to {base}"
    elif clause.tense == "future":
        base, rest = "will", base
    elif progressive(clause):
        base, rest = "be", _ing(clause.verb, base)
    if base in HELPERS:
        return Verbs(finite(base, past, to, in_past), rest, "")
    if clause.negated or inverted:
        return Verbs(finite("do", "did", to, in_past), base, rest)
    return Verbs("", finite(base, past, to, in_past), rest)


def _words(*parts: str) -> str:
    """Put words together, leaving out what is empty."""
    return " ".join(part for part in parts if part)


def place(where: Place) -> str:
    """Being or going somewhere."""
    if isinstance(where.phrase, Text):
        return where.phrase.en
    prepositions = where.phrase.noun.to if where.going else where.phrase.noun.at
    assert prepositions, f"{where.phrase.noun.en} is no place"
    return f"{prepositions[1]} {phrase(where.phrase)}"


def predicate(clause: Clause) -> str:
    """What somebody is: an adjective, a comparison, a profession."""
    what = clause.predicate
    if isinstance(what, Comparison):
        return f"{what.adjective.en_comparative} than {who(what.than, OBJECT)}"
    if isinstance(what, Phrase):
        return phrase(what, clause.negated)
    return what.en if what else ""


def _roles(clause: Clause) -> tuple[Who, Who | None]:
    """Subject and object; what pleases somebody in German is what he likes in English."""
    if clause.verb.swapped and clause.object:
        return clause.object, clause.subject
    return clause.subject, clause.object


def ending(clause: Clause) -> list[str]:
    """Everything behind the verb: objects, place, time."""
    _, thing = _roles(clause)
    particle = " ".join(clause.verb.en.split()[1:])
    words = "" if thing is None or isinstance(thing, Gap) else who(thing, OBJECT, clause.negated)
    split = clause.verb.en_split and isinstance(thing, Pronoun)
    time = clause.time if not clause.time_first else None
    return [
        who(clause.receiver, OBJECT) if clause.receiver else "",
        *((words, particle) if split else (particle, words)),
        predicate(clause),
        place(clause.place) if clause.place else "",
        time.en if time and not time.adverb else "",
    ]


def _adverb(clause: Clause) -> str:
    """An adverb of frequency, which goes before the verb."""
    return clause.time.en if clause.time and clause.time.adverb else ""


def _not(clause: Clause, helper: str) -> tuple[str, str]:
    """The helper and its not, cannot in one word."""
    if not clause.negated:
        return helper, ""
    return ("cannot", "") if helper == "can" else (helper, "not")


def statement(clause: Clause) -> str:
    """Subject, verb, object, place, time; what is put first stays first."""
    subject, thing = _roles(clause)
    helper, head, rest = verbs(clause, person(subject))
    helper, negation = _not(clause, helper)
    first = clause.time.en if clause.time and clause.time_first else ""
    gap = who(thing, OBJECT) if isinstance(thing, Gap) else ""
    subject_words = who(subject, SUBJECT)
    return _words(first, gap, subject_words, helper, negation, _adverb(clause), head, rest, *ending(clause))


def inverted(clause: Clause, first: str = "") -> str:
    """A question: the helper before the subject."""
    subject, _ = _roles(clause)
    helper, head, rest = verbs(clause, person(subject), inverted=True)
    negation = "not" if clause.negated else ""
    subject_words = who(subject, SUBJECT)
    return _words(first, helper, subject_words, negation, _adverb(clause), head, rest, *ending(clause))


def subordinate(clause: Clause, first: str = "") -> str:
    """Like a statement, after a conjunction."""
    return _words(first, statement(clause))


def command(clause: Clause, please: bool) -> str:
    """What one tells a friend to do."""
    verb = clause.verb.en.split()[0]
    return _words("please" if please else "", "do not" if clause.negated else "", verb, *ending(clause))


def purpose(clause: Clause) -> str:
    """In order to."""
    return _words("in order to", clause.verb.en.split()[0], *ending(clause))

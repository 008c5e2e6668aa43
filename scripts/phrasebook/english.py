"""English: phrases, do-support, the third person's s, and the order of words."""

import re
from typing import NamedTuple

from phrasebook import marks
from phrasebook.marks import Part, Slot, bare, marked, parallel, within
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
    adjective = marked(what.adjective.en if what.adjective else "", Part.ADJECTIVE)
    words = _words(adjective, marked(noun, Part.NOUN))
    if determiner == "a" and words[0] in "aeiou":
        determiner = "an"
    return _words(marked(determiner, Part.DETERMINER), words)


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
    """True for the progressive form: an action now, not a state."""
    now = clause.time is not None and clause.time.tenses == {"now"}
    return now and not (clause.modal or clause.verb.stative or clause.verb.en == "be" or clause.gladly)


def _ing(verb: Verb, word: str) -> str:
    """The form in -ing."""
    return verb.ing or word.removesuffix("e") + "ing"


def verbs(clause: Clause, to: Person, inverted: bool = False) -> Verbs:
    """The verbs in order, with do where a negation or question needs a helper."""
    base, past, rest = clause.verb.en.split()[0], clause.verb.past, ""
    in_past, slot, verb = clause.tense == "past", Slot.VERB, marks.verb(base)
    if clause.modal:
        slot = Slot.MODAL
        base, past, rest = clause.modal.en, clause.modal.past, _words(marked(clause.modal.rest, slot), verb)
    elif clause.gladly:
        slot = Slot.GLADLY
        base, past, rest = "like", "liked", _words(marked("to", slot), verb)
    elif clause.tense == "future":
        base, rest, slot = "will", verb, Slot.MODAL
    elif progressive(clause):
        base, rest, slot = "be", marks.verb(_ing(clause.verb, base)), Slot.HELPER

    def mark(words: str, slot: Slot) -> str:
        own = {Slot.VERB: marks.verb, Slot.HELPER: marks.helper}
        return own[slot](words) if slot in own else marked(words, slot)

    if base in HELPERS:
        return Verbs(mark(finite(base, past, to, in_past), slot), rest, "")
    if clause.negated or inverted:
        helper = Slot.MODAL if clause.modal else Slot.HELPER
        return Verbs(mark(finite("do", "did", to, in_past), helper), mark(base, slot), rest)
    return Verbs("", mark(finite(base, past, to, in_past), slot), rest)


def _words(*parts: str) -> str:
    """Put words together, leaving out what is empty."""
    return " ".join(part for part in parts if part)


def place(where: Place) -> str:
    """Being or going somewhere."""
    if isinstance(where.phrase, Text):
        return parallel(where.phrase).en
    prepositions = where.phrase.noun.to if where.going else where.phrase.noun.at
    assert prepositions, f"{where.phrase.noun.en} is no place"
    return f"{marked(prepositions[1], Part.PREPOSITION)} {phrase(where.phrase)}"


def predicate(clause: Clause) -> str:
    """Predicate: an adjective, a comparison, a profession."""
    what = clause.predicate
    if isinstance(what, Comparison):
        adjective, than = marked(what.adjective.en_comparative, Part.COMPARED), marked("than", Part.THAN)
        return f"{adjective} {than} {who(what.than, OBJECT)}"
    if isinstance(what, Phrase):
        return phrase(what, clause.negated)
    return parallel(what).en if what else ""


def _roles(clause: Clause) -> tuple[Who, Who | None]:
    """Subject and object; what pleases somebody in German is what he likes in English."""
    if clause.verb.swapped and clause.object:
        return clause.object, clause.subject
    return clause.subject, clause.object


def ending(clause: Clause) -> list[str]:
    """Everything behind the verb: objects, place, time."""
    _, thing = _roles(clause)
    words = "" if thing is None or isinstance(thing, Gap) else who(thing, OBJECT, clause.negated)
    words = within(_slots(clause)[1], words)
    split = clause.verb.en_split and isinstance(thing, Pronoun)
    time = clause.time if not clause.time_first else None
    return [
        within(Slot.RECEIVER, who(clause.receiver, OBJECT)) if clause.receiver else "",
        *((words, _particle(clause)) if split else (_particle(clause), words)),
        within(Slot.PREDICATE, predicate(clause)),
        within(Slot.PLACE, place(clause.place)) if clause.place else "",
        _time(clause) if time and not time.adverb else "",
    ]


def _slots(clause: Clause) -> tuple[Slot, Slot]:
    """Slots of subject and object, by their roles in German."""
    return (Slot.OBJECT, Slot.SUBJECT) if clause.verb.swapped else (Slot.SUBJECT, Slot.OBJECT)


def _particle(clause: Clause) -> str:
    """Words after the verb, the preposition of its object last."""
    words = [marked(word, Slot.VERB) for word in clause.verb.en.split()[1:]]
    if words and " " in clause.verb.government:
        words[-1] = within(Slot.OBJECT, marked(bare(words[-1]), Part.PREPOSITION))
    return " ".join(words)


def _time(clause: Clause) -> str:
    """Time expression."""
    return within(Slot.TIME, parallel(Text(clause.time.de, clause.time.en)).en) if clause.time else ""


def _adverb(clause: Clause) -> str:
    """An adverb of frequency, which goes before the verb."""
    return _time(clause) if clause.time and clause.time.adverb else ""


def _not(clause: Clause, helper: str) -> tuple[str, str]:
    """The helper and its not, cannot in one word."""
    if not clause.negated:
        return helper, ""
    negation = marked("not", Slot.NOT)
    return (f"cannot{helper[3:]}{negation[3:]}", "") if bare(helper) == "can" else (helper, negation)


def statement(clause: Clause) -> str:
    """Subject, verb, object, place, time; what is put first stays first."""
    subject, thing = _roles(clause)
    helper, head, rest = verbs(clause, person(subject))
    helper, negation = _not(clause, helper)
    first = _time(clause) if clause.time_first else ""
    slots = _slots(clause)
    gap = within(slots[1], who(thing, OBJECT)) if isinstance(thing, Gap) else ""
    subject_words = within(slots[0], who(subject, SUBJECT))
    return _words(first, gap, subject_words, helper, negation, _adverb(clause), head, rest, *ending(clause))


def inverted(clause: Clause, first: str = "") -> str:
    """A question: the helper before the subject."""
    subject, _ = _roles(clause)
    helper, head, rest = verbs(clause, person(subject), inverted=True)
    negation = marked("not" if clause.negated else "", Slot.NOT)
    subject_words = within(_slots(clause)[0], who(subject, SUBJECT))
    return _words(first, helper, subject_words, negation, _adverb(clause), head, rest, *ending(clause))


def subordinate(clause: Clause, first: str = "") -> str:
    """Like a statement, after a conjunction."""
    return _words(first, statement(clause))


def command(clause: Clause, please: bool) -> str:
    """Command to a friend."""
    verb = clause.verb.en.split()[0]
    no = f"{marks.helper('do')} {marked('not', Slot.NOT)}" if clause.negated else ""
    polite = marked("please" if please else "", Slot.PLEASE)
    return _words(polite, no, marks.verb(verb), *ending(clause))


def purpose(clause: Clause) -> str:
    """In order to."""
    verb = marks.verb(clause.verb.en.split()[0])
    return _words(marked("in order", Slot.PURPOSE), marked("to", Slot.TO), verb, *ending(clause))

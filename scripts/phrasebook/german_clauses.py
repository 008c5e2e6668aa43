"""German clauses: the verb's forms, the order of the middle field, verb-second and verb-final."""

from typing import NamedTuple

from phrasebook import marks
from phrasebook.german_nouns import REFLEXIVE, after, place, predicate, who
from phrasebook.marks import Part, Slot, also, marked, parallel, within
from phrasebook.meaning import Clause, Gap, Phrase, Pronoun, person
from phrasebook.words import Modal, Person, Text, Verb, lexicon


class Verbs(NamedTuple):
    """The verbs of a clause: finite and rest frame a main clause, cluster closes a subordinate one."""

    finite: str
    rest: str
    cluster: str


def _stem(verb: Verb) -> str:
    """The infinitive without -en or -n."""
    return verb.de.removesuffix("en") if verb.de.endswith("en") else verb.de.removesuffix("n")


def _regular(stem: str, to: Person) -> str:
    """The present of a regular verb: -e, -st, -t, with an e after t and d, without s after s, ß, z."""
    link = "e" if stem.endswith(("t", "d")) else ""
    if to == "I":
        return stem + "e"
    if to == "you":
        return stem + ("t" if stem.endswith(("s", "ß", "z")) else link + "st")
    return stem + link + "t"


def present(verb: Verb, to: Person) -> str:
    """The present tense, without the prefix."""
    given = {"I": verb.ich, "you": verb.du, "we": verb.wir, "they": verb.wir}.get(to, verb.er)
    if given:
        return given
    return verb.de if to in ("we", "they") else _regular(_stem(verb), to)


def simple_past(form: str, to: Person) -> str:
    """war, hatte, konnte and their endings."""
    plural = "n" if form.endswith("e") else "en"
    return form + {"you": "st", "we": plural, "they": plural}.get(to, "")


def modal(verb: Modal, to: Person, past: bool) -> str:
    """The finite form of a modal: no ending for ich and er."""
    if past:
        return simple_past(verb.simple_past, to)
    if to in ("we", "they"):
        return verb.de
    return verb.du if to == "you" else (verb.er or verb.ich)


def verbs(clause: Clause) -> Verbs:
    """The finite verb and what waits at the end."""
    verb, to = clause.verb, person(clause.subject)
    infinitive = marks.verb(verb.prefix + verb.de)
    if clause.modal:
        finite = marked(modal(clause.modal, to, clause.tense == "past"), Slot.MODAL)
        return Verbs(finite, infinitive, f"{infinitive} {finite}")
    if clause.tense == "future":
        finite = marked(present(lexicon().verbs["werden"], to), Slot.MODAL)
        return Verbs(finite, infinitive, f"{infinitive} {finite}")
    if clause.tense == "past" and not verb.simple_past:
        finite = marks.helper(present(lexicon().verbs[verb.auxiliary], to))
        participle = marks.verb(verb.participle)
        return Verbs(finite, participle, f"{participle} {finite}")
    finite = simple_past(verb.simple_past, to) if clause.tense == "past" else present(verb, to)
    finite = marks.verb(finite)
    return Verbs(finite, marked(verb.prefix, Slot.VERB), verb.prefix + finite)


def _object(clause: Clause, negated: bool) -> str:
    """The object in the case that the verb governs, or after its preposition."""
    assert clause.object
    *preposition, case = clause.verb.government.split()
    words = who(clause.object, "dat" if case == "dat" else "acc", negated)
    return within(Slot.OBJECT, after(_preposition(clause.verb), words) if preposition else words)


def _preposition(verb: Verb) -> str:
    """The preposition of an object, which belongs to the English one, or to the verb that needs none."""
    preposition, _, _ = verb.government.rpartition(" ")
    return marked(preposition, Part.PREPOSITION if " " in verb.en else Slot.VERB)


def _short(clause: Clause) -> bool:
    """True if the object is a pronoun without preposition."""
    return isinstance(clause.object, Pronoun) and " " not in clause.verb.government


def pronouns(clause: Clause) -> list[str]:
    """The unstressed pronouns, which come first in the middle field."""
    found = [
        marked(REFLEXIVE.get(person(clause.subject), "sich"), Slot.VERB) if clause.verb.reflexive else "",
        _object(clause, False) if _short(clause) else "",
        _receiver(clause) if isinstance(clause.receiver, Pronoun) else "",
    ]
    return [word for word in found if word]


def _receiver(clause: Clause) -> str:
    """Receiver."""
    assert clause.receiver
    return within(Slot.RECEIVER, who(clause.receiver, "dat"))


def _subject(clause: Clause) -> str:
    """Subject."""
    return within(Slot.SUBJECT, who(clause.subject, "nom"))


def _time(clause: Clause) -> str:
    """Time expression."""
    assert clause.time
    return within(Slot.TIME, parallel(Text(clause.time.de, clause.time.en)).de)


def middle(clause: Clause) -> list[str]:
    """Words between the two parts of the verb after the pronouns, without subject and fronted part."""
    thing = clause.object
    loose = isinstance(thing, Phrase) and thing.indefinite
    kein = clause.negated and not clause.gladly and (loose or isinstance(clause.predicate, Phrase))
    late = thing and (loose or " " in clause.verb.government)
    early = thing and not late and not _short(clause) and not isinstance(thing, Gap)
    where = within(Slot.PLACE, place(clause.place)) if clause.place else ""
    going = clause.place and clause.place.going
    found = [
        _time(clause) if clause.time and not clause.time_first else "",
        _receiver(clause) if clause.receiver and not isinstance(clause.receiver, Pronoun) else "",
        _object(clause, False) if early else "",
        marked("nicht", Slot.NOT) if clause.negated and not kein else "",
        marked("gern", Slot.GLADLY) if clause.gladly else "",
        "" if going else where,
        _object(clause, kein) if late else "",
        where if going else "",
        within(Slot.PREDICATE, predicate(clause.predicate, kein)) if clause.predicate else "",
    ]
    return [word for word in found if word]


def _join(*parts: str) -> str:
    """Put words together, leaving out what is empty."""
    return " ".join(part for part in parts if part)


def _subject_inside(clause: Clause) -> list[str]:
    """Subject and pronouns after the finite verb: gefällt dir der Garten, freut sich Anna, but freust du dich."""
    subject = _subject(clause)
    yields = (clause.verb.swapped or clause.verb.reflexive) and not isinstance(clause.subject, Pronoun)
    return [*pronouns(clause), subject] if yields else [subject, *pronouns(clause)]


def statement(clause: Clause) -> str:
    """Verb-second: the subject or the time comes before the finite verb."""
    finite, rest, _ = verbs(clause)
    subject = _subject(clause)
    if clause.time and clause.time_first:
        return _join(_time(clause), finite, *_subject_inside(clause), *middle(clause), rest)
    return _join(subject, finite, *pronouns(clause), *middle(clause), rest)


def inverted(clause: Clause, first: str = "") -> str:
    """Verb before subject: a yes/no question, or after a question word or subordinate clause put first."""
    finite, rest, _ = verbs(clause)
    return _join(first, finite, *_subject_inside(clause), *middle(clause), rest)


def subordinate(clause: Clause, first: str = "") -> str:
    """Verb-final; a relative pronoun that is the object goes first."""
    gap = _object(clause, False) if isinstance(clause.object, Gap) else ""
    return _join(first, gap, _subject(clause), *pronouns(clause), *middle(clause), verbs(clause).cluster)


def command(clause: Clause, please: bool) -> str:
    """Command to a friend."""
    finite = marks.verb(clause.verb.command or _stem(clause.verb).capitalize())
    prefix, polite = marked(clause.verb.prefix, Slot.VERB), marked("bitte" if please else "", Slot.PLEASE)
    return _join(finite, *pronouns(clause), polite, *middle(clause), prefix)


def purpose(clause: Clause) -> str:
    """um ... zu: the zu goes between prefix and verb."""
    verb = clause.verb
    return _join(
        marked("um", Slot.PURPOSE),
        *pronouns(clause),
        *middle(clause),
        also(marked(f"{verb.prefix}zu{verb.de}", Slot.VERB), Slot.TO)
        if verb.prefix
        else f"{marked('zu', Slot.TO)} {marked(verb.de, Slot.VERB)}",
    )


def question_word(clause: Clause, word: Text) -> str:
    """Auf wen, mit wem: a question word behind the preposition that its verb governs."""
    return _join(within(Slot.OBJECT, _preposition(clause.verb)), word.de)

"""German clauses: the verb's forms, the order of the middle field, verb-second and verb-final."""

from typing import NamedTuple

from phrasebook.german_nouns import REFLEXIVE, after, place, predicate, who
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
    infinitive = verb.prefix + verb.de
    if clause.modal:
        finite = modal(clause.modal, to, clause.tense == "past")
        return Verbs(finite, infinitive, f"{infinitive} {finite}")
    if clause.tense == "future":
        finite = present(lexicon().verbs["werden"], to)
        return Verbs(finite, infinitive, f"{infinitive} {finite}")
    if clause.tense == "past" and not verb.simple_past:
        finite = present(lexicon().verbs[verb.auxiliary], to)
        return Verbs(finite, verb.participle, f"{verb.participle} {finite}")
    finite = simple_past(verb.simple_past, to) if clause.tense == "past" else present(verb, to)
    return Verbs(finite, verb.prefix, verb.prefix + finite)


def _object(clause: Clause, negated: bool) -> str:
    """The object in the case that the verb governs, or after its preposition."""
    assert clause.object
    *preposition, case = clause.verb.government.split()
    words = who(clause.object, "dat" if case == "dat" else "acc", negated)
    return after(preposition[0], words) if preposition else words


def _short(clause: Clause) -> bool:
    """Whether the object is a pronoun without preposition."""
    return isinstance(clause.object, Pronoun) and " " not in clause.verb.government


def pronouns(clause: Clause) -> list[str]:
    """The unstressed pronouns, which come first in the middle field."""
    found = [
        REFLEXIVE.get(person(clause.subject), "sich") if clause.verb.reflexive else "",
        _object(clause, False) if _short(clause) else "",
        who(clause.receiver, "dat") if isinstance(clause.receiver, Pronoun) else "",
    ]
    return [word for word in found if word]


def middle(clause: Clause) -> list[str]:
    """What stands between the two parts of the verb after the pronouns, without subject and fronted part."""
    thing = clause.object
    loose = isinstance(thing, Phrase) and thing.indefinite
    kein = clause.negated and not clause.gladly and (loose or isinstance(clause.predicate, Phrase))
    late = thing and (loose or " " in clause.verb.government)
    early = thing and not late and not _short(clause) and not isinstance(thing, Gap)
    where = place(clause.place) if clause.place else ""
    going = clause.place and clause.place.going
    found = [
        clause.time.de if clause.time and not clause.time_first else "",
        who(clause.receiver, "dat") if clause.receiver and not isinstance(clause.receiver, Pronoun) else "",
        _object(clause, False) if early else "",
        "nicht" if clause.negated and not kein else "",
        "gern" if clause.gladly else "",
        "" if going else where,
        _object(clause, kein) if late else "",
        where if going else "",
        predicate(clause.predicate, kein) if clause.predicate else "",
    ]
    return [word for word in found if word]


def _join(*parts: str) -> str:
    """Put words together, leaving out what is empty."""
    return " ".join(part for part in parts if part)


def _subject_inside(clause: Clause) -> list[str]:
    """Subject and pronouns after the finite verb: gefällt dir der Garten, freut sich Anna, but freust du dich."""
    subject = who(clause.subject, "nom")
    yields = (clause.verb.swapped or clause.verb.reflexive) and not isinstance(clause.subject, Pronoun)
    return [*pronouns(clause), subject] if yields else [subject, *pronouns(clause)]


def statement(clause: Clause) -> str:
    """Verb-second: the subject or the time comes before the finite verb."""
    finite, rest, _ = verbs(clause)
    subject = who(clause.subject, "nom")
    if clause.time and clause.time_first:
        return _join(clause.time.de, finite, *_subject_inside(clause), *middle(clause), rest)
    return _join(subject, finite, *pronouns(clause), *middle(clause), rest)


def inverted(clause: Clause, first: str = "") -> str:
    """Verb before subject: a yes/no question, or after a question word or subordinate clause put first."""
    finite, rest, _ = verbs(clause)
    return _join(first, finite, *_subject_inside(clause), *middle(clause), rest)


def subordinate(clause: Clause, first: str = "") -> str:
    """Verb-final; a relative pronoun that is the object goes first."""
    gap = _object(clause, False) if isinstance(clause.object, Gap) else ""
    return _join(
        first, gap, who(clause.subject, "nom"), *pronouns(clause), *middle(clause), verbs(clause).cluster
    )


def command(clause: Clause, please: bool) -> str:
    """What one tells a friend to do."""
    finite = clause.verb.command or _stem(clause.verb).capitalize()
    return _join(finite, *pronouns(clause), "bitte" if please else "", *middle(clause), clause.verb.prefix)


def purpose(clause: Clause) -> str:
    """um ... zu: the zu goes between prefix and verb."""
    verb = clause.verb
    return _join(
        "um",
        *pronouns(clause),
        *middle(clause),
        f"{verb.prefix}zu{verb.de}" if verb.prefix else f"zu {verb.de}",
    )


def question_word(clause: Clause, word: Text) -> str:
    """Auf wen, mit wem: a question word behind the preposition that its verb governs."""
    preposition, _, _ = clause.verb.government.rpartition(" ")
    return _join(preposition, word.de)

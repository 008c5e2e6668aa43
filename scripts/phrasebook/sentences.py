"""The kinds of sentence: statements, questions, commands, and clauses joined to longer ones."""

from dataclasses import replace

from phrasebook import english, german_nouns
from phrasebook import german_clauses as german
from phrasebook.marks import Slot, alignment, bare, linked, marked
from phrasebook.meaning import Clause, Name, Phrase, Place, person
from phrasebook.words import Text

CONJUNCTIONS = {
    "weil": "because",
    "dass": "that",
    "ob": "whether",
    "wenn": "when",
    "falls": "if",
    "obwohl": "although",
}


def statement(clause: Clause) -> Text:
    """Verb-second."""
    return linked(german.statement(clause), english.statement(clause))


def opening(de: str, en: str) -> Text:
    """A word before a clause, a conjunction or a question word."""
    return Text(marked(de, Slot.OPENING), marked(en, Slot.OPENING))


def question(clause: Clause) -> Text:
    """A yes/no question."""
    return linked(german.inverted(clause) + "?", english.inverted(clause) + "?")


def asked(clause: Clause, word: Text) -> Text:
    """A question that begins with a question word."""
    word = opening(word.de, word.en)
    return linked(german.inverted(clause, word.de) + "?", english.inverted(clause, word.en) + "?")


def asked_object(clause: Clause, word: Text) -> Text:
    """A question for the object, which the clause lacks; a German preposition goes first."""
    word = opening(word.de, word.en)
    return asked(clause, Text(german.question_word(clause, word), word.en))


def asked_subject(clause: Clause) -> Text:
    """A question for the subject: in the order of a statement."""
    said = statement(replace(clause, subject=Name(Text("wer", "who"), "he")))
    return Text(said.de + "?", said.en + "?")


def command(clause: Clause, please: bool = False) -> Text:
    """Mach die Tür auf!"""
    return linked(german.command(clause, please) + "!", english.command(clause, please) + "!")


def subordinate(conjunction: str, clause: Clause) -> Text:
    """A clause after a conjunction, verb last."""
    first = opening(conjunction, CONJUNCTIONS[conjunction])
    return linked(german.subordinate(clause, first.de), english.subordinate(clause, first.en))


def trailing(main: Text, conjunction: str, clause: Clause) -> Text:
    """The main clause, then the subordinate one."""
    sub = subordinate(conjunction, clause)
    return Text(f"{main.de}, {sub.de}", f"{main.en} {sub.en}")


def leading(conjunction: str, clause: Clause, main: Clause) -> Text:
    """The subordinate clause first: it takes the place before the finite verb."""
    sub = subordinate(conjunction, clause)
    return linked(f"{sub.de}, {german.inverted(main)}", f"{sub.en}, {english.statement(main)}")


def indirect(main: Text, word: Text, clause: Clause) -> Text:
    """Indirect question with where, when, why."""
    word = opening(word.de, word.en)
    return linked(
        f"{main.de}, {german.subordinate(clause, word.de)}",
        f"{main.en} {english.subordinate(clause, word.en)}",
    )


def joined(first: Text, conjunction: Text, second: Text) -> Text:
    """Two sentences joined by und, or by aber with its comma."""
    comma, word = "," if conjunction.de == "aber" else "", opening(conjunction.de, conjunction.en)
    return linked(f"{first.de}{comma} {word.de} {second.de}", f"{first.en}{comma} {word.en} {second.en}")


def purpose(main: Text, clause: Clause) -> Text:
    """um ... zu."""
    return linked(f"{main.de}, {german.purpose(clause)}", f"{main.en} {english.purpose(clause)}")


def described(whom: Phrase, clause: Clause) -> Name:
    """A subject with its relative clause."""
    head = linked(german_nouns.who(whom, "nom"), english.who(whom, english.SUBJECT))
    text = linked(f"{head.de}, {german.subordinate(clause)},", f"{head.en} {english.subordinate(clause)}")
    return Name(text, person(whom))


def there_is(what: Phrase, where: Place, place_first: bool) -> Text:
    """Es gibt, with its object in the accusative."""
    here = linked(german_nouns.place(where), english.place(where))
    some = linked(german_nouns.phrase(what, "acc"), english.phrase(what))
    be = marked("are" if what.plural else "is", Slot.VERB)
    there, gives, it = (marked(word, Slot.VERB) for word in ("there", "gibt", "es"))
    if place_first:
        return linked(f"{here.de} {gives} {it} {some.de}", f"{here.en} {there} {be} {some.en}")
    return linked(f"{it} {gives} {here.de} {some.de}", f"{there} {be} {some.en} {here.en}")


def finished(text: Text) -> Text:
    """A capital at the start, a full stop unless there is a mark; and which words say the same thing."""
    de, en = (line if line[-1] in "?!" else line + "." for line in map(bare, (text.de, text.en)))
    return Text(de[0].upper() + de[1:], en[0].upper() + en[1:], alignment(text))

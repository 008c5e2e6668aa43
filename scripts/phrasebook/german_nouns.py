"""German noun phrases: articles, endings, pronouns, contractions."""

from typing import Literal

from phrasebook.marks import Part, Slot, also, bare, marked, parallel
from phrasebook.meaning import Comparison, Gap, Name, Phrase, Place, Pronoun, Who
from phrasebook.words import Noun, Person, Text, lexicon

Case = Literal["nom", "acc", "dat"]
Row = Literal["m", "f", "n", "plural"]

# The endings of der, and those by which an adjective shows case when no article does.
STRONG: dict[Case, dict[Row, str]] = {
    "nom": {"m": "er", "f": "e", "n": "es", "plural": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "plural": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "plural": "en"},
}
THE: dict[Case, dict[Row, str]] = {
    "nom": {"m": "der", "f": "die", "n": "das", "plural": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "plural": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "plural": "den"},
}
STEMS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
PRONOUNS: dict[Case, dict[Person, str]] = {
    "nom": {"I": "ich", "you": "du", "he": "er", "she": "sie", "it": "es", "we": "wir", "they": "sie"},
    "acc": {"I": "mich", "you": "dich", "he": "ihn", "we": "uns"},
    "dat": {"I": "mir", "you": "dir", "he": "ihm", "she": "ihr", "we": "uns", "they": "ihnen"},
}
REFLEXIVE: dict[Person, str] = {"I": "mich", "you": "dich", "we": "uns"}
CONTRACTED = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
}
TWO_WAY = ("in", "an", "auf")


def row(noun: Noun, plural: bool) -> Row:
    """The column of a declension table that a noun reads from."""
    return "plural" if plural else noun.gender


def noun_form(noun: Noun, case: Case, plural: bool) -> str:
    """The noun itself: -n in the dative plural, the weak form outside the nominative."""
    if plural:
        return noun.plural + ("n" if case == "dat" and not noun.plural.endswith(("n", "s")) else "")
    return noun.weak if noun.weak and case != "nom" else noun.de


def _bare(gender: Row, case: Case) -> bool:
    """True if ein, mein, kein ... have no ending."""
    return (case == "nom" and gender in ("m", "n")) or (case == "acc" and gender == "n")


def article(determiner: str, gender: Row, case: Case) -> str:
    """The inflected determiner, or the number word."""
    if determiner == "the":
        return THE[case][gender]
    if determiner == "this":
        return "dies" + STRONG[case][gender]
    if determiner == "" or (determiner == "a" and gender == "plural"):
        return ""
    if determiner in STEMS:
        return STEMS[determiner] + ("" if _bare(gender, case) else STRONG[case][gender])
    return determiner  # a number word


def ending(determiner: str, gender: Row, case: Case) -> str:
    """The ending of an adjective: weak after der, strong where no article shows the case, mixed after ein."""
    endless = determiner in STEMS and _bare(gender, case)
    if endless or determiner in ("", *lexicon().numbers) or (determiner == "a" and gender == "plural"):
        return STRONG[case][gender]
    if gender != "plural" and (case == "nom" or (case == "acc" and gender != "m")):
        return "e"
    return "en"


def phrase(what: Phrase, case: Case, negated: bool = False) -> str:
    """A noun with its determiner and adjective; kein for a negated indefinite one."""
    gender = row(what.noun, what.plural)
    determiner = "no" if negated and what.indefinite else what.determiner
    words = [marked(article(determiner, gender, case), Part.DETERMINER)]
    if determiner == "no":
        words = [also(words[0], Slot.NOT)]
    if what.adjective:
        stem = what.adjective.stem or what.adjective.de.removesuffix("e")
        words.append(marked(stem + ending(determiner, gender, case), Part.ADJECTIVE))
    words.append(marked(noun_form(what.noun, case, what.plural), Part.NOUN))
    return " ".join(word for word in words if word)


def who(whom: Who, case: Case, negated: bool = False) -> str:
    """Anybody or anything that may be subject or object."""
    if isinstance(whom, Pronoun):
        return PRONOUNS[case][whom.person]
    if isinstance(whom, Name):
        return whom.text.de
    if isinstance(whom, Gap):
        relative = THE[case][row(whom.noun, whom.plural)]
        return "denen" if case == "dat" and whom.plural else relative
    return phrase(whom, case, negated)


def after(preposition: str, words: str) -> str:
    """A preposition before a phrase, melted with its article."""
    head, _, tail = words.partition(" ")
    melted = CONTRACTED.get(bare(f"{preposition} {head}"))
    # What has melted says what both have said.
    marks = [word.removeprefix(bare(word)) for word in (preposition, head)]
    return f"{melted}{''.join(marks)} {tail}" if melted else f"{preposition} {words}"


def place(where: Place) -> str:
    """Being there takes the dative, going there the accusative after in, an, auf."""
    if isinstance(where.phrase, Text):
        return parallel(where.phrase).de
    prepositions = where.phrase.noun.to if where.going else where.phrase.noun.at
    assert prepositions, f"{where.phrase.noun.de} is no place"
    going = where.going and prepositions[0] in TWO_WAY
    return after(marked(prepositions[0], Part.PREPOSITION), phrase(where.phrase, "acc" if going else "dat"))


def predicate(what: Text | Comparison | Phrase, negated: bool) -> str:
    """Predicate: an adjective, a comparison, a profession (without an article)."""
    if isinstance(what, Text):
        return parallel(what).de
    if isinstance(what, Comparison):
        adjective, than = marked(what.adjective.comparative, Part.COMPARED), marked("als", Part.THAN)
        return f"{adjective} {than} {who(what.than, 'nom')}"
    return (
        phrase(what, "nom", negated)
        if negated or what.adjective
        else marked(noun_form(what.noun, "nom", what.plural), Part.NOUN)
    )

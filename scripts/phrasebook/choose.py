"""Random parts of meanings that make sense together: subjects, objects, places, times."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from phrasebook.marks import parallel
from phrasebook.meaning import POSSESSIVE, Clause, Comparison, Name, Phrase, Place, Pronoun, Who, person
from phrasebook.words import Adjective, Noun, Person, Tense, Text, Time, Verb, lexicon

T = TypeVar("T")
PEOPLE: tuple[Person, ...] = ("I", "you", "he", "she", "we", "they")
OBJECTS: tuple[Person, ...] = ("I", "you", "he", "we")


class Chooser:
    """A source of chance that draws parts of meanings from the lexicon."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.words = lexicon()

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self._random.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of them; random() alone keeps its numbers from one Python to the next."""
        return options[int(self._random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[float, T]]) -> T:
        """One of them, by weight."""
        point = self._random.random() * sum(weight for weight, _ in options)
        for weight, option in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][1]

    def noun(self, kinds: frozenset[str], fits: Callable[[Noun], bool] = lambda _: True) -> Noun:
        """A noun of one of these kinds."""
        return self.pick([noun for noun in self.words.nouns.values() if noun.kinds & kinds and fits(noun)])

    def adjective(self, noun: Noun, often: float) -> Adjective | None:
        """Sometimes an adjective that may describe the noun."""
        fitting = [word for word in self.words.adjectives.values() if word.kinds & noun.kinds]
        return self.pick(fitting) if fitting and self.chance(often) else None

    def name(self) -> Name:
        """Somebody by name."""
        gender: Person = "he" if self.chance(0.5) else "she"
        name = self.pick(self.words.names[gender])
        return Name(Text(name, name), gender)

    def other_name(self, than: Who) -> Name:
        """Somebody else by name."""
        while True:
            name = self.name()
            if name != than:
                return name

    def subject(self, pronouns: float = 0.4, people: Sequence[Person] = PEOPLE) -> Who:
        """Somebody who does something."""
        if self.chance(pronouns):
            return Pronoun(self.pick(people))
        return self.name() if self.chance(0.35) else self.someone("")

    def someone(self, owner: str) -> Phrase:
        """A person: relatives belong to somebody, others have an article."""
        noun = self.noun(frozenset({"person"}))
        plural = noun.only_plural or (bool(noun.plural) and self.chance(0.2))
        if "kin" in noun.kinds:
            determiner = self.pick(["my", "your", "our", owner or "my", owner or "your"])
        else:
            determiner = self.weighted([(6, "the"), (1, "this"), (1 if not plural else 0, "a")])
        return Phrase(noun, determiner, plural, self.adjective(noun, 0.15))

    def thing(self, noun: Noun, owner: str, single: bool = False) -> Phrase:
        """A thing, food or animal, as an object; a single one is one's own."""
        if "luck" in noun.kinds:
            return Phrase(noun, "")
        owned = not noun.kinds & {"seen", "ride", "site", "building", "food", "drink"}
        mine = self.pick([owner or "my", "my", "your", "our"]) if owned else "the"
        mine = owner if single and owner else mine
        adjective = self.adjective(noun, 0.35)
        if not noun.plural:
            return Phrase(noun, self.weighted([(5, ""), (4, "the"), (1, mine)]), adjective=adjective)
        plural = not single and self.chance(0.25)
        bare = not plural or not noun.kinds & {"room", "site", "opening", "furniture", "ride"}
        options = [(4, "the"), (3 if bare else 0, "a"), (3, mine), (1, "this")]
        if plural and not noun.kinds & {"site", "room"}:
            options.append((4, self.pick(list(self.words.numbers))))
        return Phrase(noun, self.weighted(options), plural, adjective)

    def object(self, verb: Verb, subject: Who) -> Who:
        """Object of the verb, different from the subject."""
        me = person(subject)
        others = [other for other in OBJECTS if other != me and {other, me} != {"I", "we"}]
        if verb.pronoun and self.chance(0.35):
            if verb.government.endswith("dat"):
                others += ["she", "they"]
            return Pronoun(self.pick(others))
        if verb.object & {"person", "kin", "job"} and self.chance(0.2):
            return self.other_name(subject)
        same = subject.noun if isinstance(subject, Phrase) else None
        noun = self.noun(verb.object, lambda noun: noun is not same)
        if "person" not in noun.kinds:
            return self.thing(noun, POSSESSIVE.get(me, ""), verb.single)
        while True:
            someone = self.someone(POSSESSIVE.get(me, ""))
            if someone.noun is not same and verb.object & someone.noun.kinds:
                return someone

    def place(self, verb: Verb) -> Place | None:
        """Place or destination of an action."""
        going = verb.where in ("to", "far")
        if verb.far and (verb.where == "far" or self.chance(0.45)):
            return Place(self.far(going, verb.de == "fahren"), going)
        if verb.where:
            noun = self.noun(verb.site or frozenset({"place"}), lambda noun: noun.at is not None)
        elif verb.site and self.chance(0.3):
            noun = self.noun(verb.site, lambda noun: noun.at is not None)
        else:
            return None
        determiner = self.weighted([(7, "the"), (1, "this")])
        return Place(Phrase(noun, determiner, adjective=self.adjective(noun, 0.2)), going)

    def far(self, going: bool, by_train: bool) -> Text:
        """A city, a country, or home."""
        if self.chance(0.25):
            return Text("nach Hause", "home") if going else Text("zu Hause", "at home")
        city = self.pick(list(self.words.cities))
        where = parallel(
            Text(f"{'nach' if going else 'in'} {city}", f"{'to' if going else 'in'} {self.words.cities[city]}")
        )
        if not by_train or self.chance(0.6):
            return where
        means = self.pick(
            [Text("mit dem Zug", "by train"), Text("mit dem Bus", "by bus"), Text("mit dem Auto", "by car")]
        )
        means = parallel(means, start=2)
        return Text(f"{means.de} {where.de}", f"{where.en} {means.en}")

    def when(self, verb: Verb) -> tuple[Time | None, Tense]:
        """A time with its tense; no time in half of the sentences."""
        if verb.habit or self.chance(0.45):
            return None, self.weighted([(5, "present"), (4, "past"), (0 if verb.habit else 2, "future")])
        tense: str = self.weighted([(4, "past"), (3, "present"), (2, "future"), (1.5, "now")])
        time = self.pick([time for time in self.words.times.values() if tense in time.tenses])
        return time, "past" if tense == "past" else "future" if tense == "future" else "present"

    def verb(self) -> Verb:
        """Any verb but the few that are called by name."""
        return self.pick([verb for verb in self.words.verbs.values() if not verb.named])

    def action(self, subject: Who, verb: Verb | None = None, timed: bool = True) -> Clause:
        """Somebody does something, in a tense and maybe at a time."""
        verb = verb or self.verb()
        time, tense = self.when(verb) if timed else (None, "present")
        clause = Clause(
            subject,
            verb,
            object=self.object(verb, subject) if verb.object else None,
            receiver=self.receiver(subject) if verb.receiver else None,
            place=self.place(verb),
            time=time,
            tense=tense,
        )
        clause = self.moody(clause)
        if self.blurred(clause):
            clause = replace(clause, tense="present", time=None)
        front = clause.time is not None and not clause.time.adverb and self.chance(0.4)
        return replace(clause, time_first=True) if front else clause

    def blurred(self, clause: Clause) -> bool:
        """True if past and present are the same in English: I read, we put on."""
        same = clause.verb.en.split()[0] == clause.verb.past
        return same and clause.tense == "past" and not clause.modal and person(clause.subject) not in ("he", "she")

    def receiver(self, subject: Who) -> Who:
        """Somebody who is given something."""
        me = person(subject)
        if self.chance(0.35):
            return Pronoun(self.pick([one for one in OBJECTS if one != me and {one, me} != {"I", "we"}]))
        while True:
            someone: Who = self.other_name(subject) if self.chance(0.2) else self.someone(POSSESSIVE.get(me, ""))
            if someone != subject:
                return someone

    def moody(self, clause: Clause) -> Clause:
        """Maybe with a modal verb, with gern, or with a negation."""
        loose = isinstance(clause.object, Phrase) and clause.object.indefinite
        now = clause.time is not None and "now" in clause.time.tenses
        timeless = clause.tense == "present" and not now and not (clause.time and clause.time.adverb)
        if clause.verb.fun and timeless and (loose or not clause.object) and self.chance(0.3):
            at_rest = clause.place is None or clause.place.going
            return replace(clause, gladly=at_rest, negated=at_rest and self.chance(0.25))
        if not (clause.verb.stative or clause.verb.habit or clause.verb.reflexive) and self.chance(0.22):
            tense: Tense = "past" if clause.tense == "past" else "present"
            fitting = [modal for modal in self.words.modals.values() if tense == "present" or modal.simple_past]
            clause = replace(clause, modal=self.pick(fitting), tense=tense)
        return replace(clause, negated=self.deniable(clause) and self.chance(0.2))

    def deniable(self, clause: Clause) -> bool:
        """True if the position of nicht or kein is unambiguous."""
        vague = isinstance(clause.subject, Phrase) and clause.subject.indefinite
        counted = isinstance(clause.object, Phrase) and clause.object.determiner in self.words.numbers
        loose = isinstance(clause.object, Phrase) and clause.object.indefinite and " " in clause.verb.government
        adverb = clause.time is not None and clause.time.adverb
        return not (vague or counted or loose or adverb)

    def comparison(self) -> Clause:
        """Something is bigger, older, faster than something else."""
        adjective = self.pick([word for word in self.words.adjectives.values() if word.comparative])
        first = self.noun(adjective.compared)
        kind = next(kind for kind in sorted(adjective.compared) if kind in first.kinds)
        second = self.noun(frozenset({kind}), lambda noun: noun is not first)
        one, other = (
            Phrase(noun, self.pick(["my", "your", "our"]) if "kin" in noun.kinds else "the", noun.only_plural)
            for noun in (first, second)
        )
        return Clause(one, self.words.verbs["sein"], predicate=Comparison(adjective, other))

    def state(self, subject: Who) -> Clause:
        """State of a person."""
        sein = self.words.verbs["sein"]
        tense: Tense = self.weighted([(3, "present"), (2, "past")])
        if self.chance(0.3) and person(subject) not in ("we", "they", "it"):
            feminine = person(subject) == "she"
            jobs = [noun for noun in self.words.nouns.values() if "job" in noun.kinds]
            fitting = [noun for noun in jobs if (noun.gender == "f") == feminine]
            job = self.pick(fitting if person(subject) in ("he", "she") else jobs)
            if not (isinstance(subject, Phrase) and subject.noun is job):
                return Clause(subject, sein, predicate=Phrase(job, "a"), tense=tense, negated=self.chance(0.25))
        mood = self.pick([word for word in self.words.adjectives.values() if "mood" in word.kinds])
        fit = [
            time
            for time in self.words.times.values()
            if time.tenses & ({tense, "now"} if tense == "present" else {tense})
        ]
        clause = Clause(subject, sein, predicate=Text(mood.de, mood.en), tense=tense)
        if self.chance(0.4):
            return replace(clause, time=self.pick(fit))
        return replace(clause, negated=self.deniable(clause) and self.chance(0.25))

    def quality(self) -> Clause:
        """Quality of a thing."""
        noun = self.noun(
            frozenset({"thing", "vehicle", "clothes", "building", "room", "animal", "food", "drink", "inn"})
        )
        fitting = [word for word in self.words.adjectives.values() if word.kinds & noun.kinds]
        plural = bool(noun.plural) and self.chance(0.25)
        owned = not noun.kinds & {"site", "building", "food", "drink", "seen"}
        determiner = self.pick(["the", "this", *(["my", "your", "our"] if owned else [])])
        adjective = self.pick(fitting)
        tense: Tense = self.weighted([(3, "present"), (1, "past")])
        subject = Phrase(noun, determiner, plural)
        predicate = Text(adjective.de, adjective.en)
        return Clause(subject, self.words.verbs["sein"], predicate=predicate, tense=tense, negated=self.chance(0.2))

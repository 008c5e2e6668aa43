"""Composing sentences by chance: each method writes one kind of sentence."""

from collections.abc import Callable
from dataclasses import replace

from phrasebook import sentences as say
from phrasebook.choose import PEOPLE, Chooser
from phrasebook.meaning import Clause, Gap, Phrase, Place, Pronoun, Who, person
from phrasebook.words import Person, Text, Verb

ASKED: tuple[Person, ...] = ("you", "he", "she", "we", "they")
AND, BUT = Text("und", "and"), Text("aber", "but")
WHO = {"acc": Text("wen", "who"), "dat": Text("wem", "who")}
WHERE, TO_WHERE = Text("wo", "where"), Text("wohin", "where")
WHEN, WHY, WHAT = Text("wann", "when"), Text("warum", "why"), Text("was", "what")


class Composer(Chooser):
    """Draws whole sentences."""

    def sentence(self) -> Text:
        """One sentence of any kind."""
        kind = self.weighted(
            [
                (26, self.plain),
                (7, self.described),
                (6, self.question),
                (9, self.word_question),
                (5, self.command),
                (4, self.pleasing),
                (3, self.there_is),
                (4, self.figures),
                (5, self.two),
                (7, self.because),
                (7, self.when_or_if),
                (3, self.although),
                (6, self.reported),
                (5, self.wondering),
                (4, self.in_order),
                (4, self.relative),
            ]
        )
        return say.finished(kind())

    def same(self, subject: Who) -> Who:
        """The subject again, as a pronoun where that is clear."""
        return subject if person(subject) == "it" else Pronoun(person(subject))

    def doer(self) -> Who:
        """Somebody whom a pronoun can take up again, so not the child, which would be it."""
        while True:
            subject = self.subject()
            if person(subject) != "it":
                return subject

    def verbs(self, names: list[str]) -> Verb:
        """One of these verbs."""
        return self.words.verbs[self.pick(names)]

    def clean(self, subject: Who, verb: Verb | None = None) -> Clause:
        """An action in the present, to be joined with others."""
        return replace(self.action(subject, verb, timed=False), time_first=False)

    def plain(self) -> Text:
        """A statement."""
        return say.statement(self.action(self.subject()))

    def described(self) -> Text:
        """Sentence about a state or a quality, or its question."""
        asking = self.chance(0.15)
        people = ASKED if asking else PEOPLE
        kinds: list[tuple[float, Callable[[], Clause]]] = [
            (4, lambda: self.state(self.subject(people=people))),
            (3, self.quality),
            (2, self.comparison),
        ]
        clause = self.weighted(kinds)()
        return say.question(clause) if asking else say.statement(clause)

    def question(self) -> Text:
        """A yes/no question."""
        return say.question(replace(self.action(self.subject(people=ASKED)), time_first=False))

    def word_question(self) -> Text:
        """A question with a question word."""
        subject = self.subject(people=ASKED)
        clause = replace(self.action(subject), time_first=False, gladly=False)
        questions: list[tuple[float, Callable[[], Text]]] = [
            (2, lambda: say.asked(replace(clause, time=None, negated=False), WHEN)),
            (2, lambda: say.asked(clause, WHY)),
            (3, lambda: self.where(clause)),
            (3, lambda: self.whom(clause)),
            (2, lambda: say.asked_subject(replace(self.action(Pronoun("he")), time_first=False))),
        ]
        return self.weighted(questions)()

    def where(self, clause: Clause) -> Text:
        """Question about a place or destination, otherwise about a reason."""
        if clause.place is None:
            return say.asked(clause, WHY)
        word = TO_WHERE if clause.place.going else WHERE
        return say.asked(replace(clause, place=None, negated=False), word)

    def whom(self, clause: Clause) -> Text:
        """Question about the object."""
        asks = replace(clause, object=None, negated=False)
        if not clause.object or clause.receiver:
            return say.asked(replace(clause, negated=False, time=None), WHEN)
        if isinstance(clause.object, Phrase) and "person" not in clause.object.noun.kinds:
            return say.asked(asks, WHAT) if clause.verb.government == "acc" else say.question(clause)
        return say.asked_object(asks, WHO[clause.verb.government.split()[-1]])

    def command(self) -> Text:
        """Command to a friend."""
        while True:
            verb = self.verb()
            if not (verb.stative or verb.habit or verb.reflexive or verb.where == "arrival"):
                break
        clause = self.action(Pronoun("you"), verb, timed=False)
        negated = self.chance(0.2) and self.deniable(clause)
        please = self.chance(0.35) and not negated
        return say.command(replace(clause, modal=None, gladly=False, negated=negated), please)

    def pleasing(self) -> Text:
        """Sentence with gefallen, which is to like in English."""
        noun = self.noun(frozenset({"clothes", "vehicle", "building", "place", "text", "seen", "furniture"}))
        plural = self.chance(0.25)
        thing = Phrase(noun, self.weighted([(3, "the"), (2, "this")]), plural, self.adjective(noun, 0.4))
        likes = self.words.verbs["gefallen"]
        somebody = self.object(replace(likes, pronoun=True), thing)
        clause = Clause(thing, likes, object=somebody, negated=self.chance(0.25))
        return (
            say.question(clause)
            if self.chance(0.25)
            else say.statement(replace(clause, tense=self.weighted([(2, "present"), (1, "past")])))
        )

    def there_is(self) -> Text:
        """Sentence with es gibt."""
        where = Place(Phrase(self.words.nouns[self.pick(["Stadt", "Dorf"])]))
        noun = self.noun(frozenset({"site"}))
        plural = self.chance(0.4)
        determiner = self.pick(list(self.words.numbers)) if plural else "a"
        what = Phrase(noun, determiner, plural, self.adjective(noun, 0.4))
        return say.there_is(what, where, self.chance(0.6))

    def figures(self) -> Text:
        """A price or an age."""
        de, en = self.pick(list(self.words.numbers.items()))
        if self.chance(0.5):
            somebody = self.child()
            age = Text(f"{de} Jahre alt", f"{en} years old")
            return say.statement(Clause(somebody, self.words.verbs["sein"], predicate=age))
        noun = self.noun(frozenset({"thing", "clothes", "fruit"}))
        plural = self.chance(0.3)
        thing = Phrase(noun, self.pick(["the", "this"]), plural, self.adjective(noun, 0.3))
        price = Text(f"{de} Euro", f"{en} euros")
        return say.statement(Clause(thing, self.words.verbs["kosten"], predicate=price))

    def child(self) -> Who:
        """Somebody young, or a name or pronoun that may be."""
        if self.chance(0.5):
            return Pronoun(self.pick(PEOPLE)) if self.chance(0.4) else self.name()
        noun = self.noun(frozenset({"young"}))
        return Phrase(noun, self.pick(["my", "your", "our"]) if "kin" in noun.kinds else self.pick(["the", "this"]))

    def two(self) -> Text:
        """Two statements joined."""
        first, second = self.subject(), self.subject()
        return say.joined(say.statement(self.clean(first)), self.pick([AND, BUT]), say.statement(self.clean(second)))

    def mood(self, subject: Who) -> tuple[Clause, Clause]:
        """A mood, and what somebody does in it."""
        name = self.pick(list(self.words.moods))
        adjective = self.words.adjectives[name]
        state = Clause(self.same(subject), self.words.verbs["sein"], predicate=Text(adjective.de, adjective.en))
        return state, replace(self.clean(subject, self.verbs(self.words.moods[name])), negated=False, gladly=False)

    def weather(self, subject: Who) -> tuple[Clause, Clause]:
        """The weather, and what somebody does then."""
        entry = self.pick(self.words.weathers)
        predicate = Text(entry["de"], entry["en"]) if "de" in entry else None
        state = Clause(Pronoun("it"), self.words.verbs[entry["verb"]], predicate=predicate)
        return state, replace(self.clean(subject, self.verbs(entry["then"])), negated=False, gladly=False)

    def cause(self, subject: Who) -> tuple[Clause, Clause]:
        """A reason and its consequence."""
        return (self.mood if self.chance(0.6) else self.weather)(subject)

    def wish(self, subject: Who) -> Clause:
        """Obligation or wish: a reason for many actions."""
        clause = self.clean(subject, self.verbs(self.words.tasks))
        modal = self.words.modals[self.pick(["müssen", "wollen", "möchten"])]
        return replace(clause, modal=modal, negated=False, gladly=False)

    def because(self) -> Text:
        """A statement and its reason."""
        subject = self.doer()
        if self.chance(0.5):
            reason, effect = self.cause(subject)
            return say.trailing(say.statement(effect), "weil", reason)
        effect = self.clean(subject, self.verbs(self.words.effects))
        return say.trailing(say.statement(effect), "weil", self.wish(self.same(subject)))

    def when_or_if(self) -> Text:
        """A condition, before or after the statement."""
        subject = self.doer()
        conjunction = self.pick(["wenn", "falls"])
        condition, effect = self.cause(subject)
        if conjunction == "falls":
            effect = replace(effect, tense="present" if effect.modal else "future", gladly=False)
        if self.chance(0.6):
            return say.leading(conjunction, condition, effect)
        return say.trailing(say.statement(effect), conjunction, condition)

    def although(self) -> Text:
        """A statement in spite of something."""
        subject = self.doer()
        reason, effect = self.cause(subject)
        denied = self.deniable(effect) and not effect.gladly
        return say.trailing(say.statement(replace(effect, negated=denied)), "obwohl", reason)

    def reported(self) -> Text:
        """Main clause of a report: somebody believes, hopes, knows, says."""
        believer = self.subject(0.5)
        return say.trailing(say.statement(self.saying(believer)), "dass", self.content(believer))

    def saying(self, believer: Who) -> Clause:
        """Somebody believes, hopes, knows, says."""
        return Clause(believer, self.verbs(["glauben", "hoffen", "wissen", "sagen"]))

    def content(self, believer: Who) -> Clause:
        """Content of a report or question: an action or a state, of the same person or another."""
        subject = self.subject(0.3) if person(believer) in ("I", "you") or self.chance(0.8) else self.same(believer)
        clause = self.state(subject) if self.chance(0.2) else self.action(subject)
        return replace(clause, time_first=False)

    def wondering(self) -> Text:
        """Sentence with an indirect question."""
        wonderer = self.subject(0.5)
        verb = self.verbs(["wissen", "fragen"])
        main = say.statement(Clause(wonderer, verb, negated=verb.de == "wissen"))
        clause = replace(self.content(wonderer), negated=False)
        if self.chance(0.5):
            return say.trailing(main, "ob", clause)
        clause = replace(clause, gladly=False)
        if clause.place and self.chance(0.6):
            word = TO_WHERE if clause.place.going else WHERE
            return say.indirect(main, word, replace(clause, place=None))
        return say.indirect(main, WHY, clause)

    def in_order(self) -> Text:
        """Going somewhere in order to do something there."""
        subject = self.subject()
        going = self.action(subject, self.verbs(["gehen", "fahren", "fliegen"]))
        kinds = going.place.phrase.noun.kinds if going.place and isinstance(going.place.phrase, Phrase) else {"far"}
        verb = self.verbs(next(verbs for kind, verbs in self.words.purposes.items() if kind in kinds))
        aim = replace(self.action(subject, verb, timed=False), modal=None, negated=False, gladly=False, place=None)
        return say.purpose(say.statement(replace(going, negated=False, gladly=False)), aim)

    def relative(self) -> Text:
        """Somebody who does something, or something that somebody has, and how it is."""
        if self.chance(0.5):
            whom = self.someone("")
            clause = self.clean(Gap(whom.noun, whom.plural))
            mood = self.pick([word for word in self.words.adjectives.values() if "mood" in word.kinds])
            return say.statement(
                Clause(say.described(whom, clause), self.words.verbs["sein"], predicate=Text(mood.de, mood.en))
            )
        quality = self.quality()
        assert isinstance(quality.subject, Phrase)
        what = replace(quality.subject, determiner="the")
        fitting = [v for v in self.words.verbs.values() if v.object & what.noun.kinds and v.government == "acc"]
        fitting = [verb for verb in fitting if not (verb.receiver or verb.named)]
        if not fitting:
            return say.statement(quality)
        clause = self.clean(self.subject(), self.pick(fitting))
        gap = Gap(what.noun, what.plural)
        subject = say.described(what, replace(clause, object=gap, place=None, negated=False, gladly=False))
        return say.statement(replace(quality, subject=subject))

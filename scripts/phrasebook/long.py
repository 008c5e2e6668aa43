"""Sentences longer than any in training: the same clauses, stacked."""

from phrasebook import sentences as say
from phrasebook.compose import AND, BUT, Composer
from phrasebook.words import Text


class LongComposer(Composer):
    """Draws sentences of three and four clauses."""

    def sentence(self) -> Text:
        """One long sentence of any kind."""
        kind = self.weighted(
            [
                (3, self.condition_and_reason),
                (3, self.report_and_reason),
                (2, self.two_reports),
                (2, self.contrast),
            ]
        )
        return say.finished(kind())

    def condition_and_reason(self) -> Text:
        """When A, B, and C because D."""
        subject, other = self.doer(), self.doer()
        condition, effect = self.cause(subject)
        first = say.leading("wenn", condition, effect)
        reason, consequence = self.mood(other)
        second = say.trailing(say.statement(consequence), "weil", reason)
        return say.joined(first, self.pick([AND, BUT]), second)

    def report_and_reason(self) -> Text:
        """X believes that A because B."""
        believer, subject = self.subject(0.4), self.doer()
        main = say.statement(self.saying(believer))
        inner = self.clean(subject, self.verbs(self.words.effects))
        report = say.trailing(main, "dass", inner)
        return say.trailing(report, "weil", self.wish(self.same(subject)))

    def two_reports(self) -> Text:
        """X hopes that A, but Y knows that B."""
        first, second = self.reported(), self.reported()
        return say.joined(first, self.pick([AND, BUT]), second)

    def contrast(self) -> Text:
        """A although B, but C because D."""
        subject = self.doer()
        second = self.clean(subject, self.verbs(self.words.effects))
        return say.joined(
            self.although(),
            BUT,
            say.trailing(say.statement(second), "weil", self.wish(self.same(subject))),
        )

"""Writes Events on Services: what a user must know, and cannot see elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from activator.plain.service import Refusal, word_of
from activator.scale.decisions import reasons
from activator.scale.decisions.effects import Decided
from activator.scale.decisions.findings import Reason
from activator.scale.events.event_book import Notice, Subject
from activator.scale.events.events import Events
from activator.scale.part import Context, Part
from activator.scale.reports.load import Name
from activator.scale.workloads.subresource import Problem
from activator.scale.workloads.targets import TargetProblem

#: The reasons that stay until a person changes something. Each other one is about the whole
#: cluster or ends by itself; findings have the rest.
LASTING: Final = frozenset(
    {
        *(reasons.SERVICE_REFUSED, *Refusal),
        *(problem.value for problem in TargetProblem),
        *(each.value for each in (Problem.FORBIDDEN, Problem.MISSING, Problem.REFUSED)),
        Problem.CONFLICT.value,
        Reason.TWO_OWNERS.value,
    }
)


@final
class Reporting:
    """Reports the findings of each decision (effects.Effect).

    Arguments:
        events: writes the Events.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        self._subjects: dict[Name, Subject] = {}

    def put(self, name: Name, decided: Decided, now: float) -> None:
        """See effects.Effect."""
        notices = self._notices(decided)
        known = self._subjects.get(name)
        if known is None and not notices:
            return
        subject = Subject(*name, decided.service.uid)
        if known is not None and known != subject:
            self.remove(name, now)
        self._subjects[name] = subject
        self._events.report(subject, notices)

    def _notices(self, decided: Decided) -> Sequence[Notice]:
        found = [
            Notice(each.reason.value, each.note)
            for each in decided.findings
            if each.reason is not Reason.NO_ACTIVATORS  # each Service would have the same Event
        ]
        found += [
            Notice(word_of(text, Reason.SERVICE_WARNING.value), text)
            for text in decided.service.warnings
        ]
        # A finding has its own note on two owners, unless the other one is a Service.
        is_new = decided.reason not in {each.reason for each in found}
        if decided.reason in LASTING and is_new:
            found.append(Notice(decided.reason, reasons.text(decided.reason, decided.detail)))
        return found

    def remove(self, name: Name, now: float) -> None:
        """See effects.Effect."""
        subject = self._subjects.pop(name, None)
        if subject is not None:
            self._events.remove(subject)

    def start(self, now: float) -> None:
        """See effects.Effect."""

    def stop(self, now: float) -> None:
        """See effects.Effect: the next leader reports."""
        for subject in self._subjects.values():
            self._events.remove(subject)
        self._subjects.clear()
        self._events.close()


def make(context: Context) -> Part:
    """Return the part that writes Events."""
    events = Events(context.api, context.start, context.settings.pod_name, context.clock)
    return Part(effect=Reporting(events))

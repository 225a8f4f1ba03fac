"""Events reach the listeners of their time, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activator.records.events import EventKind, Events
from throttler.model import RevisionID

HELLO = RevisionID("default", "hello")


class Ear:
    """Record the events; leave after ``patience`` events."""

    def __init__(self, events: Events, patience: int = 100) -> None:
        self.heard: list[tuple[EventKind, RevisionID, Mapping[str, Any]]] = []
        self._events = events
        self._patience = patience
        events.listen(self)

    def __call__(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        self.heard.append((kind, revision, what))
        if len(self.heard) == self._patience:
            self._events.leave(self)


def test_all_listeners_get_all_events_in_order() -> None:
    events = Events()
    ears = Ear(events), Ear(events)
    events.publish(EventKind.QUEUE_BEGAN, HELLO, {"reason": "no-endpoints"})
    events.publish(EventKind.QUEUE_ENDED, HELLO, {})
    for ear in ears:
        assert ear.heard == [
            (EventKind.QUEUE_BEGAN, HELLO, {"reason": "no-endpoints"}),
            (EventKind.QUEUE_ENDED, HELLO, {}),
        ]


def test_a_listener_that_leaves_during_an_event_takes_nothing_from_others() -> None:
    events = Events()
    hasty, patient = Ear(events, patience=1), Ear(events)
    for _ in range(2):
        events.publish(EventKind.QUEUE_ENDED, HELLO, {})
    assert len(hasty.heard) == 1
    assert len(patient.heard) == 2


def test_a_session_begins_with_the_first_listener_after_none() -> None:
    events = Events()
    first = Ear(events)
    began = events.session
    second = Ear(events)
    assert events.session == began
    events.leave(first)
    events.leave(second)
    Ear(events)
    assert events.session == began + 1

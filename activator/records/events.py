"""Passes events of revisions and their pods to the current listeners.

A publisher first checks for listeners, so that it makes no event without one. The module knows
neither HTTP nor the meaning of an event. Knative has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from throttler.model import RevisionID


class EventKind(Enum):
    """The kinds of events; the value is the name on the wire."""

    POD_CHANGED = "pod-changed"
    CAPACITY_CHANGED = "capacity-changed"
    QUEUE_BEGAN = "queue-began"
    QUEUE_ENDED = "queue-ended"
    COLD_START_FINISHED = "cold-start-finished"
    FAILED = "failed"


#: Handles one event: its kind, its revision, and its data as JSON. It must return at once and must
#: not raise.
Listener = Callable[[EventKind, RevisionID, Mapping[str, Any]], None]


class Events:
    """Passes events on, in the order in which they happen.

    Attributes:
        listeners: the current listeners. A publisher checks this before it makes an event.
        session: grows with the first listener after a time without any. Notes that a publisher
            made in an earlier session are stale.
    """

    __slots__ = ("listeners", "session")

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.session = 0

    def listen(self, listener: Listener) -> None:
        """Add a listener."""
        self.session += not self.listeners
        self.listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self.listeners.remove(listener)

    def publish(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        """Call all listeners; a listener may remove itself meanwhile."""
        for listener in tuple(self.listeners):
            listener(kind, revision, what)

"""What happens to revisions and their pods, told to whoever listens at the moment.

A list of listeners and no more: who publishes asks first whether anybody listens, so that nothing
is made for nobody. Knows neither HTTP nor what the events mean to whom. Knative has no
counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from throttler.model import RevisionID


class EventKind(Enum):
    """What can happen, past tense; the value is its name on the wire."""

    POD_CHANGED = "pod-changed"
    CAPACITY_CHANGED = "capacity-changed"
    QUEUE_BEGAN = "queue-began"
    QUEUE_ENDED = "queue-ended"
    WAKE_UP_FINISHED = "wake-up-finished"
    FAILED = "failed"


#: Takes one event: its kind, the revision it is of, and what there is to say, as JSON has it. Must
#: return at once and may not raise.
Listener = Callable[[EventKind, RevisionID, Mapping[str, Any]], None]


class Events:
    """Passes events on, in the order in which they happen.

    Attributes:
        listeners: who is told. A publisher looks whether it is empty before it makes an event.
        session: grows whenever somebody begins to listen after a time in which nobody did. What a
            publisher has noted in an earlier one is not to be trusted.
    """

    __slots__ = ("listeners", "session")

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.session = 0

    def listen(self, listener: Listener) -> None:
        """Tell this one from now on."""
        self.session += not self.listeners
        self.listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Tell it no more."""
        self.listeners.remove(listener)

    def publish(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        """Tell everybody who listens; a listener may leave while it is told."""
        for listener in tuple(self.listeners):
            listener(kind, revision, what)

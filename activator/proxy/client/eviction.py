"""Which idle connection is closed where there is no place for one more client.

Idle connections stay open as long as there is room, as Knative's do. Where one more client comes
than there are places, one of them is evicted: first of those without any request, then of those in
HTTP/2, since GOAWAY loses no request, then of all. Of a few, the one that has been idle longest is
closed. Knows no HTTP and no socket.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

#: Connections that are looked at in one turn. They move to the end, so that the rest comes later.
_SAMPLE: Final = 16
#: Seconds of silence before which none is closed: its next request may be on its way.
_SILENCE: Final = 1.0


class Guest(Protocol):
    """A client's connection.

    Attributes:
        idle_since: when its last request ended, or when it was made.
    """

    idle_since: float

    def may_be_evicted(self) -> bool:
        """Return whether nothing runs on it, and nothing of a request has been read."""

    def evict(self) -> bool:
        """Close, unless unread bytes have arrived; return whether it closes."""


class Eviction:
    """The connections of all clients, by how little is lost with them."""

    def __init__(self) -> None:
        self._silent: OrderedDict[Guest, None] = OrderedDict()
        self._http2: OrderedDict[Guest, None] = OrderedDict()
        self._http1: OrderedDict[Guest, None] = OrderedDict()
        self._evicted: set[Guest] = set()

    def add(self, guest: Guest, *, http2: bool = False) -> None:
        """Add a new connection, or one that speaks HTTP/2 from now on."""
        (self._http2 if http2 else self._silent)[guest] = None

    def on_first_request(self, guest: Guest) -> None:
        """Record that a client has sent its first request."""
        self._silent.pop(guest, None)
        self._http1[guest] = None

    def remove(self, guest: Guest) -> None:
        """Remove a connection that is closed, or that changes its version of HTTP."""
        for guests in (self._silent, self._http2, self._http1):
            guests.pop(guest, None)
        self._evicted.discard(guest)

    @property
    def evicted(self) -> int:
        """How many have been evicted and are not closed yet."""
        return len(self._evicted)

    def make_room(self, now: float, most: int) -> bool:
        """Evict one client; return whether one closes.

        Arguments:
            now: seconds; most: how many may be closing at a time.
        """
        if len(self._evicted) >= most:
            return False
        for guests in (self._silent, self._http2, self._http1):
            for guest in _longest_idle(guests, now):
                if guest.evict():
                    guests.pop(guest, None)
                    self._evicted.add(guest)
                    return True
        return False


def _longest_idle(guests: OrderedDict[Guest, None], now: float) -> list[Guest]:
    """Return those of the next few that may be evicted, the longest idle first."""
    found = []
    for _ in range(min(_SAMPLE, len(guests))):
        guest, _none = guests.popitem(last=False)
        guests[guest] = None
        if guest.may_be_evicted() and guest.idle_since + _SILENCE <= now:
            found.append(guest)
    return sorted(found, key=lambda guest: guest.idle_since)

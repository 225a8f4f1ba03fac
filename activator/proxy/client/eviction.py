"""Which client goes where there is no place for one more: one that asks for nothing.

Idle connections are kept for as long as there is room, as Knative's are. Only when one more client
comes than there are places does one of them end: whoever has never asked for anything first, then
who speaks HTTP/2 and is told by GOAWAY that nothing is lost, then anybody; each time the one that
has been idle longest of a few. Knows no HTTP and no socket.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

#: Connections that are looked at for one to go. The rest comes later: those that were looked at
#: go to the end.
_SAMPLE: Final = 16
#: Seconds of silence before which none goes: its next request may be on its way.
_SILENCE: Final = 1.0


class Guest(Protocol):
    """A client's connection.

    Attributes:
        idle_since: when its last request ended, or when it was made.
    """

    idle_since: float

    def may_leave(self) -> bool:
        """Whether nothing runs on it, and nothing of a request has been read."""

    def leave(self) -> bool:
        """Close, unless something has come that is not read yet; return whether it does."""


class Eviction:
    """The connections of all clients, by how little is lost with them."""

    def __init__(self) -> None:
        self._silent: OrderedDict[Guest, None] = OrderedDict()
        self._http2: OrderedDict[Guest, None] = OrderedDict()
        self._http1: OrderedDict[Guest, None] = OrderedDict()
        self._leaving: set[Guest] = set()

    def came(self, guest: Guest, *, http2: bool = False) -> None:
        """A client has connected, or speaks HTTP/2 from now on."""
        (self._http2 if http2 else self._silent)[guest] = None

    def asked(self, guest: Guest) -> None:
        """A client has sent its first request."""
        self._silent.pop(guest, None)
        self._http1[guest] = None

    def left(self, guest: Guest) -> None:
        """A connection is no more."""
        for guests in (self._silent, self._http2, self._http1):
            guests.pop(guest, None)
        self._leaving.discard(guest)

    @property
    def leaving(self) -> int:
        """How many have been sent away and are not gone yet."""
        return len(self._leaving)

    def make_room(self, now: float, most: int) -> bool:
        """Send one client away; return whether one goes.

        Arguments:
            now: seconds; most: how many may be on their way out at a time.
        """
        if len(self._leaving) >= most:
            return False
        for guests in (self._silent, self._http2, self._http1):
            for guest in _longest_idle(guests, now):
                if guest.leave():
                    guests.pop(guest, None)
                    self._leaving.add(guest)
                    return True
        return False


def _longest_idle(guests: OrderedDict[Guest, None], now: float) -> list[Guest]:
    """Return those of the next few that may go, the longest idle first."""
    found = []
    for _ in range(min(_SAMPLE, len(guests))):
        guest, _none = guests.popitem(last=False)
        guests[guest] = None
        if guest.may_leave() and guest.idle_since + _SILENCE <= now:
            found.append(guest)
    return sorted(found, key=lambda guest: guest.idle_since)

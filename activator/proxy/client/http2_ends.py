"""Decides how HTTP/2 connections and streams of clients end: two state machines. Pure.

``GoawaySteps`` decides which GOAWAY a client gets, and when (RFC 9113 section 6.8). The first one
asks the client to open no more streams. A second later, another one names the last stream. So no
stream that crosses the first GOAWAY is lost. A PING would show when the client has read the first
one. But after a GOAWAY the library h2 treats each frame except GOAWAY as an error, and drops all
data that it read with that frame.

``BlockedStreams`` finds streams that have their response and do not end in time. Flow control may
block the rest of a response, because the client does not read it. Or the client has the whole
response, and does not end its request: the rest is discarded, see ``connection.Linger``. Each has
a time-out.
"""

from __future__ import annotations

from enum import IntEnum, auto
from math import inf
from typing import Final, final

from activator.proxy.client.connection import LONGEST_SECONDS, MAX_BYTES, MAX_SECONDS
from activator.proxy.http2.connection import Stream

#: Seconds between the two GOAWAY frames (Go: the same).
LEAVE_SECONDS: Final = 1.0


class Goaway(IntEnum):
    """The GOAWAY frames that a client has got. No step leads back.

    NOT_SENT: none.
    CLOSE_PLANNED: none yet. The connection is beyond the limit, and GOAWAY follows soon.
    ANNOUNCED: the one that asks it to open no more streams.
    LAST_SENT: the one that names the last stream.
    """

    NOT_SENT = auto()
    CLOSE_PLANNED = auto()
    ANNOUNCED = auto()
    LAST_SENT = auto()


#: Module names for the members, for speed: see fields.HTTP_1_1.
NOT_SENT: Final = Goaway.NOT_SENT
CLOSE_PLANNED: Final = Goaway.CLOSE_PLANNED
ANNOUNCED: Final = Goaway.ANNOUNCED
LAST_SENT: Final = Goaway.LAST_SENT


@final
class GoawaySteps:
    """The GOAWAY frames of one connection.

    Attributes:
        state: the frames so far; only ``advance`` changes it.
        due_at: when to call ``due``, seconds; infinite while no frame is planned.
        multiplexed: whether two streams have been open at the same time.
    """

    __slots__ = ("due_at", "multiplexed", "state")

    def __init__(self) -> None:
        self.state: Goaway = NOT_SENT
        self.due_at = inf
        self.multiplexed = False

    def advance(self, state: Goaway, now: float) -> bool:
        """Enter a state if it is a later one.

        Arguments:
            state: the new state.
            now: seconds.

        Returns:
            Whether the state changed. Then the caller sends the GOAWAY of the state, if any.
        """
        if state <= self.state:
            return False
        self.state = state
        self.due_at = inf if state is LAST_SENT else now + LEAVE_SECONDS
        return True

    def wait_for_request(self, now: float) -> None:
        """Delay GOAWAY by a second after the last stream, so that the client reads its response."""
        self.due_at = min(self.due_at, now + LEAVE_SECONDS)

    def due(self, now: float, *, idle: bool) -> Goaway | None:
        """Return the state to enter now; None for no change.

        Arguments:
            now: seconds.
            idle: whether no stream is open.
        """
        if now < self.due_at:
            return None
        self.due_at = inf
        if self.state is ANNOUNCED:
            return LAST_SENT
        if self.state is CLOSE_PLANNED or (idle and self.state is NOT_SENT):
            return ANNOUNCED
        return None


@final
class _Watched:
    """One stream.

    Attributes:
        left: unsent bytes of its response at the last check.
        room: bytes of its request that may still be discarded; moved: whether some were since the
            last check; until: when no more may be, seconds.
        since: when the last check found progress, seconds.
    """

    __slots__ = ("left", "moved", "room", "since", "until")

    def __init__(self, left: int, since: float, room: int) -> None:
        self.left = left
        self.since = since
        self.room = room
        self.moved = False
        self.until = since + LONGEST_SECONDS


@final
class BlockedStreams:
    """The streams of one connection.

    Arguments:
        timeout: seconds within which a client must accept a part of a response.

    Attributes:
        streams: the watched streams.
    """

    __slots__ = ("_timeout", "streams")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.streams: dict[Stream, _Watched] = {}

    def watch(self, stream: Stream, now: float) -> float:
        """Watch a stream from now on; return when it expires, seconds.

        The rest of a malformed request is not awaited.
        """
        self.streams[stream] = _Watched(stream.left, now, 0 if stream.fault else MAX_BYTES)
        return now + self._limit(stream)

    def discard(self, stream: Stream, size: int) -> bool:
        """Count discarded bytes of a stream's request; return whether its client may send more."""
        watched = self.streams.get(stream)
        if watched is None:  # the request has ended
            return False
        watched.room -= size
        watched.moved = watched.room > 0
        return watched.moved

    def remove(self, stream: Stream) -> None:
        """Watch a stream no more."""
        self.streams.pop(stream, None)

    def late(self, now: float) -> list[Stream]:
        """Return the expired streams: their clients read nothing, or did not end them."""
        found = []
        for stream, watched in self.streams.items():
            if now < watched.since + self._limit(stream):
                continue
            if stream.left < watched.left or (watched.moved and now < watched.until):
                watched.left, watched.since, watched.moved = stream.left, now, False
            else:
                found.append(stream)
        return found

    def next(self) -> float:
        """Return when the next stream expires, seconds; infinite for none."""
        return min(
            [each.since + self._limit(stream) for stream, each in self.streams.items()] or [inf]
        )

    def _limit(self, stream: Stream) -> float:
        return MAX_SECONDS if stream.closed else self._timeout

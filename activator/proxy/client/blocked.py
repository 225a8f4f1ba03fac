"""Finds HTTP/2 streams of a client that have their response and do not end in time.

Flow control may block the rest of a response, because the client does not read it. Or the client
has the whole response, and does not end its request: the rest is discarded, see
``connection.Linger``. Each has a time-out. Pure.
"""

from __future__ import annotations

from math import inf
from typing import final

from activator.proxy.client.connection import LONGEST_SECONDS, MAX_BYTES, MAX_SECONDS
from activator.proxy.http2.connection import Stream


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

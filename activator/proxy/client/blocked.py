"""Finds HTTP/2 streams of a client that have their response and do not end in time.

Flow control may block the rest of a response, because the client does not read it. Or the client
has the whole response, and does not end its request. Each has a time-out. Pure.
"""

from __future__ import annotations

from math import inf
from typing import final

from activator.proxy.client.linger import MAX_SECONDS
from activator.proxy.http2.stream import Stream


@final
class BlockedStreams:
    """The streams of one connection.

    Arguments:
        timeout: seconds within which a client must accept a part of a response.

    Attributes:
        streams: by stream: the unsent bytes of its response at the last check, and the time since
            when that number is unchanged.
    """

    __slots__ = ("_timeout", "streams")

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.streams: dict[Stream, tuple[int, float]] = {}

    def watch(self, stream: Stream, now: float) -> float:
        """Watch a stream from now on; return when it expires, seconds."""
        self.streams[stream] = (stream.left, now)
        return now + self._limit(stream)

    def remove(self, stream: Stream) -> None:
        """Watch a stream no more."""
        self.streams.pop(stream, None)

    def late(self, now: float) -> list[Stream]:
        """Return the expired streams: their clients read nothing, or did not end them."""
        found = []
        for stream, (left, since) in self.streams.items():
            if stream.left < left:
                self.streams[stream] = (stream.left, now)
            elif now >= since + self._limit(stream):
                found.append(stream)
        return found

    def next(self) -> float:
        """Return when the next stream expires, seconds; infinite for none."""
        return min(
            [since + self._limit(each) for each, (_, since) in self.streams.items()] or [inf]
        )

    def _limit(self, stream: Stream) -> float:
        return MAX_SECONDS if stream.closed else self._timeout

"""Streams of a client in HTTP/2 that have their response and do not end.

Either flow control blocks the rest of a response, since the client does not take it; or the
client has the whole response and does not end its request. Each stream has a time for that. Sends
nothing and reads no clock.
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
        patience: seconds for a client to take a part of a response.

    Attributes:
        streams: by stream: bytes of its response that were left at the last look, and since when.
    """

    __slots__ = ("_patience", "streams")

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.streams: dict[Stream, tuple[int, float]] = {}

    def watch(self, stream: Stream, now: float) -> float:
        """Watch a stream from now on; return when it is late."""
        self.streams[stream] = (stream.left, now)
        return now + self._limit(stream)

    def forget(self, stream: Stream) -> None:
        """Watch a stream no more."""
        self.streams.pop(stream, None)

    def late(self, now: float) -> list[Stream]:
        """Return streams whose client read nothing for too long, or that do not end."""
        found = []
        for stream, (left, since) in self.streams.items():
            if stream.left < left:
                self.streams[stream] = (stream.left, now)
            elif now >= since + self._limit(stream):
                found.append(stream)
        return found

    def next(self) -> float:
        """Return when the next stream is late; infinite for none."""
        return min(
            [since + self._limit(each) for each, (_, since) in self.streams.items()] or [inf]
        )

    def _limit(self, stream: Stream) -> float:
        return MAX_SECONDS if stream.closed else self._patience

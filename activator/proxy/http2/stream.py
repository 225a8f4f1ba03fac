"""One stream of one connection: what it may send and take, and what waits to be sent on it.

Its connection decides what goes out when; clients and pods have the same streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, final

from activator.proxy.http2 import frames
from activator.proxy.http2.flow import TELL_AFTER
from activator.proxy.message.body import pile
from activator.proxy.transport.unread import SMALL_WINDOW, WINDOW, Peer, UnreadBytes

#: Bytes that a peer may send on a stream beyond what has gone out on the other side.
STREAM_WINDOW: Final = WINDOW


class StreamConnection(ABC):
    """A stream's connection, as a stream uses it."""

    __slots__ = ()

    unread: UnreadBytes

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Have frames sent, with all others of this turn of the loop."""

    @abstractmethod
    def send_whole(self, stream: Stream, payload: bytes, *, ended: bool) -> bool:
        """Send payload in one frame if nothing is in its way; return whether it was sent."""

    @abstractmethod
    def pump(self, stream: Stream) -> None:
        """Send what windows and transport allow of a stream; the rest waits."""

    @abstractmethod
    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of a stream."""


@final
class Stream:
    """One stream of one connection.

    Attributes:
        owner: the side of an exchange that takes what comes; None once that has ended.
        window: bytes that may be sent on it, may be negative (RFC 9113 section 6.9.2).
        unsent: payload that waits to be sent, if any; left: its bytes.
        ends: what ends it behind that: a block of trailers, empty for none, None as long as there
            is more to come.
        on_sent: called with bytes of payload once the kernel has them.
        allowed: bytes that the peer may still send; owed: that it may send once it is announced.
        closed: it was ended by our side; peer_closed: by the other side.
        missing: bytes of payload that were announced and have not come; -1 for not known.
        fault: error code of the RST_STREAM that follows when both sides have ended; 0 for none.
    """

    __slots__ = (
        "allowed",
        "closed",
        "connection",
        "ends",
        "fault",
        "id",
        "left",
        "missing",
        "on_sent",
        "owed",
        "owner",
        "peer_closed",
        "unsent",
        "window",
    )

    def __init__(
        self, connection: StreamConnection, stream: int, window: int, owner: object | None
    ) -> None:
        self.connection = connection
        self.id = stream
        self.owner = owner
        self.window = window
        self.unsent: deque[bytes] | None = None  # few streams need one, and it takes 0.6 KiB
        self.left = 0
        self.ends: bytes | None = None
        self.on_sent: Callable[[int], None] | None = None
        self.allowed = STREAM_WINDOW
        self.owed = 0
        self.closed = False
        self.peer_closed = False
        self.missing = -1
        self.fault = 0

    def send(self, payload: bytes, trailers: bytes | None) -> None:
        """Send payload, and end the stream where ``trailers`` is not None."""
        if self.closed:
            return
        if payload and self.connection.send_whole(self, payload, ended=trailers == b""):
            if not trailers:
                return
        elif payload:
            if self.unsent is None:
                self.unsent = deque()
            pile(self.unsent, payload)
            self.left += len(payload)
        self.ends = trailers
        self.connection.pump(self)
        if self.left:
            self.connection.unread.hold(self, self.left)

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader."""
        return self.connection.end_stream_unread(self)

    def came(self, length: int) -> bool:
        """Count payload that came; return whether it was allowed."""
        self.allowed -= length
        return self.allowed >= 0

    def credit(self, length: int) -> None:
        """Let the peer send so much more, unless it has ended the stream."""
        if self.peer_closed:
            return
        self.owed = room = self.owed + length
        window = STREAM_WINDOW
        if self.connection.unread.scarce:
            # Its window shrinks as bytes pass, and grows again by what is owed until then.
            room, window = room - (STREAM_WINDOW - SMALL_WINDOW), SMALL_WINDOW
        if room * TELL_AFTER >= window:
            self.connection.write(frames.window_update(self.id, room))
            self.allowed += room
            self.owed -= room

"""Counts the windows of one connection (RFC 9113 section 5.2), and finds tiny increments.

Pure: the connection sends the frames.
"""

from __future__ import annotations

from typing import Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.frames import DEFAULT_MAX_FRAME, DEFAULT_WINDOW, MAX_31_BITS

#: Bytes that a peer may send on all streams before it gets more window. Each stream has a limit of
#: its own, so one without a reader does not stop the others. This one limits a turn of the loop.
CONNECTION_WINDOW: Final = 1 << 20
#: The peer gets more window when the used part reaches the window divided by this.
WINDOW_SHARE: Final = 2
LOW_WINDOW: Final = CONNECTION_WINDOW - CONNECTION_WINDOW // WINDOW_SHARE
#: Bytes of an increment below which it costs more work than it allows: payload would go out in tiny
#: frames (CVE-2019-9511). A peer may send such increments for payload that it received in such
#: pieces. Larger increments are usual, and are less work than a request.
_SMALL_INCREMENT: Final = 64


@final
class Flow:
    """The windows of both directions of a connection.

    Attributes:
        window: bytes that the activator may send on all streams together.
        allowed: bytes that the peer may still send on all streams together. The connection counts
            them itself; ``grant`` is due at LOW_WINDOW.
        peer_window: bytes that the activator may send on a new stream.
        max_frame: most bytes of payload in a frame that the peer accepts.
        late: bytes of payload that may still arrive for streams that are over.
    """

    __slots__ = (
        "_granted",
        "_sent_at_ping",
        "_small_increments",
        "allowed",
        "late",
        "max_frame",
        "peer_window",
        "window",
    )

    def __init__(self) -> None:
        self.window = self._granted = DEFAULT_WINDOW
        self.peer_window = DEFAULT_WINDOW
        self.max_frame = DEFAULT_MAX_FRAME
        self.late = 0
        self.allowed = CONNECTION_WINDOW
        self._sent_at_ping = -1
        self._small_increments = [0, 0]  # bytes of small increments: of the connection, of streams

    def grant(self) -> int:
        """Restore the peer's whole window; return the increment, in bytes.

        Raises:
            ConnectionFault: the peer has sent more than its window.
        """
        if self.allowed < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "DATA beyond the window")
        owed = CONNECTION_WINDOW - self.allowed
        self.allowed = CONNECTION_WINDOW
        return owed

    def came_late(self, length: int) -> bool:
        """Count DATA for a stream that is over; return whether the stream's window allowed it."""
        if 0 < length <= self.late:
            self.late -= length
            return True
        return False

    def widen(self, increment: int) -> bool:
        """Widen the connection's window; return whether the increment counts as a flood.

        Arguments:
            increment: bytes.

        Raises:
            ConnectionFault: the window is too large.
        """
        is_too_small = self.is_too_small(0, increment)
        self._granted += increment
        self.window += increment
        if self.window > MAX_31_BITS:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
        return is_too_small

    def is_too_small(self, kind: int, size: int) -> bool:
        """Count an increment; return whether small increments exceed the payload that was sent.

        Arguments:
            kind: 0 for the connection's window, 1 for a stream's.
            size: bytes of the increment.
        """
        if size >= _SMALL_INCREMENT:
            return False
        self._small_increments[kind] += size
        return self._small_increments[kind] > self._granted - self.window

    def is_idle_ping(self) -> bool:
        """Count a PING; return whether no payload was sent since the PING before.

        gRPC measures bandwidth by PINGs, thousands of times a second.
        """
        sent = self._granted - self.window
        idle = sent == self._sent_at_ping
        self._sent_at_ping = sent
        return idle

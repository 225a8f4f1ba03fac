"""The streams of one connection: their windows, their states, and their queued payload."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from activator.proxy.http2 import frames
from activator.proxy.http2.frames import (
    DEFAULT_MAX_FRAME,
    DEFAULT_WINDOW,
    MAX_31_BITS,
    ConnectionFault,
    ErrorCode,
)
from activator.proxy.message.grammar import pile
from activator.proxy.transport.peer_socket import SMALL_WINDOW, WINDOW, Peer, UnreadBytes

# Counts the windows of one connection (RFC 9113 section 5.2), and finds tiny increments.
#
# Pure: the connection sends the frames.

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
class FlowControl:
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


# The streams of one connection: their windows, their states, and their queued payload.
#
# Connections of clients and to pods use the same streams. Pure: ``SendQueue.frames`` collects
# frames until the connection writes them.

#: Bytes that a peer may send on a stream before the other side has accepted them.
STREAM_WINDOW: Final = WINDOW


def _nothing() -> None:
    """Do nothing: the connection is lost."""


def _ignore(stream: Stream) -> None:
    """Do nothing: the connection is lost."""


def _nobody(stream: Stream) -> tuple[Peer, str]:
    """End nothing: the connection is lost."""
    return Peer.CLIENT, ""


@final
class SendQueue:
    """The frames and the payload that one connection has to send.

    Arguments:
        flow: the windows of the connection.
        unread: the budget of bytes that peers do not read.
        wake: called when a frame is queued and no write is due.
        on_ended: called with a stream when all of it is sent, before its last frame is written.
        on_unread: ends a stream whose payload has waited for longest; see unread.Reader.

    Attributes:
        frames: the frames of the next write.
        passed: payload in ``frames``, or in a full transport. Each item has its number of bytes,
            and a callback for the moment at which the transport accepts more.
        blocked: streams with payload and an open window of their own, in the order of their turns.
        is_due: whether a flush follows: it is scheduled, or ``data_received`` ends with one.
        full: whether the transport accepts no payload.
    """

    __slots__ = (
        "_on_ended",
        "_wake",
        "blocked",
        "flow",
        "frames",
        "full",
        "is_due",
        "on_unread",
        "passed",
        "unread",
    )

    def __init__(
        self,
        flow: FlowControl,
        unread: UnreadBytes,
        wake: Callable[[], object],
        on_ended: Callable[[Stream], None],
        on_unread: Callable[[Stream], tuple[Peer, str]],
    ) -> None:
        self.flow = flow
        self.unread = unread
        self._wake = wake
        self._on_ended = on_ended
        self.on_unread = on_unread
        self.frames: list[bytes] = []
        self.passed: list[tuple[Callable[[int], None], int]] = []
        self.is_due = False
        self.full = False
        self.blocked: dict[int, Stream] = {}

    def write(self, data: bytes) -> None:
        """Send frames with all others of this turn of the loop."""
        self.frames.append(data)
        if not self.is_due:
            self.is_due = True
            self._wake()

    def close(self) -> None:
        """Send no more: the connection is lost.

        A flush may still be scheduled. uvloop may have closed the handle of a transport that does
        not report it, and refuses each write.
        """
        self.frames = []
        self._wake = _nothing
        self._on_ended = _ignore
        self.on_unread = _nobody

    def report_passed(self) -> None:
        """Report to senders how many bytes the kernel accepted, so that they send more."""
        passed, self.passed = self.passed, []
        for on_sent, size in passed:
            on_sent(size)

    def send_whole(self, stream: Stream, payload: bytes, ended: bool) -> bool:
        """Send payload in one frame; return False if it has to wait.

        Few payloads have to wait, and a deque for each would cost twice as much.
        """
        size = len(payload)
        flow = self.flow
        if (
            stream.unsent
            or self.full
            or size > stream.window
            or size > flow.window
            or size > flow.max_frame
        ):
            return False
        stream.window -= size
        flow.window -= size
        self.write(frames.data_head(stream.id, size, ended=ended) + payload)
        if ended:  # the sender has no more payload, so it needs no report
            self._on_ended(stream)
        elif stream.on_sent is not None:
            self.passed.append((stream.on_sent, size))
        return True

    def pump(self, stream: Stream) -> None:
        """Send as much of a stream as windows and transport allow; queue the rest."""
        if stream.id in self.blocked:
            return
        while stream.unsent:
            if not self._send_piece(stream, stream.unsent):
                if stream.window > 0:  # else WINDOW_UPDATE of the stream calls ``retry``
                    self.blocked[stream.id] = stream
                return
        self._send_end(stream)

    def pump_all(self) -> None:
        """Send queued payload, one frame of each stream in turn, so that no stream starves."""
        while self.blocked and not self.full and self.flow.window > 0:
            stream = next(iter(self.blocked.values()))
            del self.blocked[stream.id]
            unsent = stream.unsent
            if stream.window <= 0 or (unsent and not self._send_piece(stream, unsent)):
                continue
            if unsent:
                self.blocked[stream.id] = stream
            else:
                self._send_end(stream)

    def widen(self, stream: Stream, by: int) -> None:
        """Change a stream's window by ``by`` bytes, which may be negative.

        Raises:
            ConnectionFault: the window is too large.
        """
        stream.window += by
        if stream.window > frames.MAX_31_BITS:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is too large")
        if stream.unsent and stream.window > 0:
            self.blocked[stream.id] = stream

    def retry(self, stream: Stream) -> None:
        """Send queued payload of a stream whose window is wider."""
        self.blocked.pop(stream.id, None)
        self.pump(stream)

    def discard(self, stream: Stream) -> None:
        """Drop the queued payload of a stream."""
        stream.unsent = stream.ends = None
        if stream.left:
            stream.left = 0
            self.unread.hold(stream, 0)
            self.blocked.pop(stream.id, None)

    def _send_piece(self, stream: Stream, unsent: deque[bytes]) -> bool:
        """Send one frame of a stream; return whether windows and transport allowed it."""
        flow = self.flow
        piece = unsent[0]
        room = min(stream.window, flow.window, flow.max_frame)
        if room <= 0 or self.full:
            return False
        if len(piece) > room:
            unsent[0] = piece[room:]
            piece = piece[:room]
        else:
            unsent.popleft()
        size = len(piece)
        stream.window -= size
        stream.left -= size
        self.unread.hold(stream, stream.left)
        flow.window -= size
        ended = stream.ends == b"" and not unsent
        self.write(frames.data_head(stream.id, size, ended=ended) + piece)
        if stream.on_sent is not None:
            self.passed.append((stream.on_sent, size))
        if ended:
            stream.ends = None
            self._on_ended(stream)
        return True

    def _send_end(self, stream: Stream) -> None:
        trailers, stream.ends = stream.ends, None
        if trailers is None or stream.closed:
            return
        if trailers:
            limit = self.flow.max_frame
            self.write(frames.headers(stream.id, trailers, ended=True, limit=limit))
        else:
            self.write(frames.data_head(stream.id, 0, ended=True))
        self._on_ended(stream)


@final
class Stream:
    """One stream of one connection.

    ``closed`` and ``peer_closed`` are its state (RFC 9113 section 5.1). If neither is set,
    the stream is open. If only ``closed`` is set, it is half-closed (local). If only
    ``peer_closed`` is set, it is half-closed (remote).

    Attributes:
        queue: sends the frames of its connection.
        owner: the side of an exchange that handles received frames; None once that has ended.
        window: bytes that may be sent on it; may be negative (RFC 9113 section 6.9.2).
        unsent: queued payload, if any; left: its bytes.
        ends: the trailers after the queued payload, as a header block, empty for none. None while
            more payload follows.
        on_sent: called with a number of bytes of payload once the kernel has them.
        allowed: bytes that the peer may still send; owed: bytes that it may send, and
            that no WINDOW_UPDATE has announced.
        closed: whether this side has ended; peer_closed: whether the peer's side has.
        missing: bytes of announced payload that have not arrived; -1 if unknown.
        fault: error code of the RST_STREAM to send when both sides have ended; 0 for none.
    """

    __slots__ = (
        "allowed",
        "closed",
        "ends",
        "fault",
        "id",
        "left",
        "missing",
        "on_sent",
        "owed",
        "owner",
        "peer_closed",
        "queue",
        "unsent",
        "window",
    )

    def __init__(self, queue: SendQueue, stream: int, owner: object | None) -> None:
        self.queue = queue
        self.id = stream
        self.owner = owner
        self.window = queue.flow.peer_window
        self.unsent: deque[bytes] | None = None  # few streams need one, of 0.6 KiB
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
        """Send payload; end the stream if ``trailers`` is not None."""
        if self.closed:
            return
        queue = self.queue
        if payload and queue.send_whole(self, payload, trailers == b""):
            if not trailers:
                return
        elif payload:
            if self.unsent is None:
                self.unsent = deque()
            pile(self.unsent, payload)
            self.left += len(payload)
        self.ends = trailers
        queue.pump(self)
        if self.left:
            queue.unread.hold(self, self.left)

    def end_unread(self) -> tuple[Peer, str]:
        """End the stream to free its unread payload; return its side and its peer's address."""
        return self.queue.on_unread(self)

    def credit(self, length: int) -> None:
        """Let the peer send ``length`` more bytes, unless it has ended the stream."""
        if self.peer_closed:
            return
        self.owed = room = self.owed + length
        window = STREAM_WINDOW
        if self.queue.unread.scarce:
            # The window shrinks as bytes pass. Later credits restore it.
            room, window = room - (STREAM_WINDOW - SMALL_WINDOW), SMALL_WINDOW
        if room * WINDOW_SHARE >= window:
            self.queue.write(frames.window_update(self.id, room))
            self.allowed += room
            self.owed -= room

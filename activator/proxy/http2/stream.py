"""The streams of one connection: what each may send and take, and what waits to be sent.

Clients and pods have the same streams. Pure: frames collect in ``SendQueue.frames`` until the
connection writes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from activator.proxy.http2 import frames
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.flow import WINDOW_SHARE, Flow
from activator.proxy.message.body import pile
from activator.proxy.transport.unread import SMALL_WINDOW, WINDOW, Peer, UnreadBytes

#: Bytes that a peer may send on a stream beyond what has gone out on the other side.
STREAM_WINDOW: Final = WINDOW


def _nothing() -> None:
    """Write nothing."""


def _ignore(stream: Stream) -> None:
    """Forget that a stream has ended."""


def _nobody(stream: Stream) -> tuple[Peer, str]:
    """See unread.Reader: the peer is gone."""
    return Peer.CLIENT, ""


@final
class SendQueue:
    """What waits to be sent on one connection: frames, and payload that has no room yet.

    Arguments:
        flow: the windows of the connection.
        unread: counts the payload that waits.
        wake: called when a frame waits and no write is due.
        on_ended: called with a stream when all of it is sent, before its last frame is written.
        on_unread: ends a stream whose payload waits longest; see unread.Reader.

    Attributes:
        frames: the frames of the next write.
        passed: payload in ``frames``, or in a full transport: its bytes, and a callback for the
            moment at which the transport has room.
        blocked: streams with payload and a window of their own, in the order of their turns.
        is_due: a flush follows: it is scheduled, or ``data_received`` ends with it.
        full: the transport takes no payload.
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
        flow: Flow,
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
        """Send nothing more: the connection is lost."""
        self._wake = _nothing
        self._on_ended = _ignore
        self.on_unread = _nobody

    def report_passed(self) -> None:
        """Tell senders how many bytes the kernel took, so that they send more."""
        passed, self.passed = self.passed, []
        for on_sent, size in passed:
            on_sent(size)

    def send_whole(self, stream: Stream, payload: bytes, ended: bool) -> bool:
        """Send payload in one frame; return False if it has to wait. Few payloads do, and a
        deque for each would cost twice as much."""
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
        if ended:  # the last payload: its sender needs no more window
            self._on_ended(stream)
        elif stream.on_sent is not None:
            self.passed.append((stream.on_sent, size))
        return True

    def pump(self, stream: Stream) -> None:
        """Send what windows and transport allow of a stream; the rest waits."""
        if stream.id in self.blocked:
            return
        while stream.unsent:
            if not self._send_piece(stream, stream.unsent):
                if stream.window > 0:  # else its own window has to come first
                    self.blocked[stream.id] = stream
                return
        self._send_end(stream)

    def pump_all(self) -> None:
        """Send what waits, a frame of each stream in turn, so that none starves another."""
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
        """Change a stream's window by a number of bytes.

        Raises:
            ConnectionFault: the window is too large.
        """
        stream.window += by
        if stream.window > frames.MAX_31_BITS:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window too large")
        if stream.unsent and stream.window > 0:
            self.blocked[stream.id] = stream

    def retry(self, stream: Stream) -> None:
        """Send what waits on a stream now that its window is wider."""
        self.blocked.pop(stream.id, None)
        self.pump(stream)

    def discard(self, stream: Stream) -> None:
        """Drop what waits on a stream."""
        stream.unsent = stream.ends = None
        if stream.left:
            stream.left = 0
            self.unread.hold(stream, 0)
            self.blocked.pop(stream.id, None)

    def _send_piece(self, stream: Stream, unsent: deque[bytes]) -> bool:
        """Send one frame of a stream; return whether there was room for it."""
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

    ``closed`` and ``peer_closed`` are its state (RFC 9113 section 5.1): neither is open, ``closed``
    alone half-closed (local), ``peer_closed`` alone half-closed (remote), both closed.

    Attributes:
        queue: what waits to be sent on its connection.
        owner: the side of an exchange that takes what comes; None once that has ended.
        window: bytes that may be sent on it, may be negative (RFC 9113 section 6.9.2).
        unsent: payload that waits to be sent, if any; left: its bytes.
        ends: what ends it behind that: a block of trailers, empty for none, None as long as there
            is more to come.
        on_sent: called with bytes of payload once the kernel has them.
        allowed: bytes that the peer may still send; owed: that it may send once it is announced.
        closed: our side has ended; peer_closed: the other side has.
        missing: bytes of payload that were announced and have not come; -1 for not known.
        fault: error code of the RST_STREAM that follows when both sides have ended; 0 for none.
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
        """See unread.Reader."""
        return self.queue.on_unread(self)

    def credit(self, length: int) -> None:
        """Let the peer send so much more, unless it has ended the stream."""
        if self.peer_closed:
            return
        self.owed = room = self.owed + length
        window = STREAM_WINDOW
        if self.queue.unread.scarce:
            # The window shrinks while bytes pass. Later credits restore it.
            room, window = room - (STREAM_WINDOW - SMALL_WINDOW), SMALL_WINDOW
        if room * WINDOW_SHARE >= window:
            self.queue.write(frames.window_update(self.id, room))
            self.allowed += room
            self.owed -= room

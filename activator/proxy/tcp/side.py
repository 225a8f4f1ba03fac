"""The two sockets of a connection: each passes the bytes that it receives to the other one.

A side reads no faster than the other one does: at most one buffer of bytes waits in this process,
and the rest with the sender. The loop's transports would keep buffers for each connection, and
report a reset like an end.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from activator.proxy.transport.peer_socket import BUFFER, SMALL_BUFFER, WINDOW, PeerKind
from activator.proxy.transport.poller import ENDED, ERROR, READ, WRITE, Poller, Watched
from activator.proxy.transport.splice import FLAGS, PIPE, UNSUPPORTED, Splices

if TYPE_CHECKING:
    from activator.proxy.tcp.connection import TcpConnection

#: Reads of one socket in one turn, so that no sender keeps others from theirs.
_READS: Final = 4


@final
class Side(Watched):
    """One socket of a connection.

    Arguments:
        connection: the connection.
        sock: the socket, which does not block.
        kind: whose socket it is.
        poller: watches it.
        splices: have the pipes for many bytes, and the budget of bytes that are not read.

    Attributes:
        ended: whether the peer has ended its side; told: whether the other side knows.
        size: how many bytes the peer has sent.
    """

    __slots__ = (
        *("_bulk", "_connection", "_events", "_held", "_other", "_pipe", "_piped", "_poller"),
        *("_splices", "_unread"),
        *("ended", "kind", "size", "sock", "told"),
    )

    def __init__(
        self,
        connection: TcpConnection,
        sock: socket.socket,
        kind: PeerKind,
        poller: Poller,
        splices: Splices,
    ) -> None:
        self._connection = connection
        self._poller = poller
        self._splices = splices
        self._unread = splices.unread
        self._held = b""  # bytes that this peer does not accept yet
        self._bulk = False  # whether many bytes come for this peer
        self._pipe: tuple[int, int] | None = None  # brings them, while it is in use
        self._piped = 0  # bytes in it
        self._events = -1
        self._other: Side | None = None
        self.sock = sock
        self.fd = sock.fileno()
        self.kind = kind
        self.ended = self.told = False
        self.size = 0

    def watch(self, events: int) -> None:
        """Wait for these events from now on; 0 for errors alone."""
        if events != self._events:
            self._events = events
            self._poller.watch(self, events)

    def close(self) -> None:
        """Close the socket."""
        if self.holds():
            self._held = b""
            self._unread.hold(self, 0)
        self._release()
        self._other = None
        self._poller.remove(self)
        self.sock.close()

    def detach(self) -> None:
        """Pass no more bytes; the connection handles the events."""
        self._other = None

    def ready(self, events: int) -> None:
        if self._other is None:
            self._connection.ready(self, events)
            return
        if events & WRITE and not self._flush():
            return
        if events & READ:
            self._pass_on()
        elif events & ERROR:
            self._connection.lost(self.kind)
        elif events & ENDED and self._events >= 0:
            # Both sides have ended, and bytes of the peer are unread: the other one is slow.
            self._events = -1
            self._poller.ignore(self)

    def join(self, other: Side, data: bytes) -> bool:
        """Pass on the bytes of the peer from now on; return whether the connection goes on.

        Arguments:
            other: the other side.
            data: the bytes that have come already.
        """
        self._other = other
        self.size += len(data)
        self._follow()
        if not data or other.send(memoryview(data), self):
            if self.ended:
                self._end()
            elif self.kind is PeerKind.CLIENT:  # its first bytes have often come meanwhile
                self._pass_on()
        return not other.is_closed()

    def is_closed(self) -> bool:
        """Return whether the socket is closed."""
        return self.sock.fileno() < 0

    def send(self, data: memoryview, sender: Side) -> bool:
        """Send bytes to the peer; return whether its kernel has accepted all of them.

        Arguments:
            data: the bytes; the rest is copied.
            sender: the other side, which pauses until the peer accepts the rest.
        """
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._connection.refused(self.kind)
            return False
        if sent == len(data):
            return True
        self._held = bytes(data[sent:])  # ordered: at most as many are sent
        self._wait(sender)
        return False

    def _wait(self, sender: Side) -> None:
        """Pause the sender until the peer accepts the bytes that this side holds."""
        self._follow()
        sender._follow()
        self._unread.hold(self, self._piped or len(self._held))

    # Many bytes pass within the kernel. The pipe is of the side that sends.

    def _pour(self, size: int, sender: Side) -> bool:
        """Send bytes that came into the pipe; see ``send``."""
        self._piped = size
        try:
            self._empty()
        except OSError:
            self._connection.refused(self.kind)
            return False
        if self._piped:
            self._wait(sender)
            return False
        if size < WINDOW:
            self._bulk = False
            self._release()
        return True

    def _empty(self) -> None:
        """Send the bytes in the pipe, as many as the kernel accepts."""
        assert self._pipe is not None
        with suppress(BlockingIOError):
            while self._piped:
                self._piped -= os.splice(self._pipe[0], self.fd, self._piped, flags=FLAGS)

    def _release(self) -> None:
        """Return the pipe, if there is one."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self._splices.release(pipe, empty=not self._piped)
            self._piped = 0

    def _receive(self, other: Side, buffer: memoryview) -> int:
        """Receive bytes, into the other side's pipe if it has one; return how many came."""
        if other._pipe is not None:
            try:
                return os.splice(self.fd, other._pipe[1], PIPE, flags=FLAGS)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
                self._splices.supported = False
                other._release()
        return self.sock.recv_into(buffer)

    def end_unread(self) -> tuple[PeerKind, str]:
        """Reset the connection, because unread bytes have reached their limit."""
        return self._connection.end_unread(self)

    def _pass_on(self) -> None:
        other = self._other
        assert other is not None
        if other._bulk:
            other._pipe = self._splices.take()
        self._read(other)
        if not other._piped:
            other._release()

    def _read(self, other: Side) -> None:
        buffer = SMALL_BUFFER if self._unread.scarce else BUFFER
        for _ in range(_READS):
            try:
                count = self._receive(other, buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._connection.lost(self.kind)
                return
            if not count:
                self.ended = True
                if not other.holds():
                    self._end()
                if self._other is not None:  # else both have ended
                    self._follow()
                return
            self.size += count
            demand = self._connection.demand
            if demand.follows:
                self._connection.moved(self.kind)
            if other._pipe is not None:
                if not other._pour(count, self):
                    return
            elif not other.send(buffer[:count], self) or count < len(buffer):
                return
        other._bulk = True

    def holds(self) -> bool:
        """Return whether bytes wait for the peer."""
        return bool(self._held or self._piped)

    def _flush(self) -> bool:
        """Send the bytes that wait for the peer; then the other side reads again.

        Returns:
            Whether the connection goes on.
        """
        try:
            if self._pipe is not None:
                self._empty()
            else:
                self._held = self._held[self.sock.send(self._held) :]  # ordered: at most as many
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            self._connection.refused(self.kind)
            return False
        self._unread.hold(self, self._piped or len(self._held))
        other = self._other
        if self.holds() or other is None:
            return True
        self._release()
        self._follow()
        other.go_on()
        return self._other is not None

    def _follow(self) -> None:
        """Wait for bytes of the peer if the other side can take them, and send the held ones."""
        other = self._other
        reads = not (self.ended or (other is not None and other.holds()))
        self.watch((READ if reads else 0) | (WRITE if self.holds() else 0))

    def go_on(self) -> None:
        """Read again, or pass on the end, because the other side has accepted all bytes."""
        if self.ended:
            self._end()
        else:
            self._follow()

    def _end(self) -> None:
        """Let the other peer know that this one has ended its side."""
        self.told = True
        if self._other is not None:
            self._connection.finished(self._other)

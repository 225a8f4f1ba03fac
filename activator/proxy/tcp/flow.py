"""Passes the bytes of one side of a connection to the other side, as they come.

A flow reads no faster than its receiver does: at most one buffer of bytes waits in this process,
and the rest with the sender. It works on sockets and not on the loop's transports. Those would keep
buffers for each connection, and report a reset like an end.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, final

from activator.proxy.transport.peer_socket import BUFFER, SMALL_BUFFER, PeerKind, UnreadBytes

if TYPE_CHECKING:
    from activator.proxy.tcp.connection import TcpConnection

#: Reads in one turn of the loop, so that no sender keeps others from theirs.
_PER_TURN: Final = 4


@final
class Flow:
    """The bytes from one side to the other.

    Arguments:
        connection: the connection of both sides.
        sender, receiver: their sockets.
        to: which side the receiver is.
        unread: the budget of bytes that clients and pods do not read.

    Attributes:
        ended: whether the sender has ended its side; finished: whether the receiver knows.
        size: how many bytes the sender has sent.
    """

    __slots__ = (
        *("_connection", "_held", "_loop", "_receiver", "_sender", "_unread"),
        *("ended", "finished", "size", "to"),
    )

    def __init__(
        self,
        connection: TcpConnection,
        sender: socket.socket,
        receiver: socket.socket,
        to: PeerKind,
        unread: UnreadBytes,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._sender = sender
        self._receiver = receiver
        self._held = b""
        self._unread = unread
        self.to = to
        self.ended = self.finished = False
        self.size = 0

    def begin(self, data: bytes, *, ended: bool) -> None:
        """Pass on the bytes that have come already, and follow the sender.

        Arguments:
            data: these bytes; may be empty.
            ended: whether the sender has ended its side behind them.
        """
        self.ended = ended
        self.size = len(data)
        if data and not self._send(memoryview(data), reads=False):
            return
        if ended:
            self._finish()
        else:
            self._loop.add_reader(self._sender, self._on_readable)

    def stop(self) -> None:
        """Follow neither side any more, before their sockets close."""
        self._loop.remove_reader(self._sender)
        if self._held:
            self._held = b""
            self._loop.remove_writer(self._receiver)
            self._unread.hold(self, 0)

    def end_unread(self) -> tuple[PeerKind, str]:
        """Reset the connection, because unread bytes have reached their limit."""
        return self.to, self._connection.end_unread(self.to)

    def _on_readable(self) -> None:
        connection = self._connection
        buffer = SMALL_BUFFER if self._unread.scarce else BUFFER
        for _ in range(_PER_TURN):
            try:
                count = self._sender.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                connection.lost(self.to)
                return
            if not count:
                self.ended = True
                self._loop.remove_reader(self._sender)
                self._finish()
                return
            self.size += count
            if connection.demand.follows:
                connection.moved(self.to)
            if not self._send(buffer[:count], reads=True) or count < len(buffer):
                return

    def _send(self, data: memoryview, *, reads: bool) -> bool:
        """Send bytes; return whether the receiver's kernel has accepted all of them.

        Arguments:
            data: the bytes; those that are left over are copied.
            reads: whether the flow follows the sender now.
        """
        try:
            sent = self._receiver.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._connection.refused(self.to)
            return False
        if sent == len(data):
            return True
        self._held = bytes(data[sent:])  # ordered: at most as many are sent
        if reads:
            self._loop.remove_reader(self._sender)
        self._loop.add_writer(self._receiver, self._on_writable)
        self._unread.hold(self, len(self._held))
        return False

    def _on_writable(self) -> None:
        try:
            sent = self._receiver.send(self._held)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._connection.refused(self.to)
            return
        self._held = self._held[sent:]  # ordered: at most as many are sent
        self._unread.hold(self, len(self._held))
        if self._held:
            return
        self._loop.remove_writer(self._receiver)
        if self.ended:
            self._finish()
        else:
            self._loop.add_reader(self._sender, self._on_readable)

    def _finish(self) -> None:
        """Let the receiver know that the sender has ended its side."""
        self.finished = True
        self._connection.finished(self._receiver)

"""Reads from a peer, and from the kernel whether it is connected; limits unread bytes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import socket
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from math import inf
from typing import Final, Protocol

from activator.process.sockets import SocketKind, find_dead

# Limits the bytes in memory that clients and pods do not read, of all of them together.
#
# A response waits in memory while its client does not read it, a request while its pod does not.
# Each alone is small, but nothing else limits their number. Above half of the limit, each new one
# gets a smaller window. At the limit, the one without progress for longest is ended. A peer that
# reads has no bytes here, and is never ended. Knative has no counterpart.

#: The budget is scarce above the limit divided by this; then each peer gets a quarter.
_SCARCE: Final = 2
#: The limit if none is set. It is an integer, because the metrics print limits as integers.
UNLIMITED: Final = sys.maxsize
#: Bytes that may wait for one peer, usually and while the budget is scarce.
WINDOW: Final = 64 << 10
SMALL_WINDOW: Final = WINDOW // 4


class PeerKind(Enum):
    """Which side does not read."""

    CLIENT = "client"
    POD = "pod"


class UnreadHolder(Protocol):
    """A connection or a stream whose peer does not read."""

    def end_unread(self) -> tuple[PeerKind, str]:
        """End it to free its bytes; return the side and the address of its peer."""


class UnreadBytes:
    """The budget of unread bytes.

    Arguments:
        most: the limit, in bytes.

    Attributes:
        bytes: bytes in use; most: see the argument.
        scarce: whether more than half of the limit is in use.
        ended: number of connections and streams that ended at the limit, by side.
        on_ended: called with the side and the address of each peer whose connection or stream
            ended.
    """

    __slots__ = ("_ending", "_held", "bytes", "ended", "most", "on_ended", "scarce")

    def __init__(self, most: int = UNLIMITED) -> None:
        self.bytes = 0
        self.most = most
        self.scarce = False
        self.ended = dict.fromkeys((peer.value for peer in PeerKind), 0)
        self.on_ended: Callable[[PeerKind, str], None] = _ignore
        self._held: dict[UnreadHolder, int] = {}  # the one without progress for longest is first
        self._ending = False

    def hold(self, reader: UnreadHolder, size: int) -> None:
        """Record how many bytes wait for a peer now; O(1).

        Arguments:
            reader: the connection or stream of the peer.
            size: bytes; fewer than before are progress, and 0 ends the wait.
        """
        held = self._held
        before = held.get(reader, 0)
        if size < before:
            del held[reader]
        if size:
            held[reader] = size
        self.bytes += size - before
        self.scarce = self.bytes * _SCARCE > self.most
        if self.bytes > self.most and not self._ending:
            # Not at once, because the caller is inside a write.
            self._ending = True
            asyncio.get_running_loop().call_soon(self._end_oldest)

    def _end_oldest(self) -> None:
        while self.bytes > self.most:
            reader = next(iter(self._held))
            self.hold(reader, 0)
            peer, address = reader.end_unread()
            self.ended[peer.value] += 1
            self.on_ended(peer, address)
        self._ending = False


def _ignore(_peer: PeerKind, _address: str) -> None:
    """Do nothing."""


# Reads from the kernel whether a peer is connected, and how many bytes it has not received.
#
# Linux gives exact results. On other systems (macOS), a half-closed client with unread bytes
# counts as open. This module uses no HTTP and no protocol object.

#: Bytes that may wait for encryption for a pod (asyncio's limit for plain connections).
_TLS_BUFFER: Final = 64 << 10
#: Bytes that may wait for encryption for a client: more than the last bytes of a handshake.
_TLS_BUFFER_TO_CLIENT: Final = 16 << 10
#: Encrypted bytes that may wait for the kernel on a TLS connection, before plain bytes wait too.
#: It is uvloop's fixed limit, with the piece that exceeds it.
_BEHIND_TLS: Final = 128 << 10
_TCP_ESTABLISHED, _TCP_CLOSE, _TCP_CLOSE_WAIT = 1, 7, 8  # include/net/tcp_states.h
#: Only Linux has the first two; macOS has the third instead (sys/socket.h).
# Not Final: mypyc 2.4 writes C that does not compile for a Final of an optional number.
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
_TIOCOUTQ: int | None = getattr(termios, "TIOCOUTQ", None)
_SO_NWRITE: Final = 0x1024
#: The event for the end of the client's side. macOS reports only a broken connection, which every
#: poll reports.
_END: Final = getattr(select, "POLLRDHUP", 0)
#: Seconds until the first check of a client that the loop does not watch, and most seconds between
#: two checks.
_CHECK_AFTER: Final = 0.05
_CHECK_AFTER_MAX: Final = 5.0
#: Seconds until the first check of a client that gets a 100 right before its request is sent.
_CHECK_SOON: Final = 0.001
#: Most seconds that such a request waits for the acknowledgement: a round trip, and 40 ms by which
#: a kernel delays it. An acknowledgement proves for as long that the client is connected.
ACKNOWLEDGE_WITHIN: Final = 0.2


def is_tls(transport: asyncio.Transport) -> bool:
    """Return whether the connection is encrypted.

    The loop then ends both directions when the client ends one, whatever the protocol returns.
    """
    return transport.get_extra_info("sslcontext") is not None


def limit_tls_buffer(transport: asyncio.Transport) -> None:
    """Make a TLS connection report a slow reader as early as a plain one.

    asyncio lets 512 KiB wait for encryption, in addition to the bytes that wait for the kernel.
    """
    transport.set_write_buffer_limits(_TLS_BUFFER)


def notice_slow_reader(transport: asyncio.Transport) -> None:
    """Make the transport call ``pause_writing`` as soon as the kernel rejects part of a write.

    The kernel's buffer is large enough for speed. Bytes that wait before it only use memory. By
    default, 64 KiB may wait there, or 512 KiB on a TLS connection.
    """
    transport.set_write_buffer_limits(_TLS_BUFFER_TO_CLIENT if is_tls(transport) else 1)


def count_held(transport: asyncio.Transport) -> int:
    """Return how many bytes this process holds for a peer that does not read; at least 1.

    Over TLS the loop does not count encrypted bytes that wait for the kernel. They count as their
    limit here.
    """
    held = max(1, transport.get_write_buffer_size())
    return held + _BEHIND_TLS if is_tls(transport) else held


def probe_half_closed(transport: asyncio.Transport) -> None:
    """Make the kernel check every few seconds whether a half-closed client is still connected."""
    find_dead(transport.get_extra_info("socket"), SocketKind.HALF_CLOSED)


def is_gone(transport: asyncio.Transport) -> bool:
    """Return whether the connection is broken.

    The loop does not report that after the client has ended its sending side, nor while reading is
    paused.
    """
    return _state(transport) == _TCP_CLOSE


def has_ended(transport: asyncio.Transport) -> bool:
    """Return whether the connection is broken, or the client has ended its sending side.

    The loop may learn that later. This costs a quarter of ``_state``, for which uvloop duplicates
    the socket.
    """
    if not hasattr(select, "poll"):  # some systems have none
        return _state(transport) != _TCP_ESTABLISHED
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _END)
    return bool(poll.poll(0))


def _state(transport: asyncio.Transport) -> int:
    sock = transport.get_extra_info("socket")
    if _TCP_INFO is None:
        return _state_by_peek(sock.fileno())
    state: int = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    return state


def _state_by_peek(fd: int) -> int:
    """Return the state that a peek at the next byte shows; read nothing."""
    try:
        with socket.socket(fileno=os.dup(fd)) as sock:
            sock.getpeername()  # a broken connection has no peer
            ended = not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return _TCP_ESTABLISHED
    except OSError:
        return _TCP_CLOSE
    return _TCP_CLOSE_WAIT if ended else _TCP_ESTABLISHED


def count_unread(transport: asyncio.Transport) -> int:
    """Return how many bytes of the client are in the kernel, not read yet."""
    unread = bytearray(4)
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, unread)
    return int.from_bytes(unread, sys.byteorder)


class ClientState(Enum):
    """Whether a client is still connected when a pod is about to get its request."""

    HERE = "here"
    GONE = "gone"
    PENDING = "pending"


class ClientCheck:
    """Finds out whether a client is connected while the loop cannot report its end.

    That is so after the client has ended its sending side, and while its request is queued and
    nothing reads from it. A closed and a half-closed socket look the same until a byte is sent: a
    closed one sends a reset. Only a half-closed client gets a 100 for this check. Others may not
    expect a 100 (nginx takes one for the response). A full receive window hides the client's end.
    """

    __slots__ = ("_sent_at", "_transport", "_wait")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._sent_at = -inf
        self._wait = _CHECK_AFTER

    def restart(self) -> None:
        """Make the next checks soon."""
        self._wait = _CHECK_AFTER

    def hurry(self) -> None:
        """Make the next checks at once: a request is ready to be sent."""
        self._wait = _CHECK_SOON

    def next(self, now: float) -> float:
        """Return when to check next, each time after a longer pause."""
        wait, self._wait = self._wait, min(2 * self._wait, _CHECK_AFTER_MAX)
        return now + wait

    def is_over(self, missing: int, send: Callable[[], None] | None, now: float) -> bool:
        """Check once.

        Arguments:
            missing: announced bytes of the request that the activator has not read.
            send: sends the client a harmless response; None if none may be sent.
            now: seconds, monotonic.

        Returns:
            Whether the client has gone, or can no longer complete its request.
        """
        transport = self._transport
        state = _state(transport)
        if state != _TCP_CLOSE_WAIT:
            return state == _TCP_CLOSE
        if is_tls(transport) or (missing and count_unread(transport) < missing):
            return True
        if send is not None and self._sent_at == -inf:
            self._sent_at = now
            send()
        return False

    def before_sending(
        self, missing: int, send: Callable[[], None] | None, now: float
    ) -> ClientState:
        """Check right before a pod gets the request; see ``is_over`` for the arguments.

        Returns:
            HERE if the client reads, GONE if it does not. PENDING until its kernel has responded:
            a closed socket sends a reset, a half-closed one an acknowledgement.
        """
        if self.is_over(missing, None, now):
            return ClientState.GONE
        # Without ``send`` no test is possible, and a half-close is legal.
        if send is None or _state(self._transport) != _TCP_CLOSE_WAIT:
            return ClientState.HERE
        if now >= self._sent_at + ACKNOWLEDGE_WITHIN:  # an older acknowledgement proves nothing now
            self._sent_at = now
            send()
            return ClientState.PENDING
        return ClientState.HERE if self.is_acknowledged() else ClientState.PENDING

    def is_acknowledged(self) -> bool:
        """Return whether the client's kernel has acknowledged all that was sent."""
        transport = self._transport
        return not transport.get_write_buffer_size() and not _unacknowledged(
            transport.get_extra_info("socket")
        )


def reset(transport: asyncio.Transport) -> None:
    """Make the kernel reset the connection when it is closed, rather than end it.

    Else a client could take the end of the connection for the end of its response.
    """
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def count_unsent(transport: asyncio.Transport) -> int:
    """Return how many bytes the client has not received; 0 once the kernel has them all.

    The kernel accepts more bytes only in large steps, so its own count shows progress. Over TLS
    the loop does not count encrypted bytes that wait for the kernel. The kernel's buffer is then
    full, so its count is enough.
    """
    buffered = transport.get_write_buffer_size()
    if not buffered and not is_tls(transport):
        return 0
    return buffered + _unacknowledged(transport.get_extra_info("socket"))


def _unacknowledged(sock: socket.socket) -> int:
    """Return how many bytes in the kernel have no acknowledgement, sent or not."""
    queued = bytearray(4)
    if _TIOCOUTQ is not None:
        with suppress(OSError):  # macOS has it only for terminals
            fcntl.ioctl(sock.fileno(), _TIOCOUTQ, queued)
            return int.from_bytes(queued, sys.byteorder)
    with suppress(OSError):
        return sock.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
    return 0


# Holds the buffer for reads from pods, and reads the rest of a broken connection.
#
# Each connection copies the bytes out of the buffer before the next read. A loop's own buffer
# takes 250 KiB at a time, and all of it stays in memory while a client does not read. Large
# pieces also cost more than small ones, because the memory of small ones is still in the
# processor's cache.

_BYTES: Final = bytearray(WINDOW)
BUFFER: Final = memoryview(_BYTES)
#: The part of it that is in use while the budget of unread bytes is scarce.
SMALL_BUFFER: Final = BUFFER[:SMALL_WINDOW]
#: Most reads from a broken connection: more than its client could accept at once.
_MOST_LEFT: Final = 64


def read_left(transport: asyncio.Transport) -> Iterator[bytes]:
    """Yield the bytes that the peer sent before it broke the connection.

    A write fails as soon as the peer has reset the connection. Then the loop reads no more, but
    the kernel still has bytes from before the reset. They may be a GOAWAY, or the response of a pod
    that did not read its request to the end. Over TLS, only the loop could decrypt them.
    """
    if is_tls(transport):
        return
    with suppress(OSError):
        for _ in range(_MOST_LEFT):
            data = os.read(transport.get_extra_info("socket").fileno(), WINDOW)
            if not data:
                return
            yield data

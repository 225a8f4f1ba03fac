"""What the kernel knows of a client: whether it is there, and what it has not taken yet.

Linux answers exactly. Elsewhere (macOS) a half-closed client behind unread bytes counts as open.
Knows no HTTP and no protocol object.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import socket
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from math import inf
from typing import Final

from activator.process.keepalive import SocketKind, find_dead

#: Bytes that may wait to be encrypted for a pod (asyncio's bound for plain connections).
_TLS_BUFFER: Final = 64 << 10
#: Bytes that may wait to be encrypted for a client: more than the last ones of a handshake.
_TLS_BUFFER_TO_CLIENT: Final = 16 << 10
#: Bytes that may wait for the kernel behind a TLS connection before those to encrypt wait as well
#: (uvloop's bound, which is not ours to set), with the piece that exceeds it.
_BEHIND_TLS: Final = 128 << 10
_TCP_ESTABLISHED, _TCP_CLOSE, _TCP_CLOSE_WAIT = 1, 7, 8  # include/net/tcp_states.h
#: Linux alone has these two; macOS has the third in their stead (sys/socket.h).
# Not Final: mypyc 2.4 writes C that does not compile for a Final of an optional number.
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None)
_TIOCOUTQ: int | None = getattr(termios, "TIOCOUTQ", None)
_SO_NWRITE: Final = 0x1024
#: The end of the client's side; what breaks a connection is always reported (macOS: that alone).
_END: Final = getattr(select, "POLLRDHUP", 0)
#: Seconds until the first and between later looks at a client that the loop tells nothing of.
_LOOK_AFTER: Final = 0.05
_LOOK_AFTER_MAX: Final = 5.0
#: Seconds until the first look at a client that gets a 100 right before its request is sent.
_LOOK_SOON: Final = 0.001
#: Seconds for which such a request waits at most, and for which an acknowledgement proves that the
#: client is there: a round trip, and 40 ms for an acknowledgement that its kernel delays.
ACKNOWLEDGE_WITHIN: Final = 0.2


def is_tls(transport: asyncio.Transport) -> bool:
    """Whether the connection is encrypted. Then the loop ends both directions when the client
    ends its own, whatever the protocol object says."""
    return transport.get_extra_info("sslcontext") is not None


def limit_tls_buffer(transport: asyncio.Transport) -> None:
    """Have a connection over TLS report a slow reader as soon as a plain one; asyncio lets 512 KiB
    wait in front of what waits for the kernel."""
    transport.set_write_buffer_limits(_TLS_BUFFER)


def notice_slow_reader(transport: asyncio.Transport) -> None:
    """Have the transport call ``pause_writing`` as soon as the kernel does not take all of a write.

    The kernel's buffer is the pipeline; what waits in front of it only takes memory. By default
    64 KiB may wait there, and 512 KiB where the connection is over TLS.
    """
    transport.set_write_buffer_limits(_TLS_BUFFER_TO_CLIENT if is_tls(transport) else 1)


def count_held(transport: asyncio.Transport) -> int:
    """Return how many bytes this process holds for a peer that does not take them; at least 1.

    Over TLS the loop does not count what is encrypted and waits for the kernel: as much as may be.
    """
    held = max(1, transport.get_write_buffer_size())
    return held + _BEHIND_TLS if is_tls(transport) else held


def probe_half_closed(transport: asyncio.Transport) -> None:
    """Have the kernel probe every few seconds whether the client is there."""
    find_dead(transport.get_extra_info("socket"), SocketKind.HALF_CLOSED)


def is_gone(transport: asyncio.Transport) -> bool:
    """Whether the connection is broken; the loop does not say so once the client has ended its
    sending side, or while it is not read from."""
    return _state(transport) == _TCP_CLOSE


def has_ended(transport: asyncio.Transport) -> bool:
    """Return whether the connection is broken or the client has ended its sending side; the loop
    may not know yet. Costs a quarter of ``_state``, where uvloop duplicates the socket."""
    if not hasattr(select, "poll"):  # not every system has it
        return _state(transport) != _TCP_ESTABLISHED
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _END)
    return bool(poll.poll(0))


def _state(transport: asyncio.Transport) -> int:
    sock = transport.get_extra_info("socket")
    if _TCP_INFO is None:
        return _state_by_looking(sock.fileno())
    state: int = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    return state


def _state_by_looking(fd: int) -> int:
    """Return the state that a look at the next byte shows; nothing is read."""
    try:
        with socket.socket(fileno=os.dup(fd)) as sock:
            sock.getpeername()  # a connection that is broken has none
            ended = not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return _TCP_ESTABLISHED
    except OSError:
        return _TCP_CLOSE
    return _TCP_CLOSE_WAIT if ended else _TCP_ESTABLISHED


def count_unread(transport: asyncio.Transport) -> int:
    """Return how many bytes of the client the kernel has and we have not read."""
    unread = bytearray(4)
    fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, unread)
    return int.from_bytes(unread, sys.byteorder)


class ClientState(Enum):
    """What is known of a client whose request a pod is about to get."""

    HERE = "here"
    GONE = "gone"
    PENDING = "pending"


class ClientCheck:
    """Find out whether a client is there when the loop does not report it: the client has ended
    its sending side, or nothing reads from it while its request waits.

    A closed and a half-closed socket look the same until something is sent: to a closed one the
    answer is a reset. Only who has ended its side is asked: to others a 100 may be unexpected
    (nginx takes one for the answer). Behind a window that is full no end is seen.
    """

    __slots__ = ("_sent_at", "_wait")

    def __init__(self) -> None:
        self._sent_at = -inf
        self._wait = _LOOK_AFTER

    def restart(self) -> None:
        """The next looks are soon."""
        self._wait = _LOOK_AFTER

    def hurry(self) -> None:
        """Look at once the next times: a request is ready to be sent."""
        self._wait = _LOOK_SOON

    def next(self, now: float) -> float:
        """Return when to look next, each time a bit later."""
        wait, self._wait = self._wait, min(2 * self._wait, _LOOK_AFTER_MAX)
        return now + wait

    def is_over(
        self, transport: asyncio.Transport, missing: int, ask: Callable[[], None] | None, now: float
    ) -> bool:
        """Look once.

        Arguments:
            missing: bytes of the request that were announced and that we have not read.
            ask: sends the client something harmless; None where nothing can be sent.
            now: the time, seconds.

        Returns:
            Whether the client has gone, or cannot complete its request any more.
        """
        state = _state(transport)
        if state != _TCP_CLOSE_WAIT:
            return state == _TCP_CLOSE
        if is_tls(transport) or (missing and count_unread(transport) < missing):
            return True
        if ask is not None and self._sent_at == -inf:
            self._sent_at = now
            ask()
        return False

    def before_sending(
        self, transport: asyncio.Transport, missing: int, ask: Callable[[], None] | None, now: float
    ) -> ClientState:
        """Look right before a pod gets the request; the arguments are those of ``is_over``.

        Returns:
            HERE where the client reads, GONE where it does not. PENDING while its kernel has not
            answered: a closed socket sends a reset, a half-closed one an acknowledgement.
        """
        if self.is_over(transport, missing, None, now):
            return ClientState.GONE
        if _state(transport) != _TCP_CLOSE_WAIT:
            return ClientState.HERE
        if ask is None:
            return ClientState.GONE
        if now >= self._sent_at + ACKNOWLEDGE_WITHIN:  # an older answer proves nothing of now
            self._sent_at = now
            ask()
            return ClientState.PENDING
        return ClientState.HERE if self.is_acknowledged(transport) else ClientState.PENDING

    @staticmethod
    def is_acknowledged(transport: asyncio.Transport) -> bool:
        """Return whether the client's kernel has acknowledged all that was sent."""
        return not transport.get_write_buffer_size() and not _unacknowledged(
            transport.get_extra_info("socket")
        )


def reset(transport: asyncio.Transport) -> None:
    """Have the kernel break the connection when it is closed next, rather than end it: what a
    reader takes for the end of an answer is then none."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def count_unsent(transport: asyncio.Transport) -> int:
    """Return how many bytes the client has not taken; 0 once the kernel has them all.

    The kernel asks us for more in large steps only, so its own count shows progress. Over
    TLS the loop does not count what is encrypted and waits for the kernel; then that is full.
    """
    ours = transport.get_write_buffer_size()
    if not ours and not is_tls(transport):
        return 0
    return ours + _unacknowledged(transport.get_extra_info("socket"))


def _unacknowledged(sock: socket.socket) -> int:
    """Return how many bytes the kernel has sent without acknowledgement, or not sent yet."""
    queued = bytearray(4)
    if _TIOCOUTQ is not None:
        with suppress(OSError):  # macOS knows it of terminals alone
            fcntl.ioctl(sock.fileno(), _TIOCOUTQ, queued)
            return int.from_bytes(queued, sys.byteorder)
    with suppress(OSError):
        return sock.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
    return 0

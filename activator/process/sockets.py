"""Finds vanished peers by socket options, and connects to a host by its name.

A peer that has vanished (its node is gone, or packets are dropped) sends no FIN and no RST. Only
TCP keep-alive and the user time-out find it; without them Linux keeps an idle connection for two
hours. The functions skip options that the machine does not have, so macOS also finds a dead peer,
but less precisely.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Final, NamedTuple


class KeepAlive(NamedTuple):
    """When the kernel closes the connection of a silent peer.

    Attributes:
        idle: seconds without traffic until the first keep-alive probe.
        interval: seconds between two probes.
        probes: limit of probes without a response; then the connection ends. 0 for the kernel's
            default.
        user_timeout: seconds that sent data may stay unacknowledged; also limits the keep-alive
            probes. 0 for the kernel's default, a quarter of an hour.
    """

    idle: int
    interval: int
    probes: int = 0
    user_timeout: int = 0


class SocketKind(Enum):
    """The other end of a connection.

    CLIENT: a client of any port. Accepted sockets inherit the options of their listener. The
        kernel finds a dead client after 2.5 minutes. Go's net/http server has the same values.
    HALF_CLOSED: a client that has ended its sending side. A closed socket and a half-closed one
        look alike until the peer's kernel sends a reset for a probe.
    POD: a pod, over HTTP/1 and HTTP/2. The kernel finds a vanished pod within 20 s.
    POD_SLOW: a pod whose busy application may leave much of a request unread. The user time-out
        would close that connection, although the pod's kernel responds.
    API_SERVER: the Kubernetes API server, whose watches may be silent for minutes.
    """

    CLIENT = KeepAlive(idle=15, interval=15, probes=9)
    HALF_CLOSED = KeepAlive(idle=5, interval=5, probes=9)
    POD = KeepAlive(idle=15, interval=1, probes=5, user_timeout=20)
    POD_SLOW = KeepAlive(idle=15, interval=1, probes=5)
    API_SERVER = KeepAlive(idle=15, interval=5, probes=3, user_timeout=30)


#: The first of these names that ``socket`` has is the option: macOS has its own for the idle time.
_IDLE: Final = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")
_INTERVAL: Final = ("TCP_KEEPINTVL",)
_COUNT: Final = ("TCP_KEEPCNT",)
_USER_TIMEOUT: Final = ("TCP_USER_TIMEOUT",)
#: The results of a connect that has succeeded.
_CONNECTED: Final = (0, errno.EISCONN)


def find_dead(sock: socket.socket, peer: SocketKind) -> None:
    """Set the options by which the kernel finds a vanished peer.

    Arguments:
        sock: a TCP socket; a listener passes its options on to the sockets that it accepts.

    Raises:
        OSError: the socket is closed already.
    """
    fd = sock.fileno()
    if fd < 0:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    # A socket of uvloop makes another one for each option. Options do not depend on the family.
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, fd)
    try:
        for level, option, value in options(peer):
            own.setsockopt(level, option, value)
    finally:
        own.detach()


@cache
def options(peer: SocketKind) -> tuple[tuple[int, int, int], ...]:
    """Return the options of a kind that this machine has, each with its level and its value."""
    values = peer.value
    wanted = [(_IDLE, values.idle), (_INTERVAL, values.interval)]
    if values.probes:
        wanted.append((_COUNT, values.probes))
    if values.user_timeout:
        wanted.append((_USER_TIMEOUT, 1000 * values.user_timeout))
    found = ((_option(names), value) for names, value in wanted)
    options = [(socket.IPPROTO_TCP, option, value) for option, value in found if option is not None]
    return (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *options


def limit_unacknowledged(sock: socket.socket, peer: SocketKind) -> None:
    """Set only the user time-out, or remove it if the peer's entry has none."""
    option = _option(_USER_TIMEOUT)
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, 1000 * peer.value.user_timeout)


def _option(names: tuple[str, ...]) -> int | None:
    """Return the first of these options that this machine has."""
    return next((getattr(socket, name) for name in names if hasattr(socket, name)), None)


#: The error of a connection that a peer accepted and closed at once.
CLOSED_AT_ONCE: Final = "the pod closed the new connection"


def check_accepts(
    ip: str, port: int, within: float, done: Callable[[OSError | None], None]
) -> None:
    """Connect to an IP address, and close the connection: it needs a socket, but no transport.

    Arguments:
        within: seconds.
        done: called in a later turn of the loop with the error; None if the peer has accepted.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def end(error: OSError | None = None) -> None:
        if timer is not None:
            timer.cancel()
            loop.remove_writer(sock)
        try:
            if error is None and not sock.recv(1, socket.MSG_PEEK):
                error = OSError(CLOSED_AT_ONCE)
        except BlockingIOError:
            pass  # it is open
        except OSError as failed:
            error = failed
        sock.close()
        done(error)

    try:
        sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET)
    except OSError as error:
        loop.call_soon(done, error)
        return
    sock.setblocking(False)
    code = sock.connect_ex((ip, port))
    if code == errno.EINPROGRESS:  # a peer on this machine has accepted meanwhile
        code = sock.connect_ex((ip, port))
    if code == errno.EALREADY:
        late = TimeoutError(f"connect timed out after {within:.3g} s")
        timer = loop.call_later(within, end, late)
        loop.add_writer(sock, end)
    else:
        loop.call_soon(end, None if code in _CONNECTED else OSError(code, os.strerror(code)))


#: Seconds of silence of an address after which the dial tries the next one too, as Go's
#: net.Dialer (FallbackDelay).
NEXT_ADDRESS: Final = 0.3


async def connected(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address of a host that accepts.

    ``create_connection`` of uvloop cannot be cancelled cleanly during its look-up of the name: the
    exception of the look-up then ends in the log as one that nothing retrieved.

    Raises:
        OSError: no look-up, or no address accepts; the text has the error of each address.
        UnicodeError: the name is not possible in the DNS.
    """
    from aiohappyeyeballs import start_connection  # most processes dial no name

    loop = asyncio.get_running_loop()
    try:  # an IP address needs no thread
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS)

"""Connect to pods, plain or over TLS, and describe in words why a connection failed.

Keeps no connection. Knative's counterpart: the dialers of knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import NamedTuple

from activator.proxy.transport import peer_socket
from activator.tls.certificates import reason
from activator.tls.internal_encryption import PodTls
from activator.tls.negotiated import HTTP2, protocol

#: Errors of a connect that prove nothing about the pod: this machine lacks files, ports or memory.
LOCAL_SHORTAGE = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
)
#: Seconds until a connect that failed with one of them is retried.
SHORTAGE_PAUSE = 0.05
#: Seconds for a TLS handshake (Go's transport: the same). Longer than for a connect: a pod that
#: has just started on a share of a core may need long for it.
HANDSHAKE_TIMEOUT = 10.0
#: Seconds for a pod to close its side of TLS; then the TCP connection is closed without that.
SHUTDOWN_TIMEOUT = 5.0

#: The error of a connection that a pod has accepted and closed at once.
CLOSED_AT_ONCE = "the pod closed the new connection"


class TlsError(OSError):
    """A pod accepted a connection, and TLS on it failed; the text describes why."""


class OtherProtocolError(TlsError):
    """A pod speaks TLS, but not HTTP/2 over it."""


class Proof(NamedTuple):
    """What a pod has to prove over TLS; ``http2``: also that it speaks that behind it."""

    tls: PodTls
    namespace: str
    http2: bool = False


async def connect(upstream: asyncio.BaseProtocol, host: str, port: int, within: float) -> None:
    """Connect.

    Arguments:
        upstream: the protocol object of the connection.
        within: seconds.

    Raises:
        OSError: it failed; the text of a TimeoutError names what took too long.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within):
            await loop.create_connection(lambda: upstream, host, port)
    except TimeoutError:
        _report_loss(upstream)
        raise TimeoutError(f"connect timed out after {within:.3g} s") from None
    except asyncio.CancelledError:
        _report_loss(upstream)
        raise


def _report_loss(upstream: asyncio.BaseProtocol) -> None:
    """Call ``connection_lost`` where the loop has closed a connection and will not call it.

    uvloop does not where ``create_connection`` is cancelled right behind ``connection_made``. After
    a stall of the loop a time-out is due at that moment. The standard library's loop does.
    """
    transport: asyncio.Transport | None = getattr(upstream, "transport", None)
    if transport is not None and not transport.is_closing():
        upstream.connection_lost(None)


async def connect_tls(
    upstream: asyncio.BaseProtocol, host: str, port: int, within: tuple[float, float], proof: Proof
) -> None:
    """Connect, and have the pod prove that it is one of its namespace.

    Arguments:
        within: seconds to connect, and for the handshake.

    Raises:
        OSError: see ``connect``; also where the pod does not prove that
            (OtherProtocolError among them).
    """
    tls = proof.tls
    loop = asyncio.get_running_loop()
    sock = await _connected(loop, host, port, within[0])
    try:
        transport, _ = await loop.create_connection(
            lambda: upstream,
            sock=sock,
            ssl=tls.http2_context if proof.http2 else tls.context,
            server_hostname=tls.server_name,
            ssl_handshake_timeout=within[1],
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT,
        )
    except ConnectionAbortedError:  # what asyncio makes of the time-out
        raise TimeoutError(f"the handshake timed out after {within[1]:.3g} s") from None
    except OSError as error:
        kind = OtherProtocolError if _is_other_protocol(error) else TlsError
        raise kind(connect_error(error)) from error
    peer_socket.limit_tls_buffer(transport)
    if problem := tls.check(transport.get_extra_info("ssl_object"), proof.namespace):
        transport.abort()
        raise TlsError(problem)
    if proof.http2 and protocol(transport) != HTTP2:
        transport.abort()
        raise OtherProtocolError("it has chosen no protocol")


def _is_other_protocol(error: OSError) -> bool:
    """Whether a pod has ended a handshake since it speaks none of our protocols (Go's servers do;
    others go on without one, RFC 7301 section 3.2)."""
    return isinstance(error, ssl.SSLError) and "no application protocol" in reason(error)


async def _connected(
    loop: asyncio.AbstractEventLoop, host: str, port: int, within: float
) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol's number, or asyncio would leave Nagle's algorithm on.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(within):
            await loop.sock_connect(sock, (host, port))
    except TimeoutError:
        sock.close()
        raise TimeoutError(f"connect timed out after {within:.3g} s") from None
    except BaseException:
        sock.close()
        raise
    return sock


def connect_error(error: OSError) -> str:
    """Return what went wrong, for people."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLError):
        return reason(error)
    # asyncio raises a reset without words where a pod ends a handshake.
    return (error.strerror or str(error) or "the pod closed the connection").lower()


def connect_cause(error: OSError) -> str:
    """Return the kind of failure, see probe_pool.Dialer."""
    if isinstance(error, TimeoutError):
        return "connect-timeout"
    return "tls-failed" if isinstance(error, TlsError) else "connect-failed"

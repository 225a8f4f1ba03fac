"""Connects to pods, plain or over TLS, and describes in words why a connection failed.

The callers keep the connections. Knative's counterpart: the dialers of
knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import NamedTuple

from activator.proxy.transport import peer_socket
from activator.tls.certificates import HTTP2, protocol, reason
from activator.tls.internal_encryption import PodTls, UnverifiedTls

#: Errors of a connect that prove nothing about the pod: this machine lacks files, ports or memory.
LOCAL_SHORTAGE = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
)
#: Seconds until a connect is retried after such an error.
SHORTAGE_PAUSE = 0.05
#: Most seconds for a TLS handshake (Go's transport: the same). It takes longer than a connect if a
#: pod has just started on a share of a core.
HANDSHAKE_TIMEOUT = 10.0
#: Most seconds for a pod to close its side of TLS. Then the activator closes the TCP connection.
SHUTDOWN_TIMEOUT = 5.0

#: The error of a connection that a pod accepted and closed at once.
CLOSED_AT_ONCE = "the pod closed the new connection"


class TlsError(OSError):
    """A pod accepted a connection, and TLS on it failed; the text gives the cause."""


class OtherProtocolError(TlsError):
    """A pod uses TLS, but did not choose HTTP/2."""


class Proof(NamedTuple):
    """The proof that a pod has to give over TLS.

    Attributes:
        tls: the trusted roots and the server name.
        namespace: the namespace in the pod's certificate.
        http2: whether the pod also has to choose HTTP/2.
    """

    tls: PodTls | UnverifiedTls
    namespace: str
    http2: bool = False


async def connect(upstream: asyncio.BaseProtocol, host: str, port: int, within: float) -> None:
    """Connect to a pod without TLS.

    Arguments:
        upstream: the protocol object of the connection.
        host, port: the address.
        within: seconds.

    Raises:
        OSError: the connect failed; the text of a TimeoutError names the step that was too slow.
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
    """Call ``connection_lost`` if the loop has closed a connection and will not call it.

    uvloop does not call it if ``create_connection`` is cancelled right after ``connection_made``.
    That happens when a time-out is due after a stall of the loop. The standard library's loop
    calls it.
    """
    transport: asyncio.Transport | None = getattr(upstream, "transport", None)
    if transport is not None and not transport.is_closing():
        upstream.connection_lost(None)


async def connect_tls(
    upstream: asyncio.BaseProtocol, host: str, port: int, within: tuple[float, float], proof: Proof
) -> None:
    """Connect to a pod over TLS, and check its certificate.

    Arguments:
        upstream: the protocol object of the connection.
        host, port: the address.
        within: seconds to connect, and seconds for the handshake.
        proof: the proof that the pod has to give.

    Raises:
        OSError: see ``connect``.
        TlsError: the pod did not give the proof.
        OtherProtocolError: the pod did not choose HTTP/2.
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
    except ConnectionAbortedError:  # asyncio's error for the time-out
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
        raise OtherProtocolError("the pod chose no protocol")


def _is_other_protocol(error: OSError) -> bool:
    """Return whether a pod ended a handshake because it supports no offered protocol.

    Go's servers do that. Others continue without a protocol (RFC 7301 section 3.2).
    """
    return isinstance(error, ssl.SSLError) and "no application protocol" in reason(error)


async def _connected(
    loop: asyncio.AbstractEventLoop, host: str, port: int, within: float
) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the socket has the protocol's number.
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
    """Return the error in words, for people."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLError):
        return reason(error)
    # asyncio raises a reset without a text if a pod ends a handshake.
    return (error.strerror or str(error) or "the pod closed the connection").lower()


def connect_cause(error: OSError) -> str:
    """Return the kind of failure; see Probe.on_dial_failed."""
    if isinstance(error, TimeoutError):
        return "connect-timeout"
    return "tls-failed" if isinstance(error, TlsError) else "connect-failed"

"""Opens connections to pods, plain or over TLS: in HTTP/1 for one request, in HTTP/2 for many.

A request that waits for a free file may get a connection of its pod that becomes idle meanwhile.
Errors describe in words why a connection failed. Knative's counterpart: the dialers of
knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, cast, final

from activator.process.sockets import CLOSED_AT_ONCE
from activator.proxy.exchange.sides import Requester
from activator.proxy.message.fields import HTTP_1_1, HTTP_2
from activator.proxy.pods.http1 import Http1PodConnection
from activator.proxy.pods.http2 import NOT_HTTP2, Http2PodConnection, Http2PodState, PodStream
from activator.proxy.transport import peer_socket
from activator.proxy.transport.files import Waiter
from activator.tls.certificates import HTTP1, HTTP2, protocol, reason
from activator.tls.internal_encryption import PodTls, ServiceTls

if TYPE_CHECKING:
    from activator.proxy.pods.pool import Pool

#: Errors of a connect that prove nothing about the pod: this machine lacks files, ports or memory.
LOCAL_SHORTAGE = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
)
#: Seconds until a connect is retried after such an error.
SHORTAGE_PAUSE = 0.05
#: Most seconds for a TLS handshake (Go's transport: the same), and how many times as long as a
#: connect it may take. The kernel connects, but a pod that has just started may have a small share
#: of a core for a handshake. A pod that stays silent must not hold its requests much longer.
HANDSHAKE_TIMEOUT = 10.0
HANDSHAKE_FACTOR = 5.0
#: Most seconds for a pod to close its side of TLS. Then the activator closes the TCP connection.
SHUTDOWN_TIMEOUT = 5.0
#: Most seconds to wait for a pod's settings. They are its first frame (RFC 9113 section 3.4), so
#: nearly always one round trip is enough. gRPC servers fail requests beyond their limit of streams,
#: and do not refuse them.
_SETTLE_SECONDS: Final = 1.0
#: The error of a request to a pod whose last new connection had no room for a stream.
NO_STREAMS: Final = "the pod accepts no HTTP/2 streams on a new connection"


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

    tls: PodTls | ServiceTls
    namespace: str
    http2: bool = False


#: The protocol of a connection that the loop has closed.
_NOBODY: Final = asyncio.Protocol()


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
    transport = _transport_of(upstream)
    if transport is not None and not transport.is_closing():
        upstream.connection_lost(None)
        transport.set_protocol(_NOBODY)  # else both would stay, as a reference cycle


def _transport_of(upstream: object) -> asyncio.Transport | None:
    """Return the transport of a protocol object; None unless the loop has connected it."""
    return getattr(upstream, "transport", None)


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
            ssl=tls.context_of(HTTP2 if proof.http2 else HTTP1),
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


async def _open(pool: Pool, waiter: Waiter, within: float, *, http2: bool) -> object:
    """Open a connection; during a shortage on this machine, retry while it is needed.

    Arguments:
        pool: the pool of the pod.
        waiter: the request or probe that needs the connection.
        within: seconds; infinite means the time-out of all connects. An attempt with a shorter
            time, as for a probe, may use the files for probes.
        http2: the version of HTTP.

    Returns:
        The connection, or one that has become idle meanwhile.

    Raises:
        OSError: see ``connect_tls``.
    """
    files, target = pool.resources.files, pool.target
    limit = min(within, pool.resources.limits.connect_timeout)
    while True:
        idle = await files.take(waiter, probe=within < inf)
        if idle is not None:
            return idle
        pod: Http1PodConnection | Http2PodConnection = (
            Http2PodConnection(pool) if http2 else Http1PodConnection(pool)
        )
        # The loops find methods by name, so a compiled class needs no base class of asyncio.
        loops = cast(asyncio.BaseProtocol, pod.link if isinstance(pod, Http2PodConnection) else pod)
        try:
            if target.proof is None:
                await connect(loops, target.host, target.port, limit)
            else:
                both = limit, min(within, HANDSHAKE_FACTOR * limit, HANDSHAKE_TIMEOUT)
                proof = target.proof._replace(http2=http2)
                await connect_tls(loops, target.host, target.port, both, proof)
            pool.timed_out = False
            return pod
        except OSError as error:
            pool.timed_out = isinstance(error, TimeoutError)
            if error.errno not in LOCAL_SHORTAGE or not waiter.wants_connection:
                raise
        finally:
            if _transport_of(loops) is None:
                files.release()  # else ``Pool.closed`` does
                if isinstance(pod, Http2PodConnection):
                    pod.link.release()
        await asyncio.sleep(SHORTAGE_PAUSE)


@final
class Dial:
    """One attempt to open a connection in HTTP/1, for one request.

    Arguments:
        within: seconds, see ``Pool.dial``.
    """

    __slots__ = ("_pool", "_requester", "_within")

    def __init__(self, pool: Pool, requester: Requester, within: float) -> None:
        self._pool = pool
        self._requester = requester
        self._within = within

    @property
    def wants_connection(self) -> bool:
        return self._requester.wants_connection

    def take_idle(self) -> object | None:
        return self._pool.take_alive()

    async def run(self) -> None:
        """Open the connection, then call exactly one method of the requester."""
        pool, requester = self._pool, self._requester
        try:
            pod = cast(Http1PodConnection, await _open(pool, self, self._within, http2=False))
        except OSError as error:
            requester.on_dial_failed(
                pool.failed(connect_error(error), HTTP_1_1), connect_cause(error)
            )
            return
        if not pod.transport.is_closing():
            pool.reachable = True
            requester.on_connected(pod)
        elif pool.known_as is HTTP_2:
            requester.on_other_protocol("the pod speaks only HTTP/2")
        else:  # closed at once: no later callback would report that
            requester.on_dial_failed(pool.failed(CLOSED_AT_ONCE, HTTP_1_1), "connect-failed")


@final
class SharedDial:
    """One attempt to open a connection in HTTP/2, for all requests that wait for it.

    Attributes:
        requesters: these requests.
    """

    __slots__ = ("_pool", "requesters")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.requesters: list[Requester] = []

    @property
    def wants_connection(self) -> bool:
        return any(requester.wants_connection for requester in self.requesters)

    def take_idle(self) -> object | None:
        """Return a connection that has room since a request on it ended."""
        return self._pool.with_room()

    async def run(self) -> None:
        """Open the connection, then call exactly one method of each requester."""
        pool = self._pool
        if pool.resources.clock() < pool.capacity.closed_until:
            pool.end_dial(None)
            self._report_refusal()
            return
        try:
            pod = cast(Http2PodConnection, await _open(pool, self, inf, http2=True))
        except OtherProtocolError:
            self._refuse()
            return
        except OSError as error:
            self._fail(connect_error(error), connect_cause(error))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await pod.settled.wait()
        if pod.state is Http2PodState.OTHER_PROTOCOL:
            self._refuse()
        elif pod.state is Http2PodState.CLOSED_EARLY:
            pool.closed_early()
            self._fail(CLOSED_AT_ONCE, "connect-failed")
        else:
            self._share(pod)

    def _share(self, pod: Http2PodConnection) -> None:
        """Give the connection to the requesters; if it is full, the rest opens another."""
        pool = self._pool
        capacity = pool.capacity
        pool.end_dial(pod)
        if pod.has_room():
            capacity.accepted_some()
            for requester in self.requesters:
                if pod.has_room():
                    requester.on_connected(PodStream(pod))
                elif requester.wants_connection:
                    pool.dial_shared(requester)
        else:
            capacity.accepted_none(pool.resources.clock())
            self._report_refusal()
        if pool.gone:
            pod.drain()

    def _report_refusal(self) -> None:
        for requester in self.requesters:
            requester.on_refused(NO_STREAMS)

    def _refuse(self) -> None:
        pool = self._pool
        pool.end_dial(None)
        pool.speaks(HTTP_1_1)
        for requester in self.requesters:
            requester.on_other_protocol(NOT_HTTP2)

    def _fail(self, error: str, cause: str) -> None:
        pool = self._pool
        pool.end_dial(None)
        error = pool.failed(error, HTTP_2)
        for requester in self.requesters:
            requester.on_dial_failed(error, cause)

"""Opens connections to pods: in HTTP/1 for one request, in HTTP/2 for many requests.

A request that waits for a free file may get a connection of its pod that becomes idle meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final, cast, final

from activator.proxy.exchange.pod_side import Requester
from activator.proxy.message.fields import HTTP_1_1, HTTP_2
from activator.proxy.pods.dial import (
    CLOSED_AT_ONCE,
    LOCAL_SHORTAGE,
    SHORTAGE_PAUSE,
    OtherProtocolError,
    connect_cause,
    connect_error,
)
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.http2 import NOT_HTTP2, Http2Pod, Http2PodState, PodStream
from activator.proxy.transport.files import Waiter

if TYPE_CHECKING:
    from activator.proxy.pods.pool import Pool

#: Most seconds to wait for a pod's settings. They are its first frame (RFC 9113 section 3.4), so
#: nearly always one round trip is enough. gRPC servers fail requests beyond their limit of streams,
#: and do not refuse them.
_SETTLE_SECONDS: Final = 1.0
#: The error of a request to a pod whose last new connection had no room for a stream.
NO_STREAMS: Final = "the pod accepts no HTTP/2 streams on a new connection"


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
        OSError: see dial.connect_tls.
    """
    files = pool.resources.files
    limit = min(within, pool.resources.limits.connect_timeout)
    while True:
        idle = await files.take(waiter, probe=within < inf)
        if idle is not None:
            return idle
        pod: Http1Pod | Http2Pod = Http2Pod(pool) if http2 else Http1Pod(pool)
        try:
            await pool.target.connect(pod.protocol(), limit, within, http2=http2)
            return pod
        except OSError as error:
            if error.errno not in LOCAL_SHORTAGE or not waiter.wants_connection:
                raise
        finally:
            if not pod.is_made():
                files.release()  # else ``Pool.closed`` does
                if isinstance(pod, Http2Pod):
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
        return self._pool.take_idle(http2=False)

    async def run(self) -> None:
        """Open the connection, then call exactly one method of the requester."""
        pool, requester = self._pool, self._requester
        try:
            pod = cast(Http1Pod, await _open(pool, self, self._within, http2=False))
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
        return self._pool.take_idle(http2=True)

    async def run(self) -> None:
        """Open the connection, then call exactly one method of each requester."""
        pool = self._pool
        if pool.resources.clock() < pool.capacity.closed_until:
            pool.end_dial(None)
            self._report_refusal()
            return
        try:
            pod = cast(Http2Pod, await _open(pool, self, inf, http2=True))
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

    def _share(self, pod: Http2Pod) -> None:
        """Give the connection to the requesters; if it is full, the rest opens another."""
        pool = self._pool
        capacity = pool.capacity
        pool.end_dial(pod)
        if pod.has_room():
            capacity.accepted_some()
            self._share_room(pod)
        else:
            capacity.accepted_none(pool.resources.clock())
            self._report_refusal()
        if pool.gone:
            pod.drain()

    def _share_room(self, pod: Http2Pod) -> None:
        for requester in self.requesters:
            if pod.has_room():
                requester.on_connected(PodStream(pod))
            elif requester.wants_connection:
                self._pool.dial_shared(requester)

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

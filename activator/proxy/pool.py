"""Connections to pods: opened when needed, kept while idle, the newest used first.

Everything per request is O(1). Probes use the same connections, so that the one that proved a
pod carries its first request. Knative's counterpart: the transport of
V/knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

from activator.names import private_service
from activator.proxy.upstream import Upstream
from throttler.pod import PodTracker

#: Seconds that an idle connection is kept (Knative and Go: 90).
IDLE_TIMEOUT = 90.0
#: Errors of a connect that say nothing of the pod: this machine is out of files, ports or memory.
OUR_SHORTAGE = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
)
#: Seconds until a connect that met one is tried again.
SHORTAGE_PAUSE = 0.05


class Dialer(Protocol):
    """Who waits for a new connection; exactly one of the two is called, once."""

    @property
    def wants_connection(self) -> bool:
        """Whether it still has a use for one."""

    def on_dialed(self, upstream: Upstream) -> None:
        """Here it is. Who has no use for it any more puts it into its pool."""

    def on_dial_failed(self, error: str, timed_out: bool) -> None:
        """There is none.

        Arguments:
            timed_out: whether the pod did not answer, rather than refused.
        """


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds on idle connections, and on the time to open one.

    Attributes:
        max_idle: in all (Knative: 1,000); max_idle_per_pod: to one pod (Knative: 100).
        connect_timeout: seconds.
    """

    max_idle: int = 1000
    max_idle_per_pod: int = 100
    connect_timeout: float = 1.0


class Pool:
    """The connections to one pod.

    Attributes:
        idle: those that wait for a request, the newest last.
        host_lines: the request fields that say which pod is asked, each with its CRLF.
        probe_lines: the same of a probe.
    """

    __slots__ = (
        "_pools",
        "connections",
        "gone",
        "host",
        "host_lines",
        "idle",
        "pod",
        "port",
        "probe_lines",
    )

    def __init__(self, pools: ConnectionPools, pod: PodTracker) -> None:
        self._pools = pools
        self.pod = pod
        host, _, port = pod.address.rpartition(":")
        self.host = host.strip("[]")
        self.port = int(port)
        self.set_passthrough(pools.passthrough)
        self.idle: list[Upstream] = []
        self.connections = 0
        self.gone = False

    def set_passthrough(self, on: bool) -> None:
        """See ConnectionPools.set_passthrough."""
        if on:
            revision = self.pod.revision.revision.id
            name = f"{private_service(revision.name)}.{revision.namespace}"
            self.probe_lines = b"Host: %b\r\nK-Passthrough-Lb: true\r\n" % name.encode()
        else:
            self.probe_lines = b"Host: %b\r\n" % self.pod.address.encode()
        self.host_lines = self.probe_lines + b"K-Proxy-Request: activator\r\n"

    def take(self) -> Upstream | None:
        """Return the idle connection that was used last, or None."""
        idle = self.idle
        while idle:
            upstream = idle.pop()
            self._pools.idle -= 1
            if not upstream.transport.is_closing():
                return upstream
        return None

    def take_alive(self) -> Upstream | None:
        """Return an idle connection that the pod has not closed, or None."""
        while (upstream := self.take()) is not None:
            if upstream.alive():
                return upstream
            upstream.transport.abort()
        return None

    def put(self, upstream: Upstream) -> None:
        """Keep a connection for the next request, or close it where there are enough."""
        pools = self._pools
        limits = pools.limits
        if (
            self.gone
            or len(self.idle) >= limits.max_idle_per_pod
            or pools.idle >= limits.max_idle
            or upstream.transport.is_closing()
        ):
            upstream.transport.close()
            return
        upstream.reused = True
        upstream.idle_since = pools.now
        self.idle.append(upstream)
        pools.idle += 1

    def dial(self, dialer: Dialer, within: float = inf) -> None:
        """Open a connection for ``dialer``.

        Arguments:
            within: seconds, where it is shorter than the limit for all.
        """
        self._pools.start(self._dial(dialer, min(within, self._pools.limits.connect_timeout)))

    async def _dial(self, dialer: Dialer, within: float) -> None:
        try:
            upstream = await self._connection(dialer, within)
        except TimeoutError:
            dialer.on_dial_failed(f"connect timed out after {within:.3g} s", True)
        except OSError as error:
            dialer.on_dial_failed(_connect_error(error), False)
        else:
            if upstream.transport.is_closing():
                # Accepted and dropped at once: nobody would hear of that from here on.
                dialer.on_dial_failed("the pod closed the new connection", False)
            else:
                dialer.on_dialed(upstream)

    async def _connection(self, dialer: Dialer, within: float) -> Upstream:
        """Connect; where the shortage is ours, wait as long as the connection is wanted."""
        loop = asyncio.get_running_loop()
        while True:
            upstream = Upstream(self)
            try:
                async with asyncio.timeout(within):
                    await loop.create_connection(partial(_same, upstream), self.host, self.port)
                return upstream
            except OSError as error:
                if error.errno not in OUR_SHORTAGE or not dialer.wants_connection:
                    raise
            await asyncio.sleep(SHORTAGE_PAUSE)

    def opened(self, upstream: Upstream) -> None:
        """Count a new connection."""
        self.connections += 1
        self._pools.connections += 1
        sock = upstream.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def closed(self, upstream: Upstream) -> None:
        """Forget a connection."""
        self.connections -= 1
        self._pools.connections -= 1
        if upstream in self.idle:
            self.idle.remove(upstream)
            self._pools.idle -= 1

    def close_idle(self, before: float = inf) -> None:
        """Close the connections that have been idle since before that time."""
        while self.idle and self.idle[0].idle_since < before:
            self.idle.pop(0).transport.close()
            self._pools.idle -= 1


class ConnectionPools:
    """The pools of all pods (activator.driver.Pools).

    Arguments:
        limits: bounds on idle connections.
        start: runs a coroutine and holds on to its task.
        clock: seconds, monotonic.

    Attributes:
        idle: how many connections are idle in all; connections: how many there are.
        now: the time at the last ``close_expired``, which is exact enough to expire by.
        passthrough: see ``set_passthrough``.
    """

    def __init__(
        self,
        limits: PoolLimits,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
    ) -> None:
        self.limits = limits
        self.start = start
        self._clock = clock
        self.now = clock()
        self.idle = 0
        self.connections = 0
        self.passthrough = False
        self._pools: dict[PodTracker, Pool] = {}

    def of(self, pod: PodTracker) -> Pool:
        """Return the pool of a pod."""
        pool = self._pools.get(pod)
        if pool is None:
            pool = self._pools[pod] = Pool(self, pod)
        return pool

    def set_passthrough(self, on: bool) -> None:
        """Take whether a mesh stands between us and the pods, and is to send each request to the
        pod whose address we used: it is asked for the revision's private Service, with a field
        that says so. From the next request on."""
        self.passthrough = on
        for pool in self._pools.values():
            pool.set_passthrough(on)

    def forget(self, pod: PodTracker) -> None:
        """Close what is idle of a pod that is no more; what is busy closes when it is done."""
        pool = self._pools.pop(pod, None)
        if pool is not None:
            pool.gone = True
            pool.close_idle()

    def close_expired(self) -> None:
        """Close connections that were idle for too long; to be called now and then."""
        self.now = self._clock()
        before = self.now - IDLE_TIMEOUT
        for pool in self._pools.values():
            pool.close_idle(before)

    def close(self) -> None:
        """Close everything that is idle."""
        for pool in self._pools.values():
            pool.close_idle()


def _same(upstream: Upstream) -> Upstream:
    return upstream


def _connect_error(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or str(error)).lower()

"""Connections to pods: opened when needed, kept while idle, the newest used first.

Everything per request is O(1). Probes use the same connections, so that the one that proved a
pod carries its first request; but where requests go over TLS, see proxy.probe_pool. Knative's
counterpart: the transport of V/knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import cast

from activator.keepalive import SocketKind, find_dead
from activator.names import private_service
from activator.proxy.exchange.retry import may_be_lost
from activator.proxy.exchange.sides import Asker, PodPool, PodPools, PodSide
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.request import Request
from activator.proxy.message.version import HTTP_1_1, HTTP_2, Version
from activator.proxy.pods.dial import (
    DROPPED,
    HANDSHAKE_TIMEOUT,
    OUR_SHORTAGE,
    SHORTAGE_PAUSE,
    Dialer,
    Proof,
    connect,
    connect_cause,
    connect_error,
    connect_tls,
)
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.http2 import Http2Pod
from activator.proxy.pods.http2_pool import Http2Pool
from activator.proxy.transport.files import FileBudget, Waiter
from activator.proxy.transport.unread import UnreadBytes
from activator.tls.internal import POD_PORT, SERVICE_PORT, PodTls
from throttler.pod import PodTracker

#: Seconds that an idle connection is kept (Knative and Go: 90).
IDLE_TIMEOUT = 90.0
#: Pods that are searched for an idle connection of HTTP/2 when a file is short. The next search
#: begins behind them.
_SAMPLE = 16


class _Waiting:
    """An exchange that waits for a connection in HTTP/1 (dial.Dialer)."""

    __slots__ = ("_asker",)

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    @property
    def wants_connection(self) -> bool:
        """See Dialer."""
        return self._asker.wants_connection

    def on_dialed(self, upstream: Http1Pod) -> None:
        """See Dialer."""
        self._asker.on_connected(upstream)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Dialer."""
        self._asker.on_dial_failed(error, cause)

    def on_other_protocol(self) -> None:
        """The pod has begun to speak HTTP/2."""
        self._asker.on_other_protocol("the pod speaks HTTP/2 alone")


class _Waiter:
    """A dialer that waits for a file (files.Waiter)."""

    __slots__ = ("_dialer", "_pool")

    def __init__(self, pool: Pool, dialer: Dialer) -> None:
        self._pool = pool
        self._dialer = dialer

    @property
    def wants_connection(self) -> bool:
        """See files.Waiter."""
        return self._dialer.wants_connection

    def take_idle(self) -> Http1Pod | None:
        """See files.Waiter."""
        return self._pool.take_alive()


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


class Pool(PodPool):
    """The connections to one pod, all of them plain or all of them over TLS.

    A request goes out in its client's version of HTTP, unless the pod was found to speak the other
    one alone.

    Attributes:
        reachable: whether the last connection that was asked for came to be.
        idle: those that wait for a request, the newest last.
        may_have_idle: whether the pool is among those that are searched for idle connections.
        host_lines: the request fields that say which pod is asked, each with its CRLF.
        probe_lines: the same of a probe.
        http2: its connections in HTTP/2; None before the first request in it.
        known_as: the only version of HTTP that the pod was found to speak; None for not known.
    """

    __slots__ = (
        "_pools",
        "_proof",
        "connections",
        "gone",
        "host",
        "host_lines",
        "http2",
        "idle",
        "known_as",
        "may_have_idle",
        "pod",
        "port",
        "probe_lines",
        "reachable",
    )

    def __init__(self, pools: ConnectionPools, pod: PodTracker, tls: PodTls | None = None) -> None:
        self._pools = pools
        self.pod = pod
        host, _, port = pod.address.rpartition(":")
        self.host = host.strip("[]")
        self.port = int(port)
        self._proof = None
        if tls is not None:
            self._proof = Proof(tls, pod.revision.revision.id.namespace)
            self.port = SERVICE_PORT if pod.is_service else POD_PORT
        self.reachable = False
        self.set_passthrough(pools.passthrough)
        self.idle: list[Http1Pod] = []
        self.may_have_idle = False
        self.connections = 0
        self.gone = False
        self.http2: Http2Pool | None = None
        self.known_as: Version | None = None

    # -- for exchanges --------------------------------------------------------------------------

    def side_for(self, request: Request, *, fresh: bool) -> PodSide | None:
        """See PodPool."""
        if self._speaks_http2(request):
            return self._multiplexed().place()
        if fresh:
            return None
        # What must not be sent twice goes on no connection that might be closed already.
        return self.take() if may_be_lost(request) else self.take_alive()

    def dial_for(self, asker: Asker, request: Request) -> None:
        """See PodPool."""
        if self._speaks_http2(request):
            self._multiplexed().dial(asker)
        else:
            self.dial(_Waiting(asker))

    def _speaks_http2(self, request: Request) -> bool:
        known = self.known_as
        if known is None or request.upgrade:
            return request.version is HTTP_2
        # gRPC has no other version: whether a pod speaks it is tried each time.
        return known is HTTP_2 or (request.version is HTTP_2 and is_grpc(request.fields))

    def _multiplexed(self) -> Http2Pool:
        http2 = self.http2
        if http2 is None:
            pools = self._pools
            self.http2 = http2 = Http2Pool(self, pools.start, pools.clock)
            pools.with_http2(self)
        return http2

    def count_answers(self) -> int:
        """See PodPool."""
        return 0 if self.http2 is None else self.http2.capacity.answers

    def speaks_http2(self) -> None:
        """Record that the pod has answered a request in HTTP/1 by frames of HTTP/2."""
        self.known_as = HTTP_2

    def speaks_http1(self) -> None:
        """Record that the pod does not speak HTTP/2."""
        self.known_as = HTTP_1_1

    # -- where it is ----------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The pod's ``ip:port``."""
        return self.pod.address

    @property
    def files(self) -> FileBudget:
        """The budget of open files."""
        return self._pools.files

    @property
    def origin(self) -> str:
        """Where requests go, as ``scheme://ip:port``."""
        scheme = "http" if self._proof is None else "https"
        return f"{scheme}://{self.pod.address.rpartition(':')[0]}:{self.port}"

    @property
    def unread(self) -> UnreadBytes:
        """See ConnectionPools."""
        return self._pools.unread

    def set_passthrough(self, on: bool) -> None:
        """See ConnectionPools.set_passthrough."""
        if on:
            revision = self.pod.revision.revision.id
            name = f"{private_service(revision.name)}.{revision.namespace}"
            self.probe_lines = b"Host: %b\r\nK-Passthrough-Lb: true\r\n" % name.encode()
        else:
            host = self.pod.address.rpartition(":")[0]
            self.probe_lines = b"Host: %b:%d\r\n" % (host.encode(), self.port)
        self.host_lines = self.probe_lines + b"K-Proxy-Request: activator\r\n"

    def take(self) -> Http1Pod | None:
        """Return the idle connection that was used last, or None."""
        idle = self.idle
        while idle:
            upstream = idle.pop()
            self._pools.idle -= 1
            if not upstream.transport.is_closing():
                return upstream
        return None

    def take_alive(self) -> Http1Pod | None:
        """Return an idle connection that the pod has not closed, or None."""
        while (upstream := self.take()) is not None:
            if upstream.alive():
                return upstream
            upstream.transport.abort()
        return None

    def put(self, upstream: Http1Pod) -> None:
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
        if upstream.reads_slowly:
            upstream.expect_slow_reading(False)
        if not self.may_have_idle:
            pools.with_idle(self)
        if pools.files.waiting:
            pools.files.freed()

    def dial(self, dialer: Dialer, within: float = inf) -> None:
        """Open a connection for ``dialer``.

        Arguments:
            within: seconds, where it is shorter than the limit for all, as for a probe. Such a
                dial may use the files that are kept for probes.
        """
        self._pools.start(self._dial(dialer, within))

    async def _dial(self, dialer: Dialer, within: float) -> None:
        try:
            waiter = _Waiter(self, dialer)
            upstream = await self.open(within, waiter)
        except OSError as error:
            dialer.on_dial_failed(self.failed(connect_error(error)), connect_cause(error))
            return
        if upstream.transport.is_closing():
            if self.known_as is HTTP_2 and isinstance(dialer, _Waiting):
                dialer.on_other_protocol()
                return
            # Accepted and dropped at once: nobody would hear of that from here on.
            dialer.on_dial_failed(self.failed(DROPPED), "connect-failed")
            return
        self.reachable = True
        dialer.on_dialed(upstream)

    def failed(self, error: str) -> str:
        """Take that a connection did not come to be; return where and why, for people."""
        self.reachable = False
        where = f"TLS on port {self.port}: " if self._proof is not None else ""
        return where + error

    async def open(self, within: float, waiter: Waiter) -> Http1Pod:
        """Open a connection in HTTP/1; where the shortage is ours, wait as long as it is wanted.

        Arguments:
            within: seconds, where it is shorter than the limit for all.
            waiter: who wants the connection. While no file is free it may get one that is idle.

        Raises:
            OSError: see dial.connect_tls.
        """
        limit = min(within, self._pools.limits.connect_timeout)
        files = self._pools.files
        while True:
            idle = await files.take(waiter, probe=within < inf)
            if idle is not None:
                return cast(Http1Pod, idle)  # of the same pool
            pod = Http1Pod(self)
            try:
                await self._connect(pod, limit, within)
                return pod
            except OSError as error:
                if error.errno not in OUR_SHORTAGE or not waiter.wants_connection:
                    raise
            finally:
                if getattr(pod, "transport", None) is None:
                    files.give_back()  # else ``closed`` does
            await asyncio.sleep(SHORTAGE_PAUSE)

    async def open_http2(self, make: Callable[[], Http2Pod], waiter: Waiter) -> Http2Pod:
        """Open a connection in HTTP/2; see ``open``.

        Raises:
            OSError: see dial.connect_tls.
        """
        limits = self._pools.limits
        files = self._pools.files
        while True:
            idle = await files.take(waiter, probe=False)
            if idle is not None:
                return cast(Http2Pod, idle)  # of the same pool
            pod = make()
            try:
                await self._connect(pod.link, limits.connect_timeout, inf, http2=True)
                return pod
            except OSError as error:
                if error.errno not in OUR_SHORTAGE or not waiter.wants_connection:
                    raise
            finally:
                if getattr(pod.link, "transport", None) is None:
                    files.give_back()  # else ``closed`` does
            await asyncio.sleep(SHORTAGE_PAUSE)

    async def _connect(
        self, protocol: object, limit: float, within: float, *, http2: bool = False
    ) -> None:
        # The loops look methods up by name: a compiled class has no base of theirs.
        loops = cast(asyncio.BaseProtocol, protocol)
        if self._proof is None:
            await connect(loops, self.host, self.port, limit)
        else:
            both = limit, min(within, HANDSHAKE_TIMEOUT)
            proof = self._proof._replace(http2=http2)
            await connect_tls(loops, self.host, self.port, both, proof)

    def opened(self, upstream: Http1Pod) -> None:
        """Count a new connection."""
        self.count()
        find_dead(upstream.transport.get_extra_info("socket"), SocketKind.POD)

    def closed(self, upstream: Http1Pod) -> None:
        """Forget a connection."""
        self.uncount(upstream)
        if upstream in self.idle:
            self.idle.remove(upstream)
            self._pools.idle -= 1

    def count(self) -> None:
        """Count a connection that came."""
        self.connections += 1
        self._pools.connections += 1

    def uncount(self, connection: object) -> None:
        """Count a connection that went; its file is free."""
        self.connections -= 1
        self._pools.connections -= 1
        self._pools.making_room.discard(connection)
        self._pools.files.give_back()

    def close_oldest_idle(self) -> Http1Pod | None:
        """Close the connection that has been idle longest, and return it; None without one."""
        if not self.idle:
            return None
        upstream = self.idle.pop(0)
        self._pools.idle -= 1
        upstream.transport.abort()  # at once: the end of TLS would take the pod's answer
        return upstream

    def close_idle(self, before: float = inf) -> None:
        """Close the connections that have been idle since before that time."""
        if self.http2 is not None:
            self.http2.close_idle(before)
        while self.idle and self.idle[0].idle_since < before:
            self.idle.pop(0).transport.close()
            self._pools.idle -= 1


class ConnectionPools(PodPools):
    """The pools of all pods (activator.driver.Pools).

    Arguments:
        limits: bounds on idle connections.
        start: runs a coroutine and holds on to its task.
        clock: seconds, monotonic.
        unread: bytes that pods, and clients, do not read.

    Attributes:
        idle: how many connections are idle in all; connections: how many there are.
        files: the budget of open files.
        making_room: idle connections that are being closed, since a file is short.
        now: the time at the last ``close_expired``, which is exact enough to expire by.
        passthrough: see ``set_passthrough``.
        tls: how pods prove themselves to requests; None where those go out plain.
    """

    def __init__(
        self,
        limits: PoolLimits,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
        unread: UnreadBytes | None = None,
    ) -> None:
        self.unread = UnreadBytes() if unread is None else unread
        self.limits = limits
        self.files = FileBudget()
        self.files.idle.append((self.close_one_idle, lambda: len(self.making_room)))
        self.making_room: set[object] = set()
        self._with_idle: dict[Pool, None] = {}
        self.start = start
        self.clock = clock
        self.now = clock()
        self.idle = 0
        self.connections = 0
        self.passthrough = False
        self.tls: PodTls | None = None
        self._pools: dict[PodTracker, Pool] = {}
        self._plain: dict[PodTracker, Pool] = {}
        self._http2: dict[Pool, None] = {}

    def of(self, pod: PodTracker) -> Pool:
        """Return the connections to a pod that requests use."""
        pool = self._pools.get(pod)
        if pool is None:
            pool = self._pools[pod] = Pool(self, pod, self.tls)
        return pool

    def plain(self, pod: PodTracker) -> Pool:
        """Return the plain connections to a pod, which probes use whatever requests do."""
        if self.tls is None:
            return self.of(pod)
        pool = self._plain.get(pod)
        if pool is None:
            pool = self._plain[pod] = Pool(self, pod)
        return pool

    def with_http2(self, pool: Pool) -> None:
        """Remember a pool that has connections in HTTP/2, or had."""
        self._http2[pool] = None

    def use_tls(self, tls: PodTls) -> None:
        """Have requests go over TLS; from then on for ever."""
        self.tls = tls
        for pool in self._pools.values():
            self._retire_http2(pool)
        self._plain, self._pools = self._pools, {}

    def distrust(self) -> None:
        """Close the connections over which a pod has proved itself by a root that may be trusted
        no more: idle ones now, busy ones when they are done."""
        for pod in list(self._pools):
            self._end(self._pools.pop(pod))

    def _retire_http2(self, pool: Pool) -> None:
        self._http2.pop(pool, None)
        http2, pool.http2 = pool.http2, None
        if http2 is not None:
            http2.retire()

    def _end(self, pool: Pool) -> None:
        pool.gone = True
        self._retire_http2(pool)
        pool.close_idle()

    def set_passthrough(self, on: bool) -> None:
        """Take whether a mesh stands between us and the pods, and is to send each request to the
        pod whose address we used: it is asked for the revision's private Service, with a field
        that says so. From the next request on."""
        self.passthrough = on
        for pool in self._all():
            pool.set_passthrough(on)

    def forget(self, pod: PodTracker) -> None:
        """Close what is idle of a pod that is no more; what is busy closes when it is done."""
        for pools in (self._pools, self._plain):
            if (pool := pools.pop(pod, None)) is not None:
                self._end(pool)

    def close_expired(self) -> None:
        """Close connections that were idle for too long; to be called now and then."""
        self.now = self.clock()
        before = self.now - IDLE_TIMEOUT
        for pool in self._all():
            pool.close_idle(before)

    def with_idle(self, pool: Pool) -> None:
        """Remember that a pool has an idle connection, until a search finds none."""
        pool.may_have_idle = True
        self._with_idle[pool] = None

    def close_one_idle(self) -> bool:
        """Close a connection that is idle, each time of another pod; return whether there is one.

        O(1) in pods, since a pool without an idle connection is not searched twice.
        """
        while self._with_idle:
            pool = next(iter(self._with_idle))
            del self._with_idle[pool]
            upstream = pool.close_oldest_idle()
            if upstream is None:
                pool.may_have_idle = False
            else:
                self._with_idle[pool] = None
                self.making_room.add(upstream)
                return True
        return self._close_one_idle_of_http2()

    def _close_one_idle_of_http2(self) -> bool:
        for _ in range(min(_SAMPLE, len(self._http2))):
            pool = next(iter(self._http2))
            self._http2[pool] = self._http2.pop(pool)
            http2 = pool.http2
            if http2 is not None and (connection := http2.close_oldest_idle()) is not None:
                self.making_room.add(connection)
                return True
        return False

    def close(self) -> None:
        """Close everything that is idle."""
        for pool in self._all():
            pool.close_idle()

    def _all(self) -> Iterator[Pool]:
        return chain(self._pools.values(), self._plain.values())

"""The connections to all pods, in both versions of HTTP, and their limits.

In HTTP/1 one connection carries one request at a time. Connections without a request are idle, and
the pool uses the newest first. In HTTP/2 one connection carries many requests, and the pool uses
the first with room. Work per request is O(1), in HTTP/2 O(connections of the pod).

Probes use the connections of requests. So the connection that passed a pod's probe carries its
first request in HTTP/1. If requests go over TLS, see ``probes``. Knative's counterpart: the
transport of knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Final, final

from activator.knative.words import (
    ORIGINAL_HOST_START,
    PASSTHROUGH_LINE,
    PROXY_LINE,
    private_service,
)
from activator.process.sockets import SocketKind, find_dead
from activator.proxy.exchange.sides import PodSide, Requester
from activator.proxy.http2.hpack import line
from activator.proxy.message.fields import HTTP_1_1, HTTP_2, HttpVersion
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.request import IDEMPOTENT, PLAIN_HOST_START, Request
from activator.proxy.pods.dial import (
    Dial,
    Proof,
    SharedDial,
)
from activator.proxy.pods.http1 import Http1PodConnection
from activator.proxy.pods.http2 import OPEN, Capacity, Http2PodConnection, PodStream
from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.peer_socket import UnreadBytes
from activator.proxy.transport.splice import Splices
from activator.tls.internal_encryption import POD_PORT, SERVICE_PORT, PodTls, ServiceTls
from throttler.model import AppProtocol, Revision
from throttler.pod import PodTracker

#: Seconds until an idle connection closes (Knative and Go: 90).
IDLE_TIMEOUT: Final = 90.0
#: The same for a connection above ``PoolLimits.kept_per_pod``, at the first look after it.
SPARE_TIMEOUT: Final = 20.0
#: The TLS of all pods of plain Services.
UNVERIFIED: Final = ServiceTls()


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Limits of idle connections, and of the time to open one.

    Attributes:
        max_idle: idle connections to all pods (Knative: 1,000).
        kept_per_pod: idle connections to one pod that stay although requests did not need them
            lately (Knative keeps at most 100).
        connect_timeout: seconds.
    """

    max_idle: int = 1000
    kept_per_pod: int = 100
    connect_timeout: float = 1.0


@final
class PodTarget:
    """One pod, for the connections to it.

    A pod without queue-proxy has one port, with or without TLS, and gets its requests with the
    client's host.

    Arguments:
        pod: the pod.
        tls: the check of the pod's certificate; None for plain connections.
        passthrough: see ``set_passthrough``.

    Attributes:
        address: the pod's ``ip:port`` in its endpoint.
        host, port: the address of connections; over TLS they use another port.
        origin: host and port as ``scheme://ip:port``.
        is_plain: whether the pod has no queue-proxy.
        proof: what the pod has to prove over TLS; None without TLS.
        probe_lines: the fields by which a probe names the pod, each with its CRLF.
        host_lines: the fields by which a request names the pod, each with its CRLF.
        host_start: the start of the line with the client's host, see ``request.pod_head``.
        host_blocks: these fields for HTTP/2: :scheme and :authority, if there is one; the others.
    """

    __slots__ = (
        "_peer_line",
        "_revision",
        "address",
        "host",
        "host_blocks",
        "host_lines",
        "host_start",
        "is_plain",
        "origin",
        "port",
        "probe_lines",
        "proof",
    )

    def __init__(
        self,
        pod: PodTracker,
        tls: PodTls | ServiceTls | None,
        *,
        passthrough: bool,
    ) -> None:
        revision = pod.config.revision
        self.address = pod.address
        self._revision = revision.id
        self.is_plain = not revision.behind_queue_proxy
        host, _, port = pod.address.rpartition(":")
        self.host = host.strip("[]")
        self.port = int(port)
        self.proof: Proof | None = None
        if tls is not None:
            self.proof = Proof(tls, self._revision.namespace)
            if not self.is_plain:
                self.port = SERVICE_PORT if pod.is_service else POD_PORT
        scheme = "http" if tls is None else "https"
        self.origin = f"{scheme}://{host}:{self.port}"
        self.probe_lines = b""
        self.host_lines = b""
        # Another activator finds the Service by this field, whatever host the client has sent.
        self._peer_line = b"Activator-Service: %b\r\n" % str(self._revision).encode()
        if not pod.is_service:
            self._peer_line = b""
        self.host_start = PLAIN_HOST_START if self.is_plain else ORIGINAL_HOST_START
        self.host_blocks = b"", b""
        self.set_passthrough(passthrough)

    def set_passthrough(self, on: bool) -> None:
        if on and not self.is_plain:
            name = f"{private_service(self._revision.name)}.{self._revision.namespace}"
            self.probe_lines = b"Host: %b\r\n%b" % (name.encode(), PASSTHROUGH_LINE)
        else:
            host = self.address.rpartition(":")[0]
            self.probe_lines = b"Host: %b:%d\r\n" % (host.encode(), self.port)
        self.host_lines = self._peer_line if self.is_plain else self.probe_lines + PROXY_LINE
        self.host_blocks = self._as_blocks()

    def _as_blocks(self) -> tuple[bytes, bytes]:
        front = line(b":scheme", b"http" if self.proof is None else b"https")
        rest = b""
        for each in self.host_lines.split(b"\r\n")[:-1]:
            name, _, value = each.partition(b": ")
            if name == b"Host":
                front += line(b":authority", value)
            else:
                rest += line(name.lower(), value)
        return front, rest

    def describe(self, error: str) -> str:
        """Return the error of a connection with its TLS port, for people."""
        return error if self.proof is None else f"TLS on port {self.port}: {error}"


@final
class Resources:
    """Limits, budgets and counts that the pools of all pods share.

    Arguments:
        limits: the limits of idle connections.
        start: runs a coroutine, and keeps a reference to its task.
        clock: returns the time in seconds, monotonic.
        unread: the budget of bytes that pods and clients do not read.

    Attributes:
        files: the budget of open files.
        splices: pass large bodies within the kernel.
        idle: number of idle connections in HTTP/1; connections: number of all connections.
        closing: idle connections that close because files are short.
        now: the time of the last search for expired connections, exact enough for idle times.
    """

    __slots__ = (
        "_with_idle",
        "clock",
        "closing",
        "connections",
        "files",
        "idle",
        "limits",
        "now",
        "splices",
        "start",
        "unread",
    )

    def __init__(
        self,
        limits: PoolLimits,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
        unread: UnreadBytes,
    ) -> None:
        self.limits = limits
        self.start = start
        self.clock = clock
        self.now = clock()
        self.unread = unread
        self.files = FileBudget()
        self.splices = Splices(self.files.shares.limit, unread)
        self.files.idle.append((self.close_one_idle, lambda: len(self.closing)))
        self.idle = 0
        self.connections = 0
        self.closing: set[object] = set()
        self._with_idle: dict[Pool, None] = {}

    def closed(self, connection: object) -> None:
        """Count a connection that has closed, and release its file."""
        self.connections -= 1
        self.closing.discard(connection)
        self.files.release()

    def with_idle(self, pool: Pool) -> None:
        """Search a pool for idle connections from now on, until a search finds none."""
        pool.may_have_idle = True
        self._with_idle[pool] = None

    def remove(self, pool: Pool) -> None:
        """Search a pool no longer, because it keeps no connections."""
        pool.may_have_idle = False
        self._with_idle.pop(pool, None)

    def close_one_idle(self) -> bool:
        """Close an idle connection, each time to another pod; return whether there was one.

        This costs O(1) in pods, because no pool without idle connections is searched twice.
        """
        while self._with_idle:
            pool = next(iter(self._with_idle))
            del self._with_idle[pool]
            connection = pool.close_oldest_idle()
            if connection is not None:
                self._with_idle[pool] = None
                self.closing.add(connection)
                return True
            pool.may_have_idle = False
        return False


@final
class Pool:
    """The connections to one pod, all of them plain or all of them over TLS.

    A request goes out in its client's version of HTTP, unless the pod speaks only the other one.

    Attributes:
        resources: limits and budgets that the pools of all pods share.
        target: the pod's address; capacity: how many HTTP/2 streams the pod accepts.
        idle: connections in HTTP/1 without a request, the newest last.
        shared: connections in HTTP/2.
        may_have_idle: whether ``resources`` searches this pool for idle connections.
        known_as: the only version of HTTP that the pod speaks; None if unknown.
        speaks_http1: whether the pod has responded in HTTP/1, to a request or to a probe.
        gone: whether the pool keeps no connections: its pod is gone or no longer trusted, or it
            speaks a protocol in which connections cannot be used again.
        reachable: whether the last attempt to open a connection succeeded.
        timed_out: whether it timed out.
        made_for: see ``_form_of``; None until the pool is in use.
    """

    __slots__ = (
        "_assumed",
        "_dial",
        "capacity",
        "gone",
        "idle",
        "known_as",
        "made_for",
        "may_have_idle",
        "reachable",
        "resources",
        "shared",
        "speaks_http1",
        "target",
        "timed_out",
    )

    def __init__(self, resources: Resources, target: PodTarget) -> None:
        self.resources = resources
        self.target = target
        self.capacity = Capacity()
        self.may_have_idle = False
        self.known_as: HttpVersion | None = None
        self.speaks_http1 = False
        self.gone = False
        self.idle: list[Http1PodConnection] = []
        self.shared: list[Http2PodConnection] = []
        self._dial: SharedDial | None = None
        self._assumed = False  # ``known_as`` follows from a connection that closed early
        self.reachable = self.timed_out = False
        self.made_for: tuple[AppProtocol, bool, bool] | None = None

    # -- for exchanges --------------------------------------------------------------------------

    def side_for(self, request: Request, *, fresh: bool) -> PodSide | None:
        """Return an idle connection or a stream for a request; None without one.

        Arguments:
            request: the request.
            fresh: whether no idle HTTP/1 connection may be used.
        """
        known = self.known_as
        if request.version is HTTP_2 if known is None else self._goes_in_http2(request):
            for connection in self.shared:
                if connection.has_room():
                    return PodStream(connection)
            return None
        if fresh:
            return None
        # A request that must not be sent twice uses no connection that might be closed already.
        return self.take() if may_be_lost(request) else self.take_alive()

    def dial_for(self, requester: Requester, request: Request) -> None:
        """Open a connection for a request. ``on_connected`` or ``on_dial_failed`` follows."""
        if self._goes_in_http2(request):
            self.dial_shared(requester)
        else:
            self.dial(requester)

    def _goes_in_http2(self, request: Request) -> bool:
        known = self.known_as
        if known is None or request.upgrade:
            return request.version is HTTP_2
        # gRPC has no other version, so each call tries HTTP/2.
        return known is HTTP_2 or (request.version is HTTP_2 and is_grpc(request.fields))

    # -- connections in HTTP/1 ------------------------------------------------------------------

    def take(self) -> Http1PodConnection | None:
        """Return the idle connection that was used last; None without one."""
        idle = self.idle
        while idle:
            side = idle.pop()
            self.resources.idle -= 1
            if not side.transport.is_closing():
                return side
        return None

    def take_alive(self) -> Http1PodConnection | None:
        """Return an idle connection that the kernel reports as open; None without one."""
        while (side := self.take()) is not None:
            if side.alive():
                return side
            side.cancel()
        return None

    def dial(self, requester: Requester, within: float = inf) -> None:
        """Open a connection in HTTP/1 for ``requester``.

        Arguments:
            within: seconds; infinite means the time-out of all connects.
        """
        self.resources.start(Dial(self, requester, within).run())

    # -- connections in HTTP/2 ------------------------------------------------------------------

    def dial_shared(self, requester: Requester) -> None:
        """Open a connection in HTTP/2; all requesters that call this meanwhile share it."""
        dial = self._dial
        if dial is None:
            dial = self._dial = SharedDial(self)
            self.resources.start(dial.run())
        dial.requesters.append(requester)

    def with_room(self) -> Http2PodConnection | None:
        """Return the first connection that can carry one more request; None without one."""
        for connection in self.shared:
            if connection.has_room():
                return connection
        return None

    def end_dial(self, connection: Http2PodConnection | None) -> None:
        """Record the end of an attempt to open a connection in HTTP/2.

        Arguments:
            connection: the open connection; None if the attempt failed.
        """
        self._dial = None
        if connection is None:
            return
        self.reachable = True
        self._assume_nothing()
        # Not earlier: over TLS, the check of the pod's certificate has just ended.
        if not connection.link.transport.is_closing() and connection not in self.shared:
            self.shared.append(connection)
            if not self.may_have_idle:
                self.became_idle()

    def became_idle(self) -> None:
        """Record that a connection in HTTP/2 has no request left.

        A pool that is gone closes its idle connections.
        """
        if not self.gone:
            self.resources.with_idle(self)

    # -- both -----------------------------------------------------------------------------------

    def has_enough(self) -> bool:
        """Return whether a connection in HTTP/1 that becomes idle closes at once."""
        return self.gone or self.resources.idle >= self.resources.limits.max_idle

    def speaks(self, version: HttpVersion) -> None:
        """Record that the pod speaks only this version of HTTP."""
        self.known_as = version
        self._assumed = False

    def _assume_nothing(self) -> None:
        if self._assumed:
            self.known_as = None
            self._assumed = False

    def closed_early(self) -> None:
        """Record that the pod closed a connection in HTTP/2 before it sent its settings.

        An HTTP/1 server may close silently on the preface of HTTP/2. So may any server that ends.
        The pool assumes the first until a connection shows otherwise.
        """
        if self.known_as is None and not any(each.state is OPEN for each in self.shared):
            self.known_as = HTTP_1_1
            self._assumed = True

    def failed(self, error: str, version: HttpVersion) -> str:
        """Record that a connection failed to open; return the error for people.

        Arguments:
            error: the cause.
            version: the version of HTTP of the connection.
        """
        self.reachable = False
        if version is self.known_as:
            self._assume_nothing()
        return self.target.describe(error)

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """Count a new connection."""
        self.resources.connections += 1
        find_dead(transport.get_extra_info("socket"), SocketKind.POD)

    def closed(self, connection: object) -> None:
        """Remove a connection that has closed."""
        if isinstance(connection, Http2PodConnection):
            if connection in self.shared:
                self.shared.remove(connection)
        elif isinstance(connection, Http1PodConnection) and connection in self.idle:
            self.idle.remove(connection)
            self.resources.idle -= 1
        self.resources.closed(connection)

    def close_oldest_idle(self) -> object | None:
        """Close the connection that has been idle for longest, and return it; None without one."""
        if self.idle:
            pod = self.idle.pop(0)
            self.resources.idle -= 1
            pod.cancel()  # an abort, because the end of TLS would wait for the pod
            return pod
        idle = [each for each in self.shared if each.is_idle_since(inf)]
        if not idle:
            return None
        oldest = min(idle, key=lambda each: each.idle_since)
        oldest.close()
        return oldest

    def close_idle(self, before: float = inf) -> None:
        """Close the connections that are idle since before a time, seconds, monotonic."""
        for connection in list(self.shared):
            if connection.is_idle_since(before):
                connection.close()
        self.close_spare(before, 0)

    def close_spare(self, before: float, keep: int) -> None:
        """Close HTTP/1 connections that are idle since before a time, except the newest ``keep``.

        The pool uses the newest first. So the others were not needed since then.
        """
        while len(self.idle) > keep and self.idle[0].idle_since < before:
            self.idle.pop(0).transport.close()
            self.resources.idle -= 1

    def drain_shared(self) -> None:
        """Send no more requests on connections in HTTP/2; finish the requests on them."""
        for connection in list(self.shared):
            connection.drain()

    def drain(self) -> None:
        """Keep no connections, as the pod is gone or no longer trusted; finish its requests."""
        self.gone = True
        self.drain_shared()
        self.close_idle()
        self.resources.remove(self)


@final
class ConnectionPools:
    """The pools of all pods (activator.driver.Pools).

    Arguments:
        limits: the limits of idle connections.
        start: runs a coroutine, and keeps a reference to its task.
        clock: returns the time in seconds, monotonic.
        unread: the budget of bytes that pods and clients do not read.

    Attributes:
        resources: limits and budgets that all pools share.
        tls: the check of the certificates of pods with queue-proxy; None if requests go out plain.
        upstream: returns the check for objects of the KEDA HTTP add-on, by ``service.namespace``.
    """

    def __init__(
        self,
        limits: PoolLimits,
        start: Callable[[Coroutine[None, None, None]], object],
        clock: Callable[[], float],
        unread: UnreadBytes | None = None,
    ) -> None:
        self.unread = UnreadBytes() if unread is None else unread
        self.resources = Resources(limits, start, clock, self.unread)
        self.files = self.resources.files
        self.tls: PodTls | None = None
        self.upstream: Callable[[str], ServiceTls] = ServiceTls
        self._passthrough = False
        self._pools: dict[PodTracker, Pool] = {}
        self._of_probes: dict[PodTracker, Pool] = {}
        self._secured: dict[PodTracker, Pool] = {}

    def of(self, pod: PodTracker) -> Pool:
        """Return the connections to a pod for requests."""
        pool = self._pools.get(pod)
        if pool is None:
            pool = self._pools[pod] = self._new(pod, self._tls_of(pod.config.revision))
        return pool

    def secured(self, pod: PodTracker) -> Pool:
        """Return the connections over TLS to a pod of an object of the KEDA HTTP add-on.

        The pod chooses the version of HTTP, unless its port speaks only HTTP/2.
        """
        pool = self._secured.get(pod)
        if pool is None:
            revision = pod.config.revision
            rules = revision.policies.interceptor
            service = revision.id.name if rules is None else rules.target.partition(":")[0]
            tls = self.upstream(f"{service}.{revision.id.namespace}")
            pool = Pool(self.resources, PodTarget(pod, tls, passthrough=False))
            pool.made_for = _form_of(revision)
            if revision.protocol is AppProtocol.H2C:
                pool.speaks(HTTP_2)
            self._secured[pod] = pool
        return pool

    def timed_out(self, pod: PodTracker) -> Pool | None:
        """Return the connections over TLS to a pod of an object of the KEDA HTTP add-on.

        None unless the last attempt timed out, or if the pod has responded to a plain request.
        """
        pool, plain = self._secured.get(pod), self._pools.get(pod)
        if pool is None or not pool.timed_out:
            return None
        serves_plain = plain is not None and (plain.speaks_http1 or plain.capacity.responses)
        return None if serves_plain else pool

    def for_probes(self, pod: PodTracker) -> Pool:
        """Return the connections to a pod for probes.

        Probes of queue-proxy are always plain, whatever requests use.
        """
        revision = pod.config.revision
        tls = self._tls_of(revision)
        wanted = None
        if not revision.behind_queue_proxy and revision.probe.tls:
            wanted = UNVERIFIED
        if wanted is tls:
            return self.of(pod)
        pool = self._of_probes.get(pod)
        if pool is None:
            pool = self._of_probes[pod] = self._new(pod, wanted)
        return pool

    def _tls_of(self, revision: Revision) -> PodTls | ServiceTls | None:
        """Return the TLS of requests to a revision's pods; None for plain connections."""
        if revision.behind_queue_proxy:
            return self.tls
        return UNVERIFIED if revision.tls else None

    def _new(self, pod: PodTracker, tls: PodTls | ServiceTls | None) -> Pool:
        revision = pod.config.revision
        pool = Pool(self.resources, PodTarget(pod, tls, passthrough=self._passthrough))
        pool.made_for = _form_of(revision)
        if revision.protocol is AppProtocol.TCP:
            pool.gone = True
        elif not revision.behind_queue_proxy:
            pool.speaks(HTTP_2 if revision.protocol is AppProtocol.H2C else HTTP_1_1)
        return pool

    def use_tls(self, tls: PodTls) -> None:
        """Send all later requests over TLS. There is no way back to plain connections."""
        self.tls = tls
        for pool in self._pools.values():
            pool.drain_shared()
        self._of_probes, self._pools = self._pools, {}

    def distrust(self) -> None:
        """Close all connections for requests, because the trusted roots have changed.

        Idle connections close now, others after their last response.
        """
        for pod in list(self._pools):
            self._pools.pop(pod).drain()

    def set_passthrough(self, on: bool) -> None:
        """Record whether a mesh has to deliver each request to the pod with its address.

        If so, requests name the revision's private Service and have a field that demands this.
        That begins with the next request.
        """
        self._passthrough = on
        for pool in self._all():
            pool.target.set_passthrough(on)

    def follow(self, pods: Iterable[PodTracker]) -> None:
        """Replace connections to pods of a plain Service whose protocol or TLS has changed.

        Idle connections close now, others after their last response.
        """
        for pod in pods:
            pool = self._pools.get(pod) or self._secured.get(pod)
            if pool is not None and pool.made_for != _form_of(pod.config.revision):
                self.forget(pod)

    def forget(self, pod: PodTracker) -> None:
        """Close the connections to a removed pod: idle ones now, others after their response."""
        for pools in (self._pools, self._of_probes, self._secured):
            pool = pools.pop(pod, None)
            if pool is not None:
                pool.drain()

    def close_expired(self) -> None:
        """Close connections that were idle for their time; the caller repeats this."""
        resources = self.resources
        resources.now = resources.clock()
        for pool in self._all():
            if pool.shared or pool.idle:  # most of 10,000 pools have neither, and requests wait
                pool.close_idle(resources.now - IDLE_TIMEOUT)
                pool.close_spare(resources.now - SPARE_TIMEOUT, resources.limits.kept_per_pod)

    def close(self) -> None:
        """Close all idle connections, and the pipes of splices."""
        for pool in self._all():
            pool.close_idle()
        self.resources.splices.close()

    def _all(self) -> Iterator[Pool]:
        return chain(self._pools.values(), self._of_probes.values(), self._secured.values())


def may_be_lost(request: Request) -> bool:
    """Return whether a request may use an idle connection without a check that it is open.

    It may if its method allows a retry, and no body or change of protocol can prevent it.
    """
    return request.method in IDEMPOTENT and not request.has_body and not request.upgrade


def _form_of(revision: Revision) -> tuple[AppProtocol, bool, bool]:
    """Return the properties of a revision on which connections to its pods depend."""
    return revision.protocol, revision.tls, revision.probe.tls

"""The connections to one pod, in both versions of HTTP.

In HTTP/1 one connection carries one request at a time. Connections without a request are idle, and
the pool uses the newest first. In HTTP/2 one connection carries many requests, and the pool uses
the first with room. All work per request is O(1).
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import final

from activator.process.sockets import SocketKind, find_dead
from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.exchange.retry import may_be_lost
from activator.proxy.message.fields import HTTP_1_1, HTTP_2, Version
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.request import Request
from activator.proxy.pods.capacity import Capacity
from activator.proxy.pods.dialing import Dial, SharedDial
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.http2 import OPEN, Http2Pod
from activator.proxy.pods.owning_pool import OwningPool
from activator.proxy.pods.resources import Resources
from activator.proxy.pods.stream import PodStream
from activator.proxy.pods.target import Target
from throttler.model import AppProtocol


@final
class Pool(OwningPool):
    """The connections to one pod, all of them plain or all of them over TLS.

    A request goes out in its client's version of HTTP, unless the pod speaks only the other one.

    Attributes:
        idle: connections in HTTP/1 without a request, the newest last.
        shared: connections in HTTP/2.
        reachable: whether the last attempt to open a connection succeeded.
        made_for: see ``pools``; None until the pool is in use.
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
    )

    def __init__(self, resources: Resources, target: Target) -> None:
        self.resources = resources
        self.target = target
        self.capacity = Capacity()
        self.may_have_idle = False
        self.known_as: Version | None = None
        self.speaks_http1 = False
        self.gone = False
        self.idle: list[Http1Pod] = []
        self.shared: list[Http2Pod] = []
        self._dial: SharedDial | None = None
        self._assumed = False  # ``known_as`` follows from a connection that closed early
        self.reachable = False
        self.made_for: tuple[AppProtocol, bool, bool] | None = None

    # -- for exchanges --------------------------------------------------------------------------

    def side_for(self, request: Request, *, fresh: bool) -> PodSide | None:
        """See PodPool."""
        known = self.known_as
        if request.version is HTTP_2 if known is None else self._goes_in_http2(request):
            for connection in self.shared:
                if connection.has_room():
                    return PodStream(connection.carrier)
            return None
        if fresh:
            return None
        # A request that must not be sent twice uses no connection that might be closed already.
        return self.take() if may_be_lost(request) else self.take_alive()

    def dial_for(self, requester: Requester, request: Request) -> None:
        """See PodPool."""
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

    def count_responses(self) -> int:
        """See PodPool."""
        return self.capacity.responses

    # -- connections in HTTP/1 ------------------------------------------------------------------

    def take(self) -> Http1Pod | None:
        """Return the idle connection that was used last; None without one."""
        idle = self.idle
        while idle:
            pod = idle.pop()
            self.resources.idle -= 1
            if not pod.transport.is_closing():
                return pod
        return None

    def take_alive(self) -> Http1Pod | None:
        """Return an idle connection that the kernel reports as open; None without one."""
        while (pod := self.take()) is not None:
            if pod.alive():
                return pod
            pod.cancel()
        return None

    def put(self, side: PodSide) -> None:
        """See OwningPool."""
        assert isinstance(side, Http1Pod)
        resources = self.resources
        if self.gone or resources.idle >= resources.limits.max_idle:
            side.transport.close()
            return
        side.reused = True
        side.idle_since = resources.now
        self.idle.append(side)
        resources.idle += 1
        if side.reads_slowly:
            side.expect_slow_reading(False)
        if not self.may_have_idle:
            resources.with_idle(self)
        if resources.files.waiting:
            resources.files.freed()

    def dial(self, requester: Requester, within: float = inf) -> None:
        """Open a connection in HTTP/1 for ``requester``.

        Arguments:
            within: seconds; infinite means the time-out of all connects.
        """
        self.resources.start(Dial(self, requester, within).run())

    def dialed(self) -> None:
        """See OwningPool."""
        self.reachable = True

    # -- connections in HTTP/2 ------------------------------------------------------------------

    def dial_shared(self, requester: Requester) -> None:
        """See OwningPool."""
        dial = self._dial
        if dial is None:
            dial = self._dial = SharedDial(self)
            self.resources.start(dial.run())
        dial.requesters.append(requester)

    def end_dial(self, connection: object | None) -> None:
        """See OwningPool."""
        self._dial = None
        if not isinstance(connection, Http2Pod):
            return
        self.reachable = True
        self._assume_nothing()
        # Not earlier: over TLS, the check of the pod's certificate has just ended.
        if not connection.link.transport.is_closing() and connection not in self.shared:
            self.shared.append(connection)
            if not self.may_have_idle:
                self.became_idle()

    def became_idle(self) -> None:
        """See OwningPool. A pool that is gone closes its idle connections."""
        if not self.gone:
            self.resources.with_idle(self)

    # -- both -----------------------------------------------------------------------------------

    def take_idle(self, *, http2: bool) -> object | None:
        """See OwningPool."""
        if not http2:
            return self.take_alive()
        for connection in self.shared:
            if connection.has_room():
                return connection
        return None

    def speaks(self, version: Version) -> None:
        """See OwningPool."""
        self.known_as = version
        self._assumed = False

    def _assume_nothing(self) -> None:
        if self._assumed:
            self.known_as = None
            self._assumed = False

    def closed_early(self) -> None:
        """See OwningPool. An HTTP/1 server may close silently on the preface of HTTP/2. So may any
        server that ends. The pool assumes the first until a connection shows otherwise."""
        if self.known_as is None and not any(each.state is OPEN for each in self.shared):
            self.known_as = HTTP_1_1
            self._assumed = True

    def failed(self, error: str, version: Version) -> str:
        """See OwningPool."""
        self.reachable = False
        if version is self.known_as:
            self._assume_nothing()
        return self.target.describe(error)

    def opened(self, transport: asyncio.BaseTransport) -> None:
        """See OwningPool."""
        self.resources.connections += 1
        find_dead(transport.get_extra_info("socket"), SocketKind.POD)

    def closed(self, connection: object) -> None:
        """See OwningPool."""
        if isinstance(connection, Http2Pod):
            if connection in self.shared:
                self.shared.remove(connection)
        elif isinstance(connection, Http1Pod) and connection in self.idle:
            self.idle.remove(connection)
            self.resources.idle -= 1
        self.resources.closed(connection)

    def close_oldest_idle(self) -> object | None:
        """See resources.IdlePool."""
        if self.idle:
            pod = self.idle.pop(0)
            self.resources.idle -= 1
            pod.cancel()  # an abort, because the end of TLS would wait for the pod
            return pod
        idle = [each for each in self.shared if each.is_idle_since(inf)]
        if not idle:
            return None
        oldest = min(idle, key=_idle_since)
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


def _idle_since(connection: Http2Pod) -> float:
    return connection.idle_since

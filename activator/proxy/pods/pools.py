"""The pools of all pods.

Probes use the connections that requests use, so that the one that proved a pod carries its first
request; but where requests go over TLS, see proxy.pods.probe_pool. Knative's counterpart: the
transport of V/knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from itertools import chain
from typing import Final, final

from activator.proxy.exchange.sides import PodPools
from activator.proxy.pods.pool import Pool
from activator.proxy.pods.resources import PoolLimits, Resources
from activator.proxy.pods.target import Target
from activator.proxy.transport.unread import UnreadBytes
from activator.tls.internal_encryption import PodTls
from throttler.pod import PodTracker

__all__ = ["IDLE_TIMEOUT", "ConnectionPools", "PoolLimits"]

#: Seconds that an idle connection is kept (Knative and Go: 90).
IDLE_TIMEOUT: Final = 90.0


@final
class ConnectionPools(PodPools):
    """The pools of all pods (activator.driver.Pools).

    Arguments:
        limits: bounds on idle connections.
        start: runs a coroutine and holds on to its task.
        clock: seconds, monotonic.
        unread: bytes that pods, and clients, do not read.

    Attributes:
        resources: what all pools share.
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
        self.resources = Resources(limits, start, clock, self.unread)
        self.files = self.resources.files
        self.tls: PodTls | None = None
        self._passthrough = False
        self._pools: dict[PodTracker, Pool] = {}
        self._plain: dict[PodTracker, Pool] = {}

    @property
    def idle(self) -> int:
        """How many connections are idle in all."""
        return self.resources.idle

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return self.resources.connections

    def of(self, pod: PodTracker) -> Pool:
        """Return the connections to a pod that requests use."""
        pool = self._pools.get(pod)
        if pool is None:
            pool = self._pools[pod] = self._new(pod, self.tls)
        return pool

    def plain(self, pod: PodTracker) -> Pool:
        """Return the plain connections to a pod, which probes use whatever requests do."""
        if self.tls is None:
            return self.of(pod)
        pool = self._plain.get(pod)
        if pool is None:
            pool = self._plain[pod] = self._new(pod, None)
        return pool

    def _new(self, pod: PodTracker, tls: PodTls | None) -> Pool:
        return Pool(self.resources, Target(pod, tls, passthrough=self._passthrough))

    def use_tls(self, tls: PodTls) -> None:
        """Have requests go over TLS; from then on for ever."""
        self.tls = tls
        for pool in self._pools.values():
            pool.drain_shared()
        self._plain, self._pools = self._pools, {}

    def distrust(self) -> None:
        """Close the connections over which a pod has proved itself by a root that may be trusted
        no more: idle ones now, busy ones when they are done."""
        for pod in list(self._pools):
            self._pools.pop(pod).drain()

    def set_passthrough(self, on: bool) -> None:
        """Record whether a mesh between us and the pods has to send each request to the pod whose
        address we used. Requests then name the revision's private Service, with a field that
        demands this; from the next request on."""
        self._passthrough = on
        for pool in self._all():
            pool.target.set_passthrough(on)

    def forget(self, pod: PodTracker) -> None:
        """Close what is idle of a pod that is no more; what is busy closes when it is done."""
        for pools in (self._pools, self._plain):
            pool = pools.pop(pod, None)
            if pool is not None:
                pool.drain()

    def close_expired(self) -> None:
        """Close connections that were idle for too long; to be called now and then."""
        resources = self.resources
        resources.now = resources.clock()
        for pool in self._all():
            pool.close_idle(resources.now - IDLE_TIMEOUT)

    def close(self) -> None:
        """Close everything that is idle."""
        for pool in self._all():
            pool.close_idle()

    def _all(self) -> Iterator[Pool]:
        return chain(self._pools.values(), self._plain.values())

"""The pools of connections to all pods.

Probes use the connections of requests. So the connection that passed a pod's probe carries its
first request. If requests go over TLS, see proxy.pods.probe_pool. Knative's counterpart: the
transport of knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from itertools import chain
from typing import Final, final

from activator.proxy.exchange.pod_pools import PodPools
from activator.proxy.message.fields import HTTP_1_1, HTTP_2
from activator.proxy.pods.pool import Pool
from activator.proxy.pods.resources import PoolLimits, Resources
from activator.proxy.pods.target import Target
from activator.proxy.transport.peer_socket import UnreadBytes
from activator.tls.internal_encryption import PodTls, UnverifiedTls
from throttler.model import AppProtocol, Revision
from throttler.pod import PodTracker

__all__ = ["IDLE_TIMEOUT", "ConnectionPools", "PoolLimits"]

#: Seconds until an idle connection closes (Knative and Go: 90).
IDLE_TIMEOUT: Final = 90.0
#: The same for a connection above ``PoolLimits.kept_per_pod``, at the first look after it.
SPARE_TIMEOUT: Final = 20.0
#: The TLS of all pods of plain Services.
UNVERIFIED: Final = UnverifiedTls()


@final
class ConnectionPools(PodPools):
    """The pools of all pods (activator.driver.Pools).

    Arguments:
        limits: the limits of idle connections.
        start: runs a coroutine, and keeps a reference to its task.
        clock: returns the time in seconds, monotonic.
        unread: the budget of bytes that pods and clients do not read.

    Attributes:
        resources: limits and budgets that all pools share.
        tls: the check of the certificates of pods with queue-proxy; None if requests go out plain.
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
        self._of_probes: dict[PodTracker, Pool] = {}

    @property
    def idle(self) -> int:
        """The number of idle connections."""
        return self.resources.idle

    @property
    def connections(self) -> int:
        """The number of connections."""
        return self.resources.connections

    def of(self, pod: PodTracker) -> Pool:
        """Return the connections to a pod for requests."""
        pool = self._pools.get(pod)
        if pool is None:
            pool = self._pools[pod] = self._new(pod, self._tls_of(pod.config.revision))
        return pool

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

    def _tls_of(self, revision: Revision) -> PodTls | UnverifiedTls | None:
        """Return the TLS of requests to a revision's pods; None for plain connections."""
        if revision.behind_queue_proxy:
            return self.tls
        return UNVERIFIED if revision.tls else None

    def _new(self, pod: PodTracker, tls: PodTls | UnverifiedTls | None) -> Pool:
        revision = pod.config.revision
        pool = Pool(self.resources, Target(pod, tls, passthrough=self._passthrough))
        pool.made_for = _form_of(revision)
        if not revision.behind_queue_proxy:
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
            pool = self._pools.get(pod)
            if pool is not None and pool.made_for != _form_of(pod.config.revision):
                self.forget(pod)

    def forget(self, pod: PodTracker) -> None:
        """Close the connections to a removed pod: idle ones now, others after their response."""
        for pools in (self._pools, self._of_probes):
            pool = pools.pop(pod, None)
            if pool is not None:
                pool.drain()

    def close_expired(self) -> None:
        """Close connections that were idle for their time; the caller repeats this."""
        resources = self.resources
        resources.now = resources.clock()
        for pool in self._all():
            pool.close_idle(resources.now - IDLE_TIMEOUT)
            pool.close_spare(resources.now - SPARE_TIMEOUT, resources.limits.kept_per_pod)

    def close(self) -> None:
        """Close all idle connections."""
        for pool in self._all():
            pool.close_idle()

    def _all(self) -> Iterator[Pool]:
        return chain(self._pools.values(), self._of_probes.values())


def _form_of(revision: Revision) -> tuple[AppProtocol, bool, bool]:
    """Return the properties of a revision on which connections to its pods depend."""
    return revision.protocol, revision.tls, revision.probe.tls

"""What a probe sees of a pod: its plain connections, behind a proof that requests reach it too.

Probes are plain HTTP whatever requests are. Where those go over TLS, a pod that answers probes may
be out of their reach all the same: its certificate is wrong, or nobody listens there. So a probe
first has a connection for requests opened, unless the last one that was opened did well. A pod
that cannot be spoken to is thus found by its probe, with the reason and as seldom as any other
that fails; and its first request finds an open connection, which spares it a handshake.
"""

from __future__ import annotations

from activator.proxy.pods.dial import Dialer
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.pools import ConnectionPools, Pool
from throttler.pod import PodTracker


class ProbePools:
    """Where probes get their connections (activator.probing.prober.Pools)."""

    def __init__(self, pools: ConnectionPools) -> None:
        self._pools = pools

    def of(self, pod: PodTracker) -> Pool | ProbePool:
        """Return the connections to a pod for a probe."""
        pools = self._pools
        if pools.tls is None:
            return pools.of(pod)
        return ProbePool(pools.plain(pod), pools.of(pod))


class ProbePool:
    """The connections of one probe (activator.probing.probe.Pool).

    Arguments:
        plain: for the probe.
        secure: for requests.
    """

    def __init__(self, plain: Pool, secure: Pool) -> None:
        self._plain = plain
        self._secure = secure

    @property
    def probe_lines(self) -> bytes:
        """See Pool."""
        return self._plain.probe_lines

    def take(self) -> Http1Pod | None:
        """Return an idle connection, where nothing else has to be found out."""
        return self._plain.take() if self._secure.reachable else None

    def dial(self, dialer: Dialer, within: float) -> None:
        """Open a connection for the probe, and before that one for requests if need be.

        Arguments:
            within: seconds for each step.
        """
        if self._secure.reachable:
            self._plain.dial(dialer, within)
        else:
            self._secure.dial(_Proof(self._plain, dialer, within), within)


class _Proof:
    """Waits for the connection for requests, then gets the probe its own."""

    def __init__(self, plain: Pool, dialer: Dialer, within: float) -> None:
        self._plain = plain
        self._dialer = dialer
        self._within = within

    @property
    def wants_connection(self) -> bool:
        """See Dialer."""
        return self._dialer.wants_connection

    def on_dialed(self, upstream: Http1Pod) -> None:
        """See Dialer."""
        upstream.give_back()
        connection = self._plain.take()
        if connection is None:
            self._plain.dial(self._dialer, self._within)
        else:
            self._dialer.on_dialed(connection)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Dialer."""
        self._dialer.on_dial_failed(error, cause)

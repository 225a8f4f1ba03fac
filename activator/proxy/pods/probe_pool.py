"""Connections for probes: the connections of requests, or plain ones if requests go over TLS.

Probes are always plain HTTP. Over TLS, requests may fail to reach a pod that passes probes: its
certificate is wrong, or its TLS port is closed. So a probe first opens a connection for requests,
unless the last attempt to open one succeeded. A pod that requests cannot reach then fails its probe
with that error. It gets probes as seldom as other failing pods. A good pod's first request finds an
open connection, without a handshake.
"""

from __future__ import annotations

from typing import Protocol, final

from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.response import Response
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.pool import Pool
from activator.proxy.pods.pools import ConnectionPools
from activator.proxy.pods.probe_stream import ProbeStream, StreamDialer
from throttler.pod import PodTracker


class Dialer(Protocol):
    """A probe that waits for a connection. The pool calls one of the two methods, once."""

    @property
    def wants_connection(self) -> bool:
        """Whether the probe still needs a connection."""

    def on_dialed(self, connection: ProbeConnection) -> None:
        """Handle an open connection; return it to its pool if the probe has ended."""

    def on_dial_failed(self, error: str, cause: str) -> None:
        """Handle the failure to open a connection.

        Arguments:
            error: the error, for people.
            cause: ``connect-failed``, ``connect-timeout``, or ``tls-failed``, which does not end by
                itself; ``bad-answer`` if the pod sent HTTP/2.
        """


class ProbeOwner(Protocol):
    """A probe that handles the response."""

    def on_response(
        self, response: Response, raw: bytes | None, payload: list[bytes], complete: bool
    ) -> None:
        """See sides.Requester."""

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See sides.Requester."""

    def on_lost(self, error: str, responded: bool) -> None:
        """See sides.Requester."""


class ProbePools:
    """The connections of probes to all pods (activator.probing.prober.Pools)."""

    def __init__(self, pools: ConnectionPools) -> None:
        self._pools = pools

    def of(self, pod: PodTracker) -> ProbePool:
        """Return the connections to a pod for one probe."""
        probes, requests = self._pools.for_probes(pod), self._pools.of(pod)
        return ProbePool(probes, None if probes is requests else requests)


@final
class ProbePool:
    """The connections of one probe (activator.probing.probe.Pool).

    Arguments:
        plain: the connections for the probe.
        secure: the connections for requests if these go over TLS; else None.
    """

    def __init__(self, plain: Pool, secure: Pool | None) -> None:
        self._plain = plain
        self._secure = secure

    @property
    def probe_lines(self) -> bytes:
        """See Target."""
        return self._plain.target.probe_lines

    def take(self) -> ProbeConnection | None:
        """Return an idle connection; None without one, or if requests first need a connection."""
        secure = self._secure
        if secure is not None and not secure.reachable:
            return None
        pod = self._plain.take()
        if pod is None:
            return None
        connection = ProbeConnection(self._plain)
        connection.hold(pod)
        return connection

    def open_stream(self, dialer: StreamDialer) -> None:
        """Take or open a stream in HTTP/2 for the probe."""
        ProbeStream(self._plain).open(self._plain, dialer)

    def dial(self, dialer: Dialer, within: float) -> None:
        """Open a connection for the probe, and one for requests before that if necessary.

        Arguments:
            within: seconds for each step.
        """
        ProbeConnection(self._plain).open(dialer, within, self._secure)


@final
class ProbeConnection(Requester):
    """A probe's connection to a pod, also while it opens (activator.probing.probe.Connection).

    Attributes:
        pod: the connection itself, once it is open.
        reused: whether it has carried a response before.
    """

    __slots__ = ("_dialer", "_owner", "_plain", "_proving", "_within", "pod", "reused")

    pod: Http1Pod

    def __init__(self, plain: Pool) -> None:
        self._plain = plain
        self._dialer: Dialer | None = None
        self._within = 0.0
        self._proving = False  # it opens a connection for requests
        self._owner: ProbeOwner | None = None
        self.reused = False

    # -- for the pool of a probe ----------------------------------------------------------------

    def hold(self, pod: Http1Pod) -> None:
        """Use an open connection."""
        self.pod = pod
        self.reused = pod.reused

    def open(self, dialer: Dialer, within: float, secure: Pool | None) -> None:
        """Open the connection.

        Arguments:
            within: seconds for each step.
            secure: the connections for requests, if one of them has to open first.
        """
        self._dialer = dialer
        self._within = within
        self._proving = secure is not None and not secure.reachable
        pool = secure if self._proving and secure is not None else self._plain
        pool.dial(self, within)

    # -- for the probe --------------------------------------------------------------------------

    def send(self, owner: ProbeOwner, data: bytes) -> None:
        """Send a request; ``owner`` handles the response."""
        self._owner = owner
        self.pod.send(self, data)

    def cancel(self) -> None:
        """End the request, and close the connection."""
        self._owner = None
        self.pod.cancel()

    def release(self) -> None:
        """Keep the connection for a request; nothing was sent on it."""
        self.pod.release()

    # -- callbacks of the connection ------------------------------------------------------------

    @property
    def wants_connection(self) -> bool:
        """See Requester."""
        return self._dialer is not None and self._dialer.wants_connection

    def pause_sending(self) -> None:
        """See Requester: a probe is smaller than any buffer."""

    def resume_sending(self) -> None:
        """See Requester."""

    def on_connected(self, side: PodSide) -> None:
        """See Requester."""
        if self._proving:
            self._proving = False
            side.release()
            idle = self._plain.take()
            if idle is None:
                self._plain.dial(self, self._within)
                return
            side = idle
        assert isinstance(side, Http1Pod)
        self.hold(side)
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_dialed(self)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Requester."""
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_dial_failed(error, cause)

    def on_interim(self, response: Response | ResponseFields) -> None:
        """See Requester: ignore a 1xx. After a 101 the probe gets no response."""

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
    ) -> None:
        """See Requester."""
        if self._owner is not None and isinstance(response, Response):
            self._owner.on_response(response, raw, payload, complete)

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See Requester."""
        if self._owner is not None:
            self._owner.on_payload(payload, complete, trailers)

    def on_lost(self, error: str, responded: bool) -> None:
        """See Requester."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.on_lost(error, responded)

    def on_reset(self, code: int, responded: bool) -> None:
        """See Requester: there are no resets in HTTP/1."""

    def on_refused(self, error: str) -> None:
        """See Requester: there are no refusals in HTTP/1."""

    def on_other_protocol(self, error: str) -> None:
        """See Requester: a probe is always in HTTP/1."""
        if self._owner is None:
            self.on_dial_failed(error, "bad-answer")
        else:
            self.on_lost(f"malformed response: {error}", True)

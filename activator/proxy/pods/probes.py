"""Connections for probes: the connections of requests, or other ones if one of both uses TLS.

Probes of queue-proxy are never encrypted. Over TLS, requests may fail to reach a pod that passes
probes: its certificate is wrong, or its TLS port is closed. So a probe first opens a connection for
requests, unless the last attempt to open one succeeded. A pod that requests cannot reach then fails
its probe with that error. It gets probes as seldom as other failing pods. A good pod's first
request finds an open connection, without a handshake. A pod of an object of the KEDA HTTP add-on
may serve requests with TLS and without. For it, only an attempt that timed out has this effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, final

from activator.process.sockets import check_accepts
from activator.proxy.exchange.sides import PodSide, Progress, Requester
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import name_of_code
from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.message.fields import HTTP_1_1
from activator.proxy.message.response import Response
from activator.proxy.pods.dial import LOCAL_SHORTAGE, connect_cause, connect_error
from activator.proxy.pods.http1 import Http1PodConnection
from activator.proxy.pods.http2 import PodStream
from activator.proxy.pods.pool import ConnectionPools, Pool
from throttler.pod import PodTracker

if TYPE_CHECKING:
    from activator.runtime import Probe

#: Most bytes of the response to a call that a probe reads: a pod is not trusted.
_MOST: Final = 1024


class ProbePools:
    """The connections of probes to all pods."""

    def __init__(self, pools: ConnectionPools) -> None:
        self._pools = pools

    def of(self, pod: PodTracker) -> ProbePool:
        """Return the connections to a pod for one probe."""
        probes, requests = self._pools.for_probes(pod), self._pools.of(pod)
        return ProbePool(probes, self._pools.timed_out(pod) if probes is requests else requests)


@final
class ProbePool:
    """The connections of one probe.

    Arguments:
        probes: the connections for the probe.
        requests: the connections for requests that must be possible first: other ones than for the
            probe, or the last attempt timed out. Else None.

    Attributes:
        probe_lines: the request fields that name the pod, each with its CRLF.
    """

    def __init__(self, probes: Pool, requests: Pool | None) -> None:
        self._probes = probes
        self._requests = requests
        self.probe_lines = probes.target.probe_lines

    def take(self) -> ProbeConnection | None:
        """Return an idle connection; None without one, or if requests first need a connection."""
        requests = self._requests
        if requests is not None and not requests.reachable:
            return None
        idle = self._probes.take()
        if idle is None:
            return None
        connection = ProbeConnection(self._probes)
        connection.hold(idle)
        return connection

    def dial(self, probe: Probe, within: float) -> None:
        """Open a connection for the probe, and one for requests before that if necessary.

        ``on_dialed``, ``on_accepted`` or ``on_dial_failed`` of the probe follows.

        Arguments:
            within: seconds for each step.
        """
        ProbeConnection(self._probes).open(probe, within, self._requests)

    def open_stream(self, probe: Probe) -> None:
        """Take or open a stream in HTTP/2; ``on_stream`` or ``on_dial_failed`` follows."""
        ProbeStream(self._probes).open(self._probes, probe)


class _ProbeRequester(Requester):
    """A probe's part of a connection: the probe waits for it, and later for the response.

    Attributes:
        reused: whether its connection has carried a response before.
    """

    __slots__ = ("_dialer", "_owner", "reused")

    to_head = False

    def __init__(self) -> None:
        self._dialer: Probe | None = None  # waits for the connection
        self._owner: Probe | None = None  # waits for the response
        self.reused = False

    @property
    def wants_connection(self) -> bool:
        return self._dialer is not None and self._dialer.wants_connection

    def on_dial_failed(self, error: str, cause: str) -> None:
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_dial_failed(error, cause)

    def on_lost(self, error: str, progress: Progress) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.on_lost(error, progress is not Progress.SILENT)

    def on_interim(self, response: Response | ResponseFields) -> None:
        """Ignore a 1xx. After a 101 the probe gets no response, so it times out."""

    def pause_sending(self) -> None:
        """Do nothing: a probe is smaller than any buffer."""

    def resume_sending(self) -> None:
        """Do nothing, as ``pause_sending``."""

    def touch(self) -> None:
        """Do nothing: a probe has one limit for all."""


@final
class ProbeConnection(_ProbeRequester):
    """A probe's connection in HTTP/1, also while it opens.

    Attributes:
        side: the connection itself, once it is open.
    """

    __slots__ = ("_probes", "_proving", "_within", "side")

    side: Http1PodConnection

    def __init__(self, probes: Pool) -> None:
        super().__init__()
        self._probes = probes
        self._within = 0.0
        self._proving = False  # it opens a connection for requests

    def hold(self, side: Http1PodConnection) -> None:
        """Use an open connection."""
        self.side = side
        self.reused = side.reused

    def open(self, probe: Probe, within: float, requests: Pool | None) -> None:
        """Open the connection.

        Arguments:
            within: seconds for each step.
            requests: the connections for requests, if one of them has to open first.
        """
        self._dialer = probe
        self._within = within
        self._proving = requests is not None and not requests.reachable
        pool = requests if self._proving and requests is not None else self._probes
        target, resources = pool.target, pool.resources
        bare = pool.has_enough() and target.proof is None and probe.connects
        if bare and resources.files.take_now(probe=True):
            limit = min(within, resources.limits.connect_timeout)
            check_accepts(target.host, target.port, limit, self._on_checked)
        else:
            pool.dial(self, within)

    def _on_checked(self, error: OSError | None) -> None:
        """Handle the end of a connection that the pool would have closed at once."""
        pool, dialer = self._probes, self._dialer
        pool.resources.files.release()
        if error is None:
            assert dialer is not None
            dialer.on_accepted()
        elif error.errno in LOCAL_SHORTAGE:
            pool.dial(self, self._within)
        else:
            self.on_dial_failed(pool.failed(connect_error(error), HTTP_1_1), connect_cause(error))

    def on_connected(self, side: PodSide) -> None:
        if self._proving:
            self._proving = False
            side.release()
            idle = self._probes.take()
            if idle is None:
                self._probes.dial(self, self._within)
                return
            side = idle
        assert isinstance(side, Http1PodConnection)
        self.hold(side)
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_dialed(self)

    def send(self, probe: Probe, data: bytes) -> None:
        """Send a whole request; the probe handles the response."""
        self._owner = probe
        self.side.send(self, data)

    def cancel(self) -> None:
        """End the request, and close the connection."""
        self._owner = None
        self.side.cancel()

    def release(self) -> None:
        """Keep the connection for a request; nothing was sent on it."""
        self.side.release()

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
    ) -> None:
        if self._owner is not None:
            self._owner.on_response(response.status, payload, complete)

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        if self._owner is not None:
            self._owner.on_payload(payload, complete)

    def on_reset(self, code: int, progress: Progress) -> None:
        """Do nothing: there are no resets in HTTP/1."""

    def on_refused(self, error: str) -> None:
        """Do nothing: there are no refusals in HTTP/1."""

    def on_other_protocol(self, error: str) -> None:
        """Fail the probe, which is always in HTTP/1."""
        if self._owner is None:
            self.on_dial_failed(error, "bad-answer")
        else:
            self.on_lost(f"malformed response: {error}", Progress.UNUSABLE)


@final
class ProbeStream(_ProbeRequester):
    """A stream in HTTP/2 for one small gRPC call, on a connection of requests."""

    __slots__ = ("_address", "_fields", "_payload", "_side", "_status")

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._address = pool.target.address.encode()
        self._side: PodStream | None = None
        self._status = 0
        self._fields: dict[bytes, bytes] = {}
        self._payload = b""

    def open(self, pool: Pool, probe: Probe) -> None:
        """Take a stream of an open connection, or open one."""
        self._dialer = probe
        connection = pool.with_room()
        if connection is None:
            pool.dial_shared(self)
        else:
            self.on_connected(PodStream(connection))

    def on_connected(self, side: PodSide) -> None:
        assert isinstance(side, PodStream)
        self._side = side
        self.reused = side.is_reused()
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_stream(self)

    def call(
        self, probe: Probe, path: bytes, message: bytes, fields: Mapping[bytes, bytes]
    ) -> None:
        """Send a gRPC request; ``on_reply`` of the probe handles the response.

        Arguments:
            path: the request target.
            message: the whole body.
            fields: further header fields, names in lower case.
        """
        self._owner = probe
        side = self._side
        assert side is not None
        head = {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": path,
            b":authority": self._address,
            b"content-type": b"application/grpc",
            b"te": b"trailers",
            **fields,
        }
        side.call(self, b"".join(line(name, value) for name, value in head.items()), message)

    def cancel(self) -> None:
        """End the call without a result."""
        self._owner = None
        side, self._side = self._side, None
        if side is not None:
            side.cancel()

    def release(self) -> None:
        """Leave the connection to requests; nothing was sent."""
        self._side = None

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
    ) -> None:
        assert isinstance(response, ResponseFields)
        self._status = response.status
        self._fields.update(response.fields)
        self.on_payload(payload, complete, b"")

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        self._payload += b"".join(payload)[: _MOST + 1]
        if trailers:
            self._fields.update(Decoder().decode(trailers))
        if not (complete or len(self._payload) > _MOST):
            return
        owner, self._owner = self._owner, None
        side, self._side = self._side, None
        if side is not None:
            side.detach()
        if owner is not None:
            owner.on_reply(self._status, self._fields, self._payload)

    def on_lost(self, error: str, progress: Progress) -> None:
        self._side = None
        super().on_lost(error, progress)

    def on_reset(self, code: int, progress: Progress) -> None:
        self.on_lost(f"the pod reset the stream: {name_of_code(code)}", Progress.UNUSABLE)

    def on_refused(self, error: str) -> None:
        if self._owner is None:
            self.on_dial_failed(error, "bad-answer")
        else:
            self.on_lost(error, Progress.UNUSABLE)

    def on_other_protocol(self, error: str) -> None:
        self.on_refused(error)

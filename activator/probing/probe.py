"""Probes one pod once, as the ``ProbeSpec`` of its revision describes.

A probe uses the connections of requests. So the connection that passed the probe carries the
first request. The throttler decides what the result means for the pod. Knative's counterpart: the
prober of pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import inf
from typing import Final, Protocol

from activator.knative.words import KUBELET_AGENT
from activator.probing import grpc_health
from throttler.model import ProbeKind, ProbeSpec
from throttler.pod import PodTracker

#: Most bytes of a response's body that a probe reads: a pod is not trusted.
MAX_BODY = 1024
#: The kinds of failure in which the pod responded, but not as a ready pod.
NOT_READY = ("bad-status", "bad-answer")
#: The kinds of probe that pass with a connection.
_CONNECTS: Final = (ProbeKind.TCP, ProbeKind.NONE)
#: Most bytes of a pod's text in an error.
_LONGEST_TEXT: Final = 100


class ResponseHead(Protocol):
    """The head of a pod's response."""

    status: int


class Connection(Protocol):
    """A connection to a pod.

    Attributes:
        reused: whether it has carried a response before.
    """

    reused: bool

    def send(self, owner: Probe, data: bytes) -> None:
        """Send a request. ``owner`` gets the response.

        Arguments:
            owner: its ``on_…`` methods are called.
            data: the whole request.
        """

    def cancel(self) -> None:
        """End the request, and close the connection."""

    def release(self) -> None:
        """Return the connection to its pool. The caller has sent nothing on it."""


class Call(Protocol):
    """A stream in HTTP/2 for one gRPC call.

    Attributes:
        reused: whether its connection has carried a response before.
    """

    @property
    def reused(self) -> bool:
        """See the class."""

    def call(
        self, owner: Probe, path: bytes, message: bytes, fields: Mapping[bytes, bytes]
    ) -> None:
        """Send a request. ``owner`` gets the response by ``on_reply``.

        Arguments:
            path: the request target; message: the whole body.
            fields: further header fields.
        """

    def cancel(self) -> None:
        """End the call without a result."""

    def release(self) -> None:
        """Leave the connection to requests. The caller has sent nothing."""


class Pool(Protocol):
    """The connections to one pod.

    Attributes:
        probe_lines: the request fields that name the pod, each with its CRLF.
    """

    @property
    def probe_lines(self) -> bytes:
        """See the class."""

    def take(self) -> Connection | None:
        """Return an idle connection, or None."""

    def dial(self, dialer: Probe, within: float) -> None:
        """Open a connection, then call ``on_dialed`` or ``on_dial_failed`` of ``dialer``.

        Arguments:
            within: seconds.
        """

    def open_stream(self, dialer: Probe) -> None:
        """Take or open a stream in HTTP/2, then call ``on_stream`` or ``on_dial_failed``."""


class Probe:
    """One probe. It calls ``done`` once, unless it is cancelled.

    Arguments:
        pod: the pod; its revision describes the probe.
        timeout: seconds for the connection, and again for the response on it.
        done: called with the probe, the kind of failure (empty if it passed), and a text.

    Attributes:
        responded: whether any byte of a response arrived, also in HTTP/2 or malformed.
        sent_at: when the request was last sent, seconds on the clock of the loop; -inf before.
    """

    __slots__ = (
        "_body",
        "_connection",
        "_done",
        "_pool",
        "_response",
        "_spec",
        "_timeout",
        "_timer",
        "epoch",
        "pod",
        "responded",
        "sent_at",
    )

    _pool: Pool
    #: See probe_pool.ProbeOwner: the request is a GET.
    to_head = False

    def __init__(
        self, pod: PodTracker, timeout: float, done: Callable[[Probe, str, str], None]
    ) -> None:
        self.pod = pod
        self.epoch = pod.epoch
        self.responded = False
        self.sent_at = -inf
        self._spec = pod.config.revision.probe
        self._timeout = timeout
        self._done: Callable[[Probe, str, str], None] | None = done
        self._connection: Connection | Call | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._response: ResponseHead | None = None
        self._body = b""

    @property
    def status(self) -> int | None:
        """The status of the response; None if there was none."""
        return self._response.status if self._response is not None else None

    def start(self, pool: Pool) -> None:
        """Send the probe."""
        self._pool = pool
        if self._spec.kind is ProbeKind.GRPC:
            self._open_stream()
            return
        # A TCP probe needs a new connection: an open one proves nothing.
        connection = None if self._spec.kind in _CONNECTS else pool.take()
        if connection is None:
            pool.dial(self, self._timeout)
        else:
            self._send(connection)

    def cancel(self) -> None:
        """End the probe without a result."""
        self._done = None
        self._stop_timer()
        if self._connection is not None:
            self._connection.cancel()

    # -- dialing (probe_pool.Dialer) -------------------------------------------------------------

    @property
    def wants_connection(self) -> bool:
        """Whether the probe has not ended."""
        return self._done is not None

    def on_dialed(self, connection: Connection) -> None:
        """Send the probe on a new connection. A TCP probe passes."""
        if self._done is None:
            connection.release()
        elif self._spec.kind in _CONNECTS:
            connection.release()
            self._finish("", "")
        else:
            self._send(connection)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """Fail: no connection could be opened. See probe_pool.Dialer."""
        self.responded = cause in NOT_READY
        self._finish(cause, error)

    def _open_stream(self) -> None:
        self._start_timer()
        self._pool.open_stream(self)

    def on_stream(self, stream: Call) -> None:
        """Send the probe on a stream."""
        if self._done is None:
            stream.release()
            return
        self._connection = stream
        self._start_timer()
        fields = {
            b"user-agent": KUBELET_AGENT + b"1",
            b"grpc-timeout": b"%dm" % max(self._timeout * 1000, 1),
        }
        message = grpc_health.check(self._spec.service)
        stream.call(self, grpc_health.PATH, message, fields)

    def _send(self, connection: Connection) -> None:
        self._connection = connection
        self._start_timer()
        connection.send(self, request_of(self._spec, self._pool.probe_lines))

    def _start_timer(self) -> None:
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self.sent_at = loop.time()
        self._timer = loop.call_later(self._timeout, self._on_timeout)

    def _on_timeout(self) -> None:
        if self._connection is None:  # no stream could be opened
            self._finish("connect-timeout", f"connect timed out after {self._timeout:.3g} s")
            return
        self._connection.cancel()
        self._finish("timeout", f"no response in {self._timeout:.3g} s")

    # -- the response (probe_pool.ProbeOwner) ---------------------------------------------------

    def on_interim(self, response: ResponseHead) -> None:
        """Ignore a 1xx. After a 101 no response follows, so the probe times out."""

    def on_response(
        self, response: ResponseHead, raw: bytes | None, payload: list[bytes], complete: bool
    ) -> None:
        """Handle the head, and the first part of the body."""
        self._response = response
        self.responded = True
        self.on_payload(payload, complete, b"")

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Read more of the body; judge the response at its end."""
        self._body += b"".join(payload)[: MAX_BODY + 1]
        if complete:
            self._judge()
        elif len(self._body) > MAX_BODY:
            assert self._connection is not None
            self._connection.cancel()
            self._judge()

    def _judge(self) -> None:
        assert self._response is not None
        status, expected = self._response.status, self._spec.body
        if not self._spec.accepts(status):
            self._finish("bad-status", f"status {status}")
        elif expected is None or self._body == expected:
            self._finish("", "")
        elif len(self._body) > MAX_BODY:
            self._finish("bad-answer", f"more than {MAX_BODY} bytes of body")
        else:
            self._finish("bad-answer", f"body {self._body[:20]!r} instead of {expected!r}")

    def on_reply(self, status: int, fields: Mapping[bytes, bytes], payload: bytes) -> None:
        """Judge the response of gRPC's health service; see probe_stream.CallOwner."""
        self.responded = True
        code = fields.get(b"grpc-status", b"")
        if status != HTTPStatus.OK:
            self._finish("bad-status", f"status {status}")
        elif code != b"0":
            text = b"grpc-status %b %b" % (code, fields.get(b"grpc-message", b""))
            self._finish("bad-answer", text[:_LONGEST_TEXT].decode("ascii", "replace").rstrip())
        elif problem := grpc_health.problem_of(payload):
            self._finish("bad-answer", problem)
        else:
            self._finish("", "")

    def on_lost(self, error: str, responded: bool) -> None:
        """Handle the end of the connection.

        A pod may close an idle connection at any time. So the probe is sent again on a new one.
        """
        connection, self._connection = self._connection, None
        assert connection is not None
        if connection.reused and not responded:
            self._stop_timer()
            if self._spec.kind is ProbeKind.GRPC:
                self._open_stream()
            else:
                self._pool.dial(self, self._timeout)
        else:
            self.responded = responded
            self._finish("connection-lost", error)

    def pause_sending(self) -> None:
        """Do nothing: a probe is smaller than any buffer."""

    def resume_sending(self) -> None:
        """See pause_sending."""

    def _finish(self, kind: str, text: str) -> None:
        self._stop_timer()
        self._connection = None
        done, self._done = self._done, None
        if done is not None:
            done(self, kind, text)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def request_of(spec: ProbeSpec, host: bytes) -> bytes:
    """Return the request of an HTTP probe.

    Arguments:
        host: the fields that name the pod, each with its CRLF; the probe's own host replaces them.
    """
    if spec.host:
        host = b"Host: %b\r\n" % spec.host
    return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (spec.path, host, spec.fields)

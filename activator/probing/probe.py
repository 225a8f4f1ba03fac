"""Probes one pod once, as the ``ProbeSpec`` of its revision describes.

A probe uses the connections of requests. So the connection that passed the probe carries the
first request. The throttler decides what the result means for the pod. Knative's counterpart: the
prober of pkg/activator/net/revision_backends.go.

The messages of gRPC's health service are encoded by hand: a call has one field in each direction.
Sources: grpc/health/v1/health.proto of grpc-proto; PROTOCOL-HTTP2 of gRPC (length-prefixed
messages); the wire format of protocol buffers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Final

from activator.knative.words import KUBELET_AGENT
from throttler.model import ProbeKind, ProbeSpec
from throttler.pod import PodTracker

if TYPE_CHECKING:
    from activator.runtime import ProbeConnection, ProbePool, ProbeStream

#: Most bytes of a response's body that a probe reads: a pod is not trusted.
MAX_BODY = 1024
#: The kinds of failure in which the pod responded, but not as a ready pod.
NOT_READY = ("bad-status", "bad-answer")
#: The kinds of probe that pass with a connection.
_CONNECTS: Final = (ProbeKind.TCP, ProbeKind.NONE)
#: Most bytes of a pod's text in an error.
_LONGEST_TEXT: Final = 100
#: The request target of the call.
HEALTH_PATH: Final = b"/grpc.health.v1.Health/Check"
_SERVING: Final = 1
_STATUSES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
#: Bytes in front of a message: whether it is compressed, and its length.
_PREFIX: Final = 5
#: The key of field 1, as a string in requests, and as a number in responses.
_STRING_KEY: Final = b"\x0a"
_NUMBER_KEY: Final = 0x08
#: Most bytes of a number.
_MOST_BYTES: Final = 10


class Probe:
    """One probe. It calls ``done`` once, unless it is cancelled.

    Arguments:
        pod: the pod; its revision describes the probe.
        pool: the connections to the pod.
        timeout: seconds for the connection, and again for the response on it.
        done: called with the probe, the kind of failure (empty if it passed), and a text.

    Attributes:
        responded: whether any byte of a response arrived, also in HTTP/2 or malformed.
        status: of the response; None if there was none.
        sent_at: when the request was last sent, seconds on the clock of the loop; -inf before.
    """

    __slots__ = (
        "_body",
        "_connection",
        "_done",
        "_pool",
        "_spec",
        "_timeout",
        "_timer",
        "epoch",
        "pod",
        "responded",
        "sent_at",
        "status",
    )

    def __init__(
        self,
        pod: PodTracker,
        pool: ProbePool,
        timeout: float,
        done: Callable[[Probe, str, str], None],
    ) -> None:
        self.pod = pod
        self._pool = pool
        self.epoch = pod.epoch
        self.responded = False
        self.sent_at = -inf
        self._spec = pod.config.revision.probe
        self._timeout = timeout
        self._done: Callable[[Probe, str, str], None] | None = done
        self._connection: ProbeConnection | ProbeStream | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.status: int | None = None
        self._body = b""

    def start(self) -> None:
        """Send the probe."""
        if self._spec.kind is ProbeKind.GRPC:
            self._open_stream()
            return
        # A TCP probe needs a new connection: an open one proves nothing.
        connection = None if self.connects else self._pool.take()
        if connection is None:
            self._pool.dial(self, self._timeout)
        else:
            self._send(connection)

    def cancel(self) -> None:
        """End the probe without a result."""
        self._done = None
        self._stop_timer()
        if self._connection is not None:
            self._connection.cancel()

    # -- the connection, called by proxy.pods.probes ----------------------------------------------

    @property
    def wants_connection(self) -> bool:
        """Whether the probe has not ended."""
        return self._done is not None

    @property
    def connects(self) -> bool:
        """Whether the probe passes with a connection."""
        return self._spec.kind in _CONNECTS

    def on_accepted(self) -> None:
        """Pass: the pod has accepted a connection, which is closed again."""
        self._finish("", "")

    def on_dialed(self, connection: ProbeConnection) -> None:
        """Send the probe on a new connection. A TCP probe passes."""
        if self._done is None:
            connection.release()
        elif self.connects:
            connection.release()
            self.on_accepted()
        else:
            self._send(connection)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """Fail: no connection could be opened.

        Arguments:
            error: the error, for people.
            cause: ``connect-failed``, ``connect-timeout``, or ``tls-failed``, which does not end by
                itself; ``bad-answer`` if the pod speaks another version of HTTP.
        """
        self.responded = cause in NOT_READY
        self._finish(cause, error)

    def _open_stream(self) -> None:
        self._start_timer()
        self._pool.open_stream(self)

    def on_stream(self, stream: ProbeStream) -> None:
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
        message = check(self._spec.service)
        stream.call(self, HEALTH_PATH, message, fields)

    def _send(self, connection: ProbeConnection) -> None:
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

    # -- the response, called by proxy.pods.probes ------------------------------------------------

    def on_response(self, status: int, payload: list[bytes], complete: bool) -> None:
        """Handle the head, and the first part of the body."""
        self.status = status
        self.responded = True
        self.on_payload(payload, complete)

    def on_payload(self, payload: list[bytes], complete: bool) -> None:
        """Read more of the body; judge the response at its end."""
        self._body += b"".join(payload)[: MAX_BODY + 1]
        if complete:
            self._judge()
        elif len(self._body) > MAX_BODY:
            assert self._connection is not None
            self._connection.cancel()
            self._judge()

    def _judge(self) -> None:
        status, expected = self.status, self._spec.body
        assert status is not None
        if not self._spec.accepts(status):
            self._finish("bad-status", f"status {status}")
        elif expected is None or self._body == expected:
            self._finish("", "")
        elif len(self._body) > MAX_BODY:
            self._finish("bad-answer", f"more than {MAX_BODY} bytes of body")
        else:
            self._finish("bad-answer", f"body {self._body[:20]!r} instead of {expected!r}")

    def on_reply(self, status: int, fields: Mapping[bytes, bytes], payload: bytes) -> None:
        """Judge the response of gRPC's health service.

        Arguments:
            status: of HTTP.
            fields: its header fields and trailers.
            payload: its body, or the beginning of a body that is too long.
        """
        self.responded = True
        code = fields.get(b"grpc-status", b"")
        if status != HTTPStatus.OK:
            self._finish("bad-status", f"status {status}")
        elif code != b"0":
            text = b"grpc-status %b %b" % (code, fields.get(b"grpc-message", b""))
            self._finish("bad-answer", text[:_LONGEST_TEXT].decode("ascii", "replace").rstrip())
        elif problem := problem_of(payload):
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


def check(service: bytes) -> bytes:
    """Return the message of a call.

    Arguments:
        service: the name of a service; empty for the whole server.
    """
    message = _STRING_KEY + _number(len(service)) + service if service else b""
    return b"\0" + len(message).to_bytes(4, "big") + message


def problem_of(payload: bytes) -> str:
    """Return why a response does not mean SERVING; empty if it does.

    Arguments:
        payload: the whole body of the response.
    """
    message = payload[_PREFIX:]
    if len(payload) < _PREFIX or payload[0] or len(message) != int.from_bytes(payload[1:5], "big"):
        return "no health response of gRPC"
    try:
        status = _status(message)
    except (IndexError, ValueError):
        return "no health response of gRPC"
    return "" if status == _SERVING else f"status {_STATUSES.get(status, status)}"


def _number(value: int) -> bytes:
    """Return a number as protocol buffers encode it: seven bits in each byte, the last first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _status(message: bytes) -> int:
    """Return field 1 of a message; 0 without it. The last one counts.

    Raises:
        IndexError: the message is cut.
        ValueError: it has a number that is too long, or an unknown kind of field.
    """
    status = at = 0
    while at < len(message):
        key, at = _read(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _read(message, at)
            if key == _NUMBER_KEY:
                status = value
        elif kind == 2:
            size, at = _read(message, at)
            at += size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("unknown kind of field")
        if at > len(message):
            raise IndexError("cut")
    return status


def _read(message: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    value = 0
    for count in range(_MOST_BYTES):
        byte = message[at + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    raise ValueError("a number is too long")

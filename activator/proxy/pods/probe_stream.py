"""A probe of a pod in HTTP/2: one small gRPC call on a connection of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, final

from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import name_of_code
from activator.proxy.http2.hpack import Decoder, line
from activator.proxy.message.response import Response
from activator.proxy.pods.http2 import Http2Pod
from activator.proxy.pods.pool import Pool
from activator.proxy.pods.stream import PodStream

#: Most bytes of a response that a probe reads: a pod is not trusted.
_MOST: Final = 1024


class StreamDialer(Protocol):
    """A probe that waits for a stream. One of the two methods is called, once."""

    @property
    def wants_connection(self) -> bool:
        """Whether the probe still needs a stream."""

    def on_stream(self, stream: ProbeStream) -> None:
        """Use a stream; release it if the probe has ended."""

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See probe_pool.Dialer."""


class CallOwner(Protocol):
    """A probe that handles the response of a call."""

    def on_reply(self, status: int, fields: Mapping[bytes, bytes], payload: bytes) -> None:
        """Handle a whole response.

        Arguments:
            status: of HTTP.
            fields: its header fields and trailers.
            payload: its body, or the beginning of a body that is too long.
        """

    def on_lost(self, error: str, responded: bool) -> None:
        """See sides.Requester."""


@final
class ProbeStream(Requester):
    """A stream for one call.

    Attributes:
        reused: whether its connection has carried a response before.
    """

    __slots__ = (
        "_address",
        "_dialer",
        "_fields",
        "_owner",
        "_payload",
        "_side",
        "_status",
        "reused",
    )

    to_head = False

    def __init__(self, pool: Pool) -> None:
        self._address = pool.target.address.encode()
        self._dialer: StreamDialer | None = None
        self._owner: CallOwner | None = None
        self._side: PodStream | None = None
        self._status = 0
        self._fields: dict[bytes, bytes] = {}
        self._payload = b""
        self.reused = False

    # -- for the probe --------------------------------------------------------------------------

    def open(self, pool: Pool, dialer: StreamDialer) -> None:
        """Take a stream of an open connection, or open one."""
        self._dialer = dialer
        connection = pool.take_idle(http2=True)
        if isinstance(connection, Http2Pod):
            self.on_connected(PodStream(connection.carrier))
        else:
            pool.dial_shared(self)

    def call(
        self, owner: CallOwner, path: bytes, message: bytes, fields: Mapping[bytes, bytes]
    ) -> None:
        """Send a gRPC request; ``owner`` handles the response.

        Arguments:
            message: the whole body.
            fields: further header fields, names in lower case.
        """
        self._owner = owner
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

    # -- callbacks of the connection ------------------------------------------------------------

    @property
    def wants_connection(self) -> bool:
        """See Requester."""
        return self._dialer is not None and self._dialer.wants_connection

    def on_connected(self, side: PodSide) -> None:
        """See Requester."""
        assert isinstance(side, PodStream)
        self._side = side
        self.reused = side.is_reused()
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_stream(self)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Requester."""
        dialer, self._dialer = self._dialer, None
        if dialer is not None:
            dialer.on_dial_failed(error, cause)

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
    ) -> None:
        """See Requester."""
        assert isinstance(response, ResponseFields)
        self._status = response.status
        self._fields.update(response.fields)
        self.on_payload(payload, complete, b"")

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See Requester."""
        self._payload += b"".join(payload)[: _MOST + 1]
        if trailers:
            self._fields.update(Decoder().decode(trailers))
        if not (complete or len(self._payload) > _MOST):
            return
        owner, self._owner = self._owner, None
        side, self._side = self._side, None
        if side is not None:
            side.detach(True)
        if owner is not None:
            owner.on_reply(self._status, self._fields, self._payload)

    def on_lost(self, error: str, began: bool) -> None:
        """See Requester."""
        owner, self._owner = self._owner, None
        self._side = None
        if owner is not None:
            owner.on_lost(error, began)

    def on_reset(self, code: int, began: bool) -> None:
        """See Requester."""
        self.on_lost(f"the pod reset the stream: {name_of_code(code)}", True)

    def on_refused(self, error: str) -> None:
        """See Requester."""
        if self._owner is None:
            self.on_dial_failed(error, "bad-answer")
        else:
            self.on_lost(error, True)

    def on_other_protocol(self, error: str) -> None:
        """See Requester."""
        self.on_refused(error)

    def on_interim(self, response: Response | ResponseFields) -> None:
        """See Requester: ignore a 1xx."""

    def pause_sending(self) -> None:
        """See Requester: a call is smaller than any buffer."""

    def resume_sending(self) -> None:
        """See Requester."""

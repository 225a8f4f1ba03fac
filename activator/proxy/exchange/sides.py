"""Declares the states of an exchange, its two sides, and the requester that a pod's side calls.

A side is an HTTP/1 connection or an HTTP/2 stream. Payload is a list of pieces. Trailers are lines
in HTTP/1 and a header block in HTTP/2; ``exchange.translation`` converts them.

An exchange assigns its state directly. A warm request has three changes, and a check against the
table would take three calls for each. Instead, the tests of the byte path check each change of each
exchange (tests/activator/proxy/conftest.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response

if TYPE_CHECKING:
    import asyncio

    from activator.proxy.client.connection import ClientConnection
    from activator.proxy.exchange.exchange import RequestBody
    from activator.proxy.exchange.tunnel import SwitchingSide
    from activator.runtime import RequestTrace


class ExchangeState(Enum):
    """The state of an exchange.

    NEW: the request has no ticket yet.
    AUTHORIZING: it waits for the decision of the authorization server, before it has a place.
    WAITING: it waits for a pod, or for the client's kernel to show that the client is there.
    CONNECTING: it is assigned to a pod, and waits for a connection.
    SENT: a pod has the request.
    RESPONDING: the client has a part of the final response.
    TUNNEL: bytes of another protocol pass both ways.
    DONE: the exchange has ended.
    """

    NEW = "new"
    AUTHORIZING = "authorizing"
    WAITING = "waiting"
    CONNECTING = "connecting"
    SENT = "sent"
    RESPONDING = "responding"
    TUNNEL = "tunnel"
    DONE = "done"


#: Module names for the members, for speed: see fields.HTTP_1_1.
NEW: Final = ExchangeState.NEW
AUTHORIZING: Final = ExchangeState.AUTHORIZING
WAITING: Final = ExchangeState.WAITING
CONNECTING: Final = ExchangeState.CONNECTING
SENT: Final = ExchangeState.SENT
RESPONDING: Final = ExchangeState.RESPONDING
TUNNEL: Final = ExchangeState.TUNNEL
DONE: Final = ExchangeState.DONE

#: Which state may follow which. A retry leads back; once a response has begun, no step does.
FOLLOWS: Final[dict[ExchangeState, frozenset[ExchangeState]]] = {
    NEW: frozenset((AUTHORIZING, WAITING, CONNECTING, SENT, DONE)),
    AUTHORIZING: frozenset((WAITING, CONNECTING, SENT, DONE)),
    WAITING: frozenset((WAITING, CONNECTING, SENT, DONE)),
    CONNECTING: frozenset((CONNECTING, WAITING, SENT, DONE)),
    SENT: frozenset((SENT, CONNECTING, WAITING, RESPONDING, TUNNEL, DONE)),
    RESPONDING: frozenset((DONE,)),
    TUNNEL: frozenset((DONE,)),
    DONE: frozenset(),
}

#: States in which the client has a part of the pod's final response.
RESPONSE_BEGUN: Final = frozenset((RESPONDING, TUNNEL))


class ClientSide(ABC):
    """The client's side: the sender of the request.

    Attributes:
        base: the client's connection.
    """

    __slots__ = ("base",)

    base: ClientConnection

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether bytes wait because the client does not read."""

    def is_there(self, now: float) -> bool:
        """Return whether the client of a queued request is known to be there.

        If not, the client's side aborts the connection, or calls ``Exchange.resume`` later. In
        HTTP/2 reading goes on, so the loop reports when a client leaves.

        Arguments:
            now: seconds.
        """
        return True

    def is_gone(self) -> bool:
        """Return whether the client has left; the loop may not have reported it yet in HTTP/1."""
        return False

    @abstractmethod
    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """Send the beginning of the pod's response.

        Arguments:
            response: the head, in the client's version.
            raw: head and payload as received, if nothing else has arrived; else None.
            payload: the payload that arrived with the head.
            ended: whether the response ends here.
            trailers: the trailers, if ``ended``.
        """

    @abstractmethod
    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """Send more of the response's body.

        Arguments:
            payload: pieces; may be empty.
            ended: whether the response ends here.
            trailers: the trailers, if ``ended``.
        """

    @abstractmethod
    def interim(self, response: Response | ResponseFields) -> None:
        """Pass on an interim response (RFC 9110 section 15.2)."""

    @abstractmethod
    def send_continue(self) -> None:
        """Send 100 Continue, so that the client sends its body."""

    @abstractmethod
    def send_own_response(self, response: OwnResponse) -> None:
        """Send the activator's own response, and end the request."""

    @abstractmethod
    def body_of(self, response: OwnResponse) -> bytes:
        """Return the part of an own response's body that the client gets."""

    def switching(self) -> SwitchingSide | None:
        """Return the connection for a change of protocol; None if none is possible."""
        return None

    def sink(self) -> asyncio.Transport | None:
        """Return where the response's body goes as it is; None if it needs framing, or TLS."""
        return None

    @abstractmethod
    def finished(self, now: float) -> None:
        """End the request: its response is written completely.

        Arguments:
            now: seconds.
        """

    @abstractmethod
    def break_off(self, outcome: str, code: int) -> None:
        """Abort a response that cannot be completed, so that its client detects this.

        Arguments:
            outcome: one of ``counters.OUTCOMES``.
            code: the HTTP/2 error code with which the pod ended its stream; 0 otherwise.
        """

    @abstractmethod
    def accepted(self, size: int) -> None:
        """Let the client send more, because the pod's transport has accepted a part of the body.

        Arguments:
            size: how many bytes it accepted.
        """

    @abstractmethod
    def regulate(self) -> None:
        """Pause or resume reading, by whether the exchange can use more of the request's body."""


class PodSide(ABC):
    """The pod's side: the receiver of the request. It releases itself after a complete response.

    Attributes:
        accepted: called with a number of bytes of the response that the client's transport has
            accepted, so that the pod may send more; set by ``send_request``.
    """

    __slots__ = ("accepted",)

    accepted: Callable[[int], None]

    @abstractmethod
    def is_reused(self) -> bool:
        """Return whether its connection has served another request before."""

    def is_understood(self) -> bool:
        """Return whether the pod is known to speak the version in which it gets the request.

        In HTTP/2 the activator holds the body whatever this returns.
        """
        return True

    @abstractmethod
    def send_request(
        self,
        requester: Requester,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: RequestTrace | None,
    ) -> bool:
        """Send the request's head and the buffered part of its body.

        Arguments:
            requester: gets the response, and all errors.
            client: the client's side of the exchange.
            request: the request.
            body: its body; what is buffered is sent now.
            trace: its spans; None if it is not traced.

        Returns:
            Whether the request is sent in HTTP/2.

        Raises:
            FramingError: the request exceeds a limit of the pod; nothing was sent.
        """

    @abstractmethod
    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """Send more of the request's body.

        Arguments:
            payload: pieces; may be empty.
            ended: whether the request ends here.
            trailers: the trailers, if ``ended``, in the pod's version.
        """

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether bytes wait because the pod does not read."""

    @abstractmethod
    def pause(self, on: bool) -> None:
        """Pause reading from the pod if ``on``, because the client does not read; else resume."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the request at the pod, because its response is not needed any more."""

    def switching(self) -> SwitchingSide | None:
        """Return the connection for a change of protocol; None if none is possible."""
        return None

    def sink(self) -> asyncio.Transport | None:
        """Return where the request's body goes as it is; None if it needs framing, or TLS."""
        return None

    @abstractmethod
    def release(self) -> None:
        """Release a connection or stream on which nothing was sent."""


class Progress(Enum):
    """How far a response had come when its request failed.

    SILENT: no byte of it had arrived, so the rules of ``retry`` may send the request again.
    BEGAN: a part of it had arrived.
    UNUSABLE: the pod does not read the request, or its response is malformed. The request is not
    sent again: another pod would fail in the same way.
    """

    SILENT = "silent"
    BEGAN = "began"
    UNUSABLE = "unusable"


class Requester(ABC):
    """The sender of a request to a pod: an exchange. The pod's side calls these methods.

    Attributes:
        to_head: the request is a HEAD, so that its response has no body. On the admission port that
            is the proxy's request, and not the one that it describes.
    """

    __slots__ = ()

    to_head: bool

    @property
    @abstractmethod
    def wants_connection(self) -> bool:
        """Whether the requester still needs a connection."""

    @abstractmethod
    def pause_sending(self) -> None:
        """Stop sending the body, because the pod reads slower than the client sends."""

    @abstractmethod
    def resume_sending(self) -> None:
        """Continue sending the body."""

    @abstractmethod
    def on_connected(self, side: PodSide) -> None:
        """Use a connection that was opened, or a stream on one."""

    @abstractmethod
    def on_dial_failed(self, error: str, cause: str) -> None:
        """Handle a failed attempt to connect. The pod has nothing of the request.

        Arguments:
            error: where and why it failed, for people.
            cause: one of ``counters.CAUSES``.
        """

    @abstractmethod
    def on_interim(self, response: Response | ResponseFields) -> None:
        """Handle an interim response; a 101 is the last one."""

    @abstractmethod
    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
    ) -> None:
        """Handle the head of the final response, and the payload that arrived with it.

        Arguments:
            response: the head.
            raw: head and payload as received, if nothing else has arrived; else None.
            payload: pieces.
            complete: whether the response ends here. Then its connection is in the pool again, or
                closed.
        """

    @abstractmethod
    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """Handle more of the response's body.

        Arguments:
            payload: pieces.
            complete: whether the response ends here.
            trailers: the trailers, if ``complete``, in the pod's version.
        """

    def response_sink(self) -> asyncio.Transport | None:
        """Return where the rest of the response's body goes as it is; None if nowhere."""
        return None

    @abstractmethod
    def touch(self) -> None:
        """Record that bytes of the response's body pass, so that the pod does not seem silent."""

    @abstractmethod
    def on_lost(self, error: str, progress: Progress) -> None:
        """Handle a lost connection or a malformed response, before the response is complete.

        Arguments:
            error: the cause, for people.
            progress: how far the response had come.
        """

    @abstractmethod
    def on_reset(self, code: int, progress: Progress) -> None:
        """Handle a stream reset by the pod.

        Arguments:
            code: the HTTP/2 error code.
            progress: how far the final response had come.
        """

    @abstractmethod
    def on_refused(self, error: str) -> None:
        """Handle a request that the pod did not process: its GOAWAY says so."""

    @abstractmethod
    def on_other_protocol(self, error: str) -> None:
        """Handle a pod that does not speak the version of HTTP in which it got the request.

        It has not understood a byte of the request, so it can get it in the other version.
        """

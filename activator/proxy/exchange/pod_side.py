"""Declares the pod's side of an exchange, and the requester that it calls, as abstract classes.

The pod's side is an HTTP/1 connection or an HTTP/2 stream. ``client_side`` explains the form of
payload and trailers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response

if TYPE_CHECKING:
    from activator.proxy.exchange.client_side import ClientSide
    from activator.proxy.exchange.exchange import RequestBody
    from activator.proxy.exchange.observers import Trace
    from activator.proxy.exchange.tunnel import SwitchingSide


class PodSide(ABC):
    """The pod's side: the receiver of the request. It releases itself after a complete response."""

    __slots__ = ()

    @abstractmethod
    def is_reused(self) -> bool:
        """Return whether its connection has served another request before."""

    @abstractmethod
    def is_understood(self) -> bool:
        """Return whether the pod is known to speak the version in which it gets the request."""

    @abstractmethod
    def send_request(
        self,
        requester: Requester,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: Trace | None,
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
    def took(self, size: int) -> None:
        """Let the pod send more, because the client's transport has accepted a part of the body.

        Arguments:
            size: how many bytes it accepted.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the request at the pod, because its response is not needed any more."""

    @abstractmethod
    def switching(self) -> SwitchingSide | None:
        """Return the connection for a change of protocol; None in HTTP/2."""

    @abstractmethod
    def release(self) -> None:
        """Release a connection or stream on which nothing was sent."""


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

    @abstractmethod
    def on_lost(self, error: str, began: bool) -> None:
        """Handle a lost connection or a malformed response, before the response is complete.

        Arguments:
            error: the cause, for people.
            began: whether any byte of a response had arrived.
        """

    @abstractmethod
    def on_reset(self, code: int, began: bool) -> None:
        """Handle a stream reset by the pod.

        Arguments:
            code: the HTTP/2 error code.
            began: whether the final response had begun.
        """

    @abstractmethod
    def on_refused(self, error: str) -> None:
        """Handle a request that the pod did not process (REFUSED_STREAM or GOAWAY)."""

    @abstractmethod
    def on_other_protocol(self, error: str) -> None:
        """Handle a pod that does not speak the version of HTTP in which it got the request.

        It has not understood a byte of the request, so it can get it in the other version.
        """

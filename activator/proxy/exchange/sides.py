"""Declares the two sides of an exchange, the client's and the pod's, as abstract classes.

Each side is an HTTP/1 connection or an HTTP/2 stream. The classes have no attributes of their own,
so that the compiled build calls their methods by number. Payload is a list of pieces in both
directions. Trailers are lines in HTTP/1 and a header block in HTTP/2; ``exchange.translation``
converts them.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final, Protocol, final

from activator.proxy.exchange.observers import Trace
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.unread import Peer, UnreadBytes
from throttler.pod import PodTracker


@final
class Port:
    """A port on which the activator accepts clients; all its connections share this record.

    Attributes:
        service: ``namespace/name`` of the plain Service to which the port belongs; empty if it is
            for all revisions.
        reconnect: whether new connections would reach the pods of that Service directly. Then each
            response is the last on its connection; in HTTP/2, GOAWAY follows it.
        insists: whether HTTP/2 connections that are never idle get GOAWAY too.
    """

    __slots__ = ("insists", "reconnect", "service")

    def __init__(self, service: bytes = b"") -> None:
        self.service: Final = service
        self.reconnect = self.insists = False


#: The ports for all revisions.
SHARED: Final = Port()


class ClientSide(ABC):
    """The client's side: the sender of the request."""

    __slots__ = ()

    @abstractmethod
    def port(self) -> Port:
        """Return the port that the client has connected to."""

    @abstractmethod
    def address(self) -> bytes:
        """Return the client's IP address."""

    @abstractmethod
    def peer(self) -> str:
        """Return the client's ``ip:port``; the port is 0 for a client without one."""

    @abstractmethod
    def is_secure(self) -> bool:
        """Return whether the client's connection is encrypted."""

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether bytes wait because the client does not read."""

    @abstractmethod
    def may_send(self, now: float) -> bool:
        """Return whether the client of a queued request is known to be there.

        If not, the client's side aborts the connection, or calls ``Exchange.resume`` later.

        Arguments:
            now: seconds.
        """

    @abstractmethod
    def is_gone(self) -> bool:
        """Return whether the client has left; the loop may not have reported it yet."""

    @abstractmethod
    def drop(self) -> None:
        """Abort the connection of a client that has left."""

    @abstractmethod
    def set_idle_since(self, now: float) -> None:
        """Record when the last request ended, if ``finished`` is not called for it."""

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

    @abstractmethod
    def switching(self) -> SwitchingSide | None:
        """Return the connection for a change of protocol; None in HTTP/2."""

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
    def took(self, size: int) -> None:
        """Let the client send more, because the pod's transport has accepted a part of the body.

        Arguments:
            size: how many bytes it accepted.
        """

    @abstractmethod
    def regulate(self) -> None:
        """Pause or resume reading, by whether the exchange can use more of the request's body."""

    @abstractmethod
    def arm(self, when: float) -> None:
        """Call ``Exchange.on_time`` at ``when`` or earlier, seconds."""


class PodSide(ABC):
    """The pod's side: the receiver of the request."""

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
    def detach(self, complete: bool) -> None:
        """Release the pod after a complete response, or one that is not needed.

        Arguments:
            complete: whether the whole request has reached the pod.
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
        to_head: the request is a HEAD, so that its response has no body.
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


class PodPool(ABC):
    """The connections to one pod."""

    @abstractmethod
    def side_for(self, request: Request, *, fresh: bool) -> PodSide | None:
        """Return an idle connection or a stream for a request; None without one.

        Arguments:
            request: the request.
            fresh: whether no idle HTTP/1 connection may be used.
        """

    @abstractmethod
    def dial_for(self, requester: Requester, request: Request) -> None:
        """Open a connection for a request. ``on_connected`` or ``on_dial_failed`` follows."""

    @abstractmethod
    def count_responses(self) -> int:
        """Return how many HTTP/2 responses the pod has sent."""


class PodPools(ABC):
    """The connections to all pods.

    Attributes:
        files: the budget of open files.
        unread: the count of bytes that peers do not read.
    """

    files: FileBudget
    unread: UnreadBytes

    @abstractmethod
    def of(self, pod: PodTracker) -> PodPool:
        """Return the connections to a pod that requests use."""


class SwitchingSide(Protocol):
    """An HTTP/1 connection whose protocol changes: of a client, or to a pod."""

    def switch(self, response: Response, added_lines: bytes) -> None:
        """Pass on the pod's 101."""

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """Hand the connection over to the tunnel.

        Returns:
            The transport, and the bytes that arrived behind the head.
        """

    def is_stopped(self) -> bool:
        """Return whether bytes wait because the peer does not read."""

    def unread_bytes(self) -> UnreadBytes:
        """Return the count of bytes that peers do not read."""

    def who(self) -> tuple[Peer, str]:
        """Return the side and the address of the peer."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection; see asyncio.Protocol."""

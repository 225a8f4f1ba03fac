"""What an exchange asks of its two sides: of the client's, and of the pod's.

Each side is a connection in HTTP/1 or a stream in HTTP/2. These classes hold no state of their own,
so that a compiled exchange finds their methods by number. Payload is a list of pieces in both
directions; trailers are lines in HTTP/1 and a header block in HTTP/2 (``exchange.translation``
translates).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from activator.proxy.exchange.observers import Trace
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.unread import Peer, UnreadBytes
from throttler.pod import PodTracker


class ClientSide(ABC):
    """Who sent the request."""

    __slots__ = ()

    @abstractmethod
    def address(self) -> bytes:
        """Return the client's IP address."""

    @abstractmethod
    def peer(self) -> str:
        """Return the client's ``ip:port``; the port is 0 where there is none."""

    @abstractmethod
    def is_secure(self) -> bool:
        """Return whether the client's connection is encrypted."""

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether the client does not read what was written."""

    @abstractmethod
    def may_send(self, now: float) -> bool:
        """Return whether the client of a request that has waited still wants it sent.

        If not, the client's side aborts the connection, or calls ``Exchange.resume`` later.
        """

    @abstractmethod
    def is_gone(self) -> bool:
        """Return whether the client has left, which the loop may not know yet."""

    @abstractmethod
    def drop(self) -> None:
        """Break the connection of a client that has left."""

    @abstractmethod
    def set_idle_since(self, now: float) -> None:
        """Record when its last request ended, where ``finished`` does not follow."""

    @abstractmethod
    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """Begin the response with what the pod says.

        Arguments:
            raw: head and payload as received, if nothing else has arrived; else None.
            ended: whether the response ends here; ``trailers`` are then known.
        """

    @abstractmethod
    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """Send more of the response's body; ``trailers`` with its end."""

    @abstractmethod
    def interim(self, response: Response | ResponseFields) -> None:
        """Pass on an interim response."""

    @abstractmethod
    def send_continue(self) -> None:
        """Have the client send its body."""

    @abstractmethod
    def send_own_response(self, response: OwnResponse) -> None:
        """Respond ourselves; nothing follows."""

    @abstractmethod
    def body_of(self, response: OwnResponse) -> bytes:
        """Return what the client gets of the body of a response of ours."""

    @abstractmethod
    def switching(self) -> SwitchingSide | None:
        """Return what can change its protocol; None in HTTP/2."""

    @abstractmethod
    def finished(self, now: float) -> None:
        """The exchange has ended at ``now``, and the response is written to its end."""

    @abstractmethod
    def break_off(self, outcome: str, code: int) -> None:
        """Abort a response that cannot be completed, so that its client detects this.

        Arguments:
            outcome: why, in the words of ``counters``.
            code: by which error code of HTTP/2 the pod ended its stream; 0 where it did not.
        """

    @abstractmethod
    def took(self, size: int) -> None:
        """A pod has taken so many bytes of the request's body: the client may send as many."""

    @abstractmethod
    def regulate(self) -> None:
        """Read from the client as long as the request's body can be used."""

    @abstractmethod
    def arm(self, when: float) -> None:
        """Have ``Exchange.on_time`` called by then."""


class PodSide(ABC):
    """The pod that has the request."""

    __slots__ = ()

    @abstractmethod
    def is_reused(self) -> bool:
        """Return whether requests were answered on its connection before."""

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
        """Send the request's head and what is held of its body; the response goes to ``requester``.

        Returns:
            Whether it went out in HTTP/2.

        Raises:
            FramingError: the request exceeds a limit of the pod; nothing was sent.
        """

    @abstractmethod
    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """Send more of the request's body; ``trailers`` with its end."""

    @abstractmethod
    def is_full(self) -> bool:
        """Return whether the pod does not read what was sent."""

    @abstractmethod
    def pause(self, on: bool) -> None:
        """Pause reading from the pod if ``on``, because its client is full; else resume."""

    @abstractmethod
    def took(self, size: int) -> None:
        """The client has taken so many bytes of the response's body: the pod may send as many."""

    @abstractmethod
    def detach(self, complete: bool) -> None:
        """Release the pod after a complete or an unwanted response.

        Arguments:
            complete: whether the whole request has reached the pod.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Have the pod stop: its response is of no more use."""

    @abstractmethod
    def switching(self) -> SwitchingSide | None:
        """Return what can change its protocol; None in HTTP/2."""

    @abstractmethod
    def give_back(self) -> None:
        """Part from a pod to which nothing was sent."""


class Requester(ABC):
    """Who sends a request to a pod and takes what comes of it: an exchange.

    Attributes:
        to_head: the request is a HEAD, so that its response has no body.
    """

    __slots__ = ()

    to_head: bool

    @property
    @abstractmethod
    def wants_connection(self) -> bool:
        """Whether it still has a use for a connection."""

    @abstractmethod
    def pause_sending(self) -> None:
        """The pod reads slower than the client sends."""

    @abstractmethod
    def resume_sending(self) -> None:
        """It has caught up."""

    @abstractmethod
    def on_connected(self, side: PodSide) -> None:
        """There is a connection, or a place on one."""

    @abstractmethod
    def on_dial_failed(self, error: str, cause: str) -> None:
        """There is none; see dial.Dialer. The pod has nothing of the request."""

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
        """The final head came, and the payload with it.

        Arguments:
            raw: head and payload in one piece as they came, where nothing else came.
            complete: the response ends here; the connection is back in its pool, or closed.
        """

    @abstractmethod
    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """More of the response's body came; ``trailers`` with its end."""

    @abstractmethod
    def on_lost(self, error: str, answered: bool) -> None:
        """The connection is gone before the response was complete, or what came is malformed.

        Arguments:
            answered: whether any byte of a response had come.
        """

    @abstractmethod
    def on_reset(self, code: int, answered: bool) -> None:
        """The pod has ended the stream by an error code of HTTP/2."""

    @abstractmethod
    def on_refused(self, error: str) -> None:
        """Handle a request that the pod did not process (REFUSED_STREAM or GOAWAY)."""

    @abstractmethod
    def on_other_protocol(self, error: str) -> None:
        """The pod is there, and does not speak the version of HTTP in which it was asked.

        It has not understood a byte of the request, so this goes to it in the other version.
        """


class PodPool(ABC):
    """The connections to one pod."""

    @abstractmethod
    def side_for(self, request: Request, *, fresh: bool) -> PodSide | None:
        """Return a connection, or a place on one, for a request; None where there is none.

        Arguments:
            fresh: only a new connection will do.
        """

    @abstractmethod
    def dial_for(self, requester: Requester, request: Request) -> None:
        """Open a connection for a request: one of the calls of ``Requester`` follows."""

    @abstractmethod
    def count_responses(self) -> int:
        """Return how many responses the pod has given in HTTP/2."""


class PodPools(ABC):
    """The connections to all pods.

    Attributes:
        files: the budget of open files; unread: what counts the bytes that peers do not read.
    """

    files: FileBudget
    unread: UnreadBytes

    @abstractmethod
    def of(self, pod: PodTracker) -> PodPool:
        """Return the connections to a pod that requests use."""


class SwitchingSide(Protocol):
    """A connection in HTTP/1 whose protocol changes: of a client, or to a pod."""

    def switch(self, response: Response, notes: bytes) -> None:
        """Pass on the pod's 101."""

    def take_over(self) -> tuple[asyncio.Transport, bytes]:
        """Return the transport and what came behind the head: the connection is the tunnel's."""

    def is_stopped(self) -> bool:
        """Return whether its peer does not read what was written."""

    def unread_bytes(self) -> UnreadBytes:
        """Return what counts the bytes that peers do not read."""

    def who(self) -> tuple[Peer, str]:
        """Return the side and the address of its peer."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; see asyncio.Protocol."""

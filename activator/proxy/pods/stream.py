"""One request on a pod's connection in HTTP/2: its stream, as the pod's side of an exchange."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.observers import Trace
from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.exchange.switching_side import SwitchingSide
from activator.proxy.exchange.translation import as_block
from activator.proxy.http2.connection import Connection
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import ErrorCode
from activator.proxy.http2.hpack import MAX_EXPANSION, line, list_size
from activator.proxy.http2.section import block_of, plain_section, section_of, traced_section
from activator.proxy.http2.stream import Stream
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import Request
from activator.proxy.pods.capacity import Capacity
from activator.proxy.pods.response_reader import MAX_INTERIM
from activator.proxy.pods.target import Target

_EXPECT: Final = line(b"expect", b"100-continue")
_NO_ERROR: Final = int(ErrorCode.NO_ERROR)
#: Statuses of responses without content (RFC 9110 section 6.4.1).
_NO_CONTENT: Final = (204, 304)
_CANCEL: Final = int(ErrorCode.CANCEL)
#: Above every value that SETTINGS_MAX_HEADER_LIST_SIZE can have.
_UNLIMITED: Final = 1 << 32


@final
class Carrier:
    """The part of one connection that its streams use.

    Attributes:
        link: the HTTP/2 connection.
        target: its pod; capacity: how many streams the pod accepts.
        used: whether it has carried a complete response.
        max_list: most bytes of a request's header section that the pod accepts.
        safe_block: most bytes of a header block that cannot exceed ``max_list``.
    """

    __slots__ = ("capacity", "link", "max_list", "safe_block", "target", "used")

    def __init__(self, link: Connection, target: Target, capacity: Capacity) -> None:
        self.link = link
        self.target = target
        self.capacity = capacity
        self.used = False
        self.max_list = self.safe_block = _UNLIMITED

    def limit_header_list(self, size: int) -> None:
        """Set the most bytes of a request's header section, by the pod's settings."""
        self.max_list = size
        self.safe_block = size // MAX_EXPANSION

    def check_header_list(self, block: bytes) -> None:
        """Compare a request's header section with the limit of the pod.

        Raises:
            FramingError: the section is too large (431).
        """
        size = list_size(block)
        if size > self.max_list:
            raise FramingError(
                f"the header fields have {size} bytes, and the pod accepts {self.max_list}", 431
            )


@final
class PodStream(PodSide):
    """One request on a pod's connection.

    Attributes:
        requester: handles the response; None once that has ended, or if nothing needs it.
        responded: whether the head of the final response has arrived.
        to_head: whether the request is a HEAD, whose response has no body.
    """

    __slots__ = ("_carrier", "_interim", "_stream", "requester", "responded", "to_head")

    _stream: Stream

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self.requester: Requester | None = None
        self.responded = False
        self.to_head = False
        self._interim = 0

    def is_reused(self) -> bool:
        """See PodSide."""
        return self._carrier.used

    def is_understood(self) -> bool:
        """See PodSide. In HTTP/2 the activator holds the body whatever this returns."""
        return True

    def send_request(
        self,
        requester: Requester,
        client: ClientSide,
        request: Request,
        body: RequestBody,
        trace: Trace | None,
    ) -> bool:
        """See PodSide."""
        self.requester = requester
        self.to_head = request.method == b"HEAD"
        carrier = self._carrier
        target = carrier.target
        front, rest = target.host_blocks
        if target.is_plain:
            section = plain_section(request, client.address())
        else:
            section = request.section or section_of(request, client.address())
        if trace is not None:
            context = block_of(trace.sending(target.origin))
            address = client.address()
            section = traced_section(request, section, address, plain=target.is_plain)
            section += context
        head = b"".join((front, section, rest))
        if request.expects_continue:
            head += _EXPECT
        if len(head) > carrier.safe_block:
            carrier.check_header_list(head)
        trailers = body.trailers
        if trailers and not request.section:
            trailers = as_block(trailers)
        ended = body.complete and not body.pieces and not trailers
        link = carrier.link
        # Streams of this side have consecutive odd numbers.
        stream = self._stream = Stream(link.queue, 2 * link.opened + 1, self)
        link.opened += 1
        link.streams[stream.id] = stream
        link.write_headers(stream, head, ended=ended)
        if not ended:
            stream.on_sent = client.took
            if body.pieces or body.complete:
                stream.send(b"".join(body.pieces), trailers if body.complete else None)
        return True

    def call(self, requester: Requester, head: bytes, body: bytes) -> None:
        """Send a whole small request that is not a HEAD; ``requester`` handles the response.

        Arguments:
            head: the header block; body: the whole body, not empty.
        """
        self.requester = requester
        link = self._carrier.link
        stream = self._stream = Stream(link.queue, 2 * link.opened + 1, self)
        link.opened += 1
        link.streams[stream.id] = stream
        link.write_headers(stream, head, ended=False)
        stream.send(body, b"")

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        """See PodSide."""
        data = payload[0] if len(payload) == 1 else b"".join(payload)
        self._stream.send(data, trailers if ended else None)

    def is_full(self) -> bool:
        """See PodSide."""
        return self._stream.left > 0

    def pause(self, on: bool) -> None:
        """See PodSide: do nothing, because the stream's window limits the pod."""

    def took(self, size: int) -> None:
        """See PodSide."""
        self._stream.credit(size)

    def detach(self, complete: bool) -> None:
        """See PodSide: reset the stream if the request is incomplete."""
        self.requester = None
        stream = self._stream
        stream.on_sent = None
        if not stream.closed:
            self._carrier.link.end(stream, _NO_ERROR)

    def cancel(self) -> None:
        """See PodSide."""
        self.detach_requester()
        self._carrier.link.end(self._stream, _CANCEL)

    def detach_requester(self) -> Requester | None:
        """Break the references between a stream that ends early and its requester.

        Else the garbage collector would have to find their cycle.

        Returns:
            The requester; None if it was detached before.
        """
        requester, self.requester = self.requester, None
        self._stream.owner = self._stream.on_sent = None
        return requester

    def switching(self) -> SwitchingSide | None:
        """See PodSide."""
        return None

    def release(self) -> None:
        """See PodSide: no stream has been opened."""

    # -- the response ---------------------------------------------------------------------------

    def on_response(self, response: ResponseFields, ended: bool) -> None:
        """Handle the head of a response, which may be an interim one.

        Arguments:
            ended: whether it ends the stream.

        Raises:
            FramingError: the head breaks a rule; the caller ends the stream.
        """
        requester, stream = self.requester, self._stream
        if requester is None:
            return
        if response.status < 200:
            self._on_interim(requester, response, ended)
            return
        self.responded = True
        if self.to_head or response.status in _NO_CONTENT:
            self._on_bare_response(requester, response, ended)
            return
        stream.missing = response.length
        if ended:
            if response.length > 0:
                raise FramingError("the body does not have its content-length", 502)
            self._end()
            self._carrier.link.peer_ended(stream)
        requester.on_response(response, None, [], ended)

    def _on_interim(self, requester: Requester, response: ResponseFields, ended: bool) -> None:
        if ended:
            raise FramingError("an interim response that ends the stream", 502)
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise FramingError("too many interim responses", 502)
        requester.on_interim(response)

    def _on_bare_response(
        self, requester: Requester, response: ResponseFields, ended: bool
    ) -> None:
        """Handle a response without content; drop whatever a pod sends after its head.

        See RFC 9110 section 6.4.1. Clients would treat content as a connection error.
        """
        self._end()
        link = self._carrier.link
        if ended:
            link.peer_ended(self._stream)
        else:
            link.end(self._stream, _NO_ERROR)
        requester.on_response(response, None, [], True)

    def on_data(self, payload: bytes, trailers: bytes | None) -> None:
        """Handle payload; see ConnectionSide.on_data for ``trailers``."""
        requester = self.requester
        if requester is None:
            return
        if trailers is None:
            requester.on_payload([payload], False, b"")
        else:
            self._end()
            requester.on_payload([payload] if payload else [], True, trailers)

    def on_trailers(self, trailers: bytes, ended: bool) -> None:
        """Handle a header block after the head.

        Raises:
            FramingError: it does not end the response, or the body is too short.
        """
        requester = self.requester
        if requester is None:
            return
        if not ended:
            raise FramingError("a header block inside the body", 502)
        if self._stream.missing > 0:
            raise FramingError("the body does not have its content-length", 502)
        self._end()
        self._carrier.link.peer_ended(self._stream)
        requester.on_payload([], True, trailers)

    def _end(self) -> None:
        """Count a complete response."""
        carrier = self._carrier
        carrier.used = True
        capacity = carrier.capacity
        capacity.responses += 1
        capacity.refusal_limit += 1
        self._stream.owner = None

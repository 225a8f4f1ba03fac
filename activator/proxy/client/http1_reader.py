"""Splits the bytes of a client's HTTP/1 connection into requests.

A client may send the next request before the current one has its response. Such bytes stay unread,
or in one bounded buffer. The reader knows nothing of responses.
"""

from __future__ import annotations

from math import inf
from typing import Final, final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.head_reader import HeadInProgress
from activator.proxy.client.http1_connection import Http1Connection
from activator.proxy.client.states import (
    DISCARDING,
    FOLLOWS,
    HEAD_IN_PROGRESS,
    READING_BODY,
    READING_HEAD,
    RESPONDING,
    Http1State,
)
from activator.proxy.http2.frames import PREFACE
from activator.proxy.message.body import Body, LengthBody
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import read_request
from activator.tls import negotiated as agreed

#: Bytes of further requests that are buffered before reading pauses.
MAX_AHEAD: Final = 64 << 10
#: The preface of HTTP/2 up to its first empty line. No HTTP/1 request begins like this.
_HTTP2_HEAD: Final = PREFACE[:18]


@final
class Http1Reader:
    """The reader of one connection.

    Arguments:
        connection: the connection, which begins requests.
        base: the common part of all client connections.

    Attributes:
        state: decides what the next bytes are; see ``states``.
        ahead: bytes that the client sent behind the current request.
        body: the framing of the current body; None if it is complete or there is none.
        head: the in-progress request head; None without one.
        eof: whether the client has ended its sending side.
        paused: whether reading from the transport pauses.
    """

    __slots__ = (
        "_base",
        "_connection",
        "ahead",
        "body",
        "eof",
        "head",
        "paused",
        "state",
    )

    def __init__(self, connection: Http1Connection, base: ClientConnection) -> None:
        self._connection = connection
        self._base = base
        self.state: Http1State = READING_HEAD
        self.ahead = b""
        self.body: Body | None = None
        self.head: HeadInProgress | None = None
        self.eof = False
        self.paused = False

    def enter(self, state: Http1State) -> None:
        """Enter a state, and check it. The changes of every request are assigned, for speed."""
        assert state in FOLLOWS[self.state], f"{state} after {self.state}"
        self.state = state

    # -- heads ----------------------------------------------------------------------------------

    def read(self, data: bytes) -> None:
        """Begin a request for each complete head, and keep the bytes behind it.

        A request begins once the previous one has its response.
        """
        connection = self._connection
        while data:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4 or data[:2] == b"\r\n":
                data = self._read_odd_beginning(data)
                continue
            head = data if end == len(data) else data[:end]
            if head == _HTTP2_HEAD and self._may_be_http2():
                connection.switch_to_http2(data)
                return
            try:
                request = read_request(head, self._base.proxy.request_limits)
            except FramingError as error:
                connection.refuse(error)
                return
            self.ahead = data[end:]
            connection.begin(request, head)
            if (
                self.state is not READING_HEAD
                or connection.full
                or self._base.transport.is_closing()
            ):
                break
            data, self.ahead = self.ahead, b""
        if self.ahead:
            self.regulate()

    def _may_be_http2(self) -> bool:
        """Return whether this is the first request, and no TLS handshake has chosen HTTP/1."""
        base = self._base
        return base.new_since > -inf and not (base.secure and agreed.protocol(base.transport))

    def _read_odd_beginning(self, data: bytes) -> bytes:
        """Skip an empty line before a request, or begin to collect an incomplete head.

        RFC 9112 section 2.2 allows the empty line.

        Returns:
            The bytes that are left to read.
        """
        if data[:2] == b"\r\n" and len(data) > 2:
            if data[2:4] == b"\r\n":
                self._connection.refuse(FramingError("more than one empty line before the request"))
                return b""
            return data[2:]
        proxy = self._base.proxy
        now = proxy.clock()
        self.enter(HEAD_IN_PROGRESS)
        self.head = HeadInProgress(proxy.request_limits, proxy.head_budget, now)
        self._base.arm(now + self._base.head_timeout())
        self.read_in_head(data)
        return b""

    def read_in_head(self, data: bytes) -> None:
        """Add bytes to the in-progress request head."""
        head = self.head
        assert head is not None
        try:
            whole = head.feed(data)
        except FramingError as error:
            self._connection.refuse(error)
            return
        if whole:
            self.end_head()
            self.enter(READING_HEAD)
            self.read(whole)
        elif not head.count():
            self._connection.refuse_head(self._base.proxy.too_many_heads())

    def end_head(self) -> None:
        """Release the in-progress request head, if any: it is complete or not needed."""
        head, self.head = self.head, None
        if head is not None:
            head.release()

    def discard(self) -> None:
        """Discard all input from now on, because the next request could begin anywhere."""
        self.end_head()
        self.enter(DISCARDING)
        self.ahead = b""

    # -- bodies ---------------------------------------------------------------------------------

    def read_body(self, data: bytes) -> None:
        """Pass on a piece of the current request's body; keep the bytes behind the body."""
        body, exchange = self.body, self._connection.exchange
        assert body is not None
        assert exchange is not None
        payload: list[bytes] = []
        try:
            left = body.feed(data, payload)
        except FramingError as error:
            self._connection.refuse(error)
            return
        complete = left is not None
        if complete:
            self.body = None
            self.ahead = left or b""
            if self.state is READING_BODY:
                self.state = RESPONDING
        exchange.on_request_body(payload, complete, body.trailers)
        self.regulate()

    def missing(self) -> int:
        """Return how many bytes of the body are announced and not read."""
        return self.body.remaining if isinstance(self.body, LengthBody) else 0

    # -- back-pressure --------------------------------------------------------------------------

    def keep(self, data: bytes) -> None:
        """Buffer bytes behind the current request."""
        self.ahead += data
        self.regulate()

    def regulate(self) -> None:
        """Pause or resume reading, by whether the input can be used."""
        state, exchange = self.state, self._connection.exchange
        if state is READING_BODY:
            wanted = exchange is not None and exchange.wants_body()
        elif state is RESPONDING:
            wanted = len(self.ahead) < MAX_AHEAD
        elif state is READING_HEAD:
            wanted = not self._connection.full
        else:
            return
        transport = self._base.transport
        if wanted is not self.paused or self.eof or transport.is_closing():
            return
        self.paused = not wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()
            self._connection.on_paused()

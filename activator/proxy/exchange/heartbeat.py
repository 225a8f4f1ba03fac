"""Sends a waiting client the head of an event stream, and comments, until its pod responds.

Proxies and clients close a connection on which nothing passes for a minute or so; a model may load
for several. A comment is no event, so programs do not see it. ``EarlyStream`` is the client's side
from then on. The pod's response follows without its head if it is an event stream too; any other
response ends the stream with an error. Knative has no counterpart.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.

``is_true`` finds the member ``stream`` of a JSON object in the beginning of a body, which may be
cut anywhere. It reads tokens, so that no text inside a string can look like a member (RFC 8259). It
converts no value, and does not check the whole grammar: the pod does that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import ceil, inf
from typing import TYPE_CHECKING, Final, final

from activator.proxy.exchange import end
from activator.proxy.exchange.retry import WithheldResponse
from activator.proxy.exchange.sides import RESPONSE_BEGUN, ClientSide
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.hpack import line
from activator.proxy.http2.section import block_of, with_identity_coding
from activator.proxy.message import grpc
from activator.proxy.message.error_forms import prefers_event_stream, sends_json
from activator.proxy.message.fields import HTTP_2, HttpVersion
from activator.proxy.message.grammar import CloseBody
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from throttler.request_policies import HEARTBEAT_EVERY
from throttler.ticket import QUEUED

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange


#: Bytes of a body that are read.
MOST_BYTES: Final = 64 << 10
#: Tokens that are read. A usual body of 64 KiB has a tenth of them. Without this limit, a body of
#: brackets alone would cost ten times as much as a usual one.
MOST_TOKENS: Final = 8192

#: A string, a bracket, a colon, a comma, another value, or the quote of a string without its end.
#: Only sets of bytes are possessive, see proxy/message/grammar.py.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"|[{}\[\]:,]|[^\s"{}\[\]:,]++|"', re.DOTALL)
_BOM: Final = b"\xef\xbb\xbf"
_OPENING: Final = (b"{", b"[")
_CLOSING: Final = (b"}", b"]")
#: The longest name that is compared, with an escape of six bytes for each character.
_LONGEST: Final = 128


def is_true(body: bytes, name: str) -> bool:
    """Return whether the JSON object in a body has a member with the value ``true``.

    Only members of the outermost object count. If one occurs twice, the last one counts, as in most
    parsers. Whatever follows the object does not matter.

    Arguments:
        body: the body from its start, as much as has arrived.
        name: the name of the member, at most 20 characters.
    """
    body = body[:MOST_BYTES].removeprefix(_BOM)
    depth, found, tokens = 0, False, 0
    key: bytes | None = None  # the name of the current member; None behind its colon
    is_named = False  # whether the next value is that of the named member
    for match in _TOKEN.finditer(body):
        token = match[0]
        tokens += 1
        if tokens > MOST_TOKENS or (not depth and token != b"{"):
            return False
        if token == b'"':
            return found  # the body ends inside a string
        if token in _OPENING:
            depth += 1
            if depth == 1:
                key = b""
            elif depth == 2 and is_named:
                found = is_named = False
        elif token in _CLOSING:
            depth -= 1
            if not depth:
                return found
        elif depth > 1:
            continue
        elif token == b",":
            key, is_named = b"", False
        elif token == b":":
            is_named = key is not None and _text(key) == name
            key = None
        elif is_named:
            found, is_named = token == b"true", False
        elif key is not None:
            key = token
    return found


def _text(token: bytes) -> str | None:
    """Return the text of a string; None if it is too long, or not well-formed."""
    if token[:1] != b'"' or len(token) > _LONGEST:
        return None
    try:
        text = json.loads(token)
    except ValueError:
        return None
    return text if isinstance(text, str) else None


CONTENT_TYPE: Final = b"text/event-stream"
#: nginx buffers a response without the last field.
_LINES: Final = (
    b"\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no"
)
#: So many bytes show whether an event ends: two line ends.
_TAIL: Final = 4


def _head() -> Response:
    response = Response(200, b" OK", _LINES, b"", -1, keep_alive=True, plain=False)
    response.body = CloseBody()
    return response


#: The head of the stream in both versions. All streams share them, since nothing changes them.
HEAD: Final = _head()
SECTION: Final = ResponseFields(200, {}, -1, line(b":status", b"200") + block_of(_LINES))


def is_event_stream(response: Response | ResponseFields) -> bool:
    """Return whether a pod's response can follow the head of the activator's event stream.

    It must not be encoded: the head names no encoding, and the activator decodes nothing.

    Arguments:
        response: the head, in the pod's version.
    """
    kind = response.value_of(b"content-type").partition(b";")[0].strip(b" \t").lower()
    coding = response.value_of(b"content-encoding").strip(b" \t").lower()
    return response.status == 200 and kind == CONTENT_TYPE and coding in (b"", b"identity")


def as_comment(text: str) -> bytes:
    """Return a comment, which clients ignore; ``text`` is one line."""
    return b": %b\n\n" % text.encode("ascii", "replace")


def error_event(body: bytes) -> bytes:
    """Return the event that ends a stream which failed; ``body`` is JSON in one line."""
    return b"event: error\ndata: %b\n\n" % body


def tail(before: bytes, payload: list[bytes]) -> bytes:
    """Return the last bytes of a stream, enough for ``closing``.

    Arguments:
        before: the result of the previous call; empty at first.
        payload: the bytes that follow.
    """
    end = before
    for piece in payload:
        end = piece[-_TAIL:] if len(piece) >= _TAIL else (end + piece)[-_TAIL:]
    return end


def closing(end: bytes) -> bytes:
    """Return the bytes that end an incomplete event, so that no listener gets it.

    An event gets the type of its last field ``event``. Nothing listens to ``incomplete``.

    Arguments:
        end: the last bytes of the stream, as from ``tail``.
    """
    lines = end.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not lines or lines.endswith(b"\n\n"):
        return b""
    return b"event: incomplete\n\n" if lines.endswith(b"\n") else b"\nevent: incomplete\n\n"


@final
class EarlyStream(ClientSide):
    """The client's side behind an early head. It passes the other calls to the side it replaces.

    Arguments:
        client: the side that it replaces; of HTTP/1.1 or HTTP/2.
        clock: returns the time, seconds.
    """

    __slots__ = ("_client", "_clock", "_end", "_own")

    def __init__(self, client: ClientSide, clock: Callable[[], float]) -> None:
        self.base = client.base
        self._client = client
        self._clock = clock
        self._end = b""  # the last bytes of the pod's part of the stream
        self._own = 0  # bytes of comments that the client's stream has not accepted

    # -- the activator's part of the stream -----------------------------------------------------

    def begin(self, version: HttpVersion, comment: bytes) -> None:
        """Send the head and the first comment.

        Arguments:
            version: the HTTP version of the client.
            comment: see ``comment``.
        """
        head: Response | ResponseFields = HEAD
        if version is HTTP_2:
            head = SECTION
        self._own += len(comment)
        self._client.respond(head, None, [comment], False, b"")

    def wait(self, comment: bytes) -> None:
        """Send another comment, unless the client does not read."""
        if not self._client.is_full():
            self._own += len(comment)
            self._client.send_body([comment], False, b"")

    def pass_on(self, size: int) -> int:
        """Return how many of the bytes that the client's stream accepted are the pod's.

        Arguments:
            size: bytes that it accepted, in the order in which they were sent.
        """
        own = min(size, self._own)
        self._own -= own
        return size - own

    # -- the response ---------------------------------------------------------------------------

    def respond(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        ended: bool,
        trailers: bytes,
    ) -> None:
        """Send the payload: the client gets no head of the pod, and no trailers."""
        self.send_body(payload, ended, b"")

    def send_body(self, payload: list[bytes], ended: bool, trailers: bytes) -> None:
        self._end = tail(self._end, payload)
        self._client.send_body(payload, ended, b"")

    def body_of(self, response: OwnResponse) -> bytes:
        """Return the event that ends the stream. The response's body is JSON."""
        return closing(self._end) + error_event(response.body)

    def send_own_response(self, response: OwnResponse) -> None:
        """End the stream by an error event, which may replace the rest of the pod's stream."""
        self._client.send_body([self.body_of(response)], True, b"")
        self._client.finished(self._clock())

    def interim(self, response: Response | ResponseFields) -> None:
        """Do nothing, because no interim response may follow the head."""

    def send_continue(self) -> None:
        """Do nothing, as in ``interim``."""

    def break_off(self, outcome: str, code: int) -> None:
        self._client.break_off(outcome, code)

    def finished(self, now: float) -> None:
        self._client.finished(now)

    # -- the client -----------------------------------------------------------------------------

    def is_there(self, now: float) -> bool:
        """Return whether the client is there, as the comments show.

        Its kernel rejects them once it has closed.
        """
        if self._client.is_gone():
            self.base.transport.abort()
            return False
        return True

    def is_gone(self) -> bool:
        return self._client.is_gone()

    def is_full(self) -> bool:
        return self._client.is_full()

    def accepted(self, size: int) -> None:
        self._client.accepted(size)

    def regulate(self) -> None:
        self._client.regulate()


#: Bytes of a pod's response that wait until it is complete, if it is no event stream: an error.
MOST_ERROR_BYTES: Final = 16 << 10
#: Revisions whose comment is kept; a full memo is cleared first.
_MOST_COMMENTS: Final = 1024
#: Seconds until a body that has not arrived completely is read again; doubles each time.
FIRST_LOOK: Final = 0.1
#: The comment while a pod has the request.
_HAS_POD: Final = as_comment("waiting reason=response-pending")


def fits(exchange: Exchange) -> bool:
    """Return whether the client expects an event stream, as far as the request has arrived."""
    request = exchange.request
    if exchange.early_stream() is not None:
        return True
    if _is_grpc(request):
        return False
    if request.expects_continue and not exchange.body.size:
        return False  # the client has not sent its body, and no 100 may follow the head
    if prefers_event_stream(request.lines):
        return True
    return _may_be_json(exchange) and is_true(b"".join(exchange.body.pieces), "stream")


def may_fit_later(exchange: Exchange) -> bool:
    """Return whether ``fits`` may become true with the rest of the request's body."""
    body = exchange.body
    arrives = not (body.complete or body.full) and body.size < MOST_BYTES
    return arrives and _may_be_json(exchange) and not _is_grpc(exchange.request)


def _is_grpc(request: Request) -> bool:
    """Return whether a request is gRPC or gRPC-Web, which cannot follow the head."""
    return request.value_of(b"content-type").startswith(grpc.CONTENT_TYPE)


def _may_be_json(exchange: Exchange) -> bool:
    request = exchange.request
    return request.has_body and (sends_json(request) or not request.value_of(b"content-type"))


def every(exchange: Exchange) -> float:
    """Return the seconds between two comments."""
    waiting = exchange.entry.throttler.revision.policies.waiting
    return HEARTBEAT_EVERY if waiting is None else waiting.heartbeat_every


def look_again(exchange: Exchange, now: float) -> float:
    """Return when to read a body again that has not arrived completely, seconds."""
    waited = max(now - exchange.ticket.arrived, FIRST_LOOK)
    return min(exchange.ticket.arrived + every(exchange), now + waited)


def beat(exchange: Exchange, now: float) -> float:
    """Send the head, or another comment; return when to call this again, infinite for never.

    Only a request without a pod gets an early head. One that has a pod may soon get the pod's own
    head, which says more.

    Arguments:
        exchange: the exchange of a request that ``fits``.
        now: seconds.
    """
    client = exchange.client
    if exchange.state in RESPONSE_BEGUN:
        return inf
    early = exchange.early_stream()
    if early is not None:
        early.wait(_comment(exchange, now))
        return now + every(exchange)
    wait = exchange.wait
    if exchange.ticket.state is not QUEUED or wait is None:
        return inf
    services, request = exchange.services, exchange.request
    exchange.request = with_identity_coding(request, client.base.address)
    exchange.client = wait.early = early = EarlyStream(client, services.driver.clock)
    exchange.entry.counters.early_heads += 1
    early.begin(request.version, _comment(exchange, now))
    return now + every(exchange)


def _comment(exchange: Exchange, now: float) -> bytes:
    """Return the comment with the reason of the wait, and the forecast in seconds if there is one.

    All requests of a revision share one for a second, since the reason costs O(pods).
    """
    if exchange.ticket.state is not QUEUED:
        return _HAS_POD
    services, throttler = exchange.services, exchange.entry.throttler
    until, comment = services.comments.get(throttler.revision.id, (0.0, b""))
    if now >= until:
        expected = throttler.expected_wait(now)
        eta = "" if expected is None else f" eta={ceil(max(expected, 1.0))}"
        reason = services.driver.why(throttler)[0].value
        comment = as_comment(f"waiting reason={reason}{eta}")
        if len(services.comments) >= _MOST_COMMENTS:
            services.comments.clear()
        services.comments[throttler.revision.id] = now + 1.0, comment
    return comment


def may_follow(
    exchange: Exchange,
    response: Response | ResponseFields,
    payload: list[bytes],
    complete: bool,
) -> bool:
    """Return whether a response follows the client's event stream; if not, it ends with it.

    Arguments:
        exchange: the exchange of the request.
        response: the head of the response.
        payload: its payload so far.
        complete: whether the response is complete.
    """
    if is_event_stream(response):
        if exchange.pod_side is not None and exchange.client.is_full():
            exchange.pod_side.pause(True)
        return True
    withheld = WithheldResponse(response, payload, ends_stream=True)
    exchange.ensure_attempts().withheld = withheld
    stop_stream(exchange, withheld, complete)
    return False


def stop_stream(exchange: Exchange, withheld: WithheldResponse, complete: bool) -> None:
    """End the client's event stream by a response of another kind, once that is complete.

    Arguments:
        exchange: the exchange of the request.
        withheld: the response.
        complete: whether it is complete.
    """
    if not complete and sum(map(len, withheld.pieces)) <= MOST_ERROR_BYTES:
        return
    exchange.ensure_attempts().withheld = None
    if complete:
        exchange.pod_side = None
    pod, response = exchange.pod(), withheld.response
    exchange.stop(*end.no_event_stream(pod, response, withheld.pieces, complete))

"""A request in HTTP/2 and its answer: one stream of a client's connection, one of a pod's.

What HTTP/1 has in common with it is in ``proxy.exchange.exchange``. Payload passes as it came.
Its sender gets a WINDOW_UPDATE as it goes out on the other side.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar, Final

from activator.proxy.exchange import retry
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.probe_replies import probe_reply
from activator.proxy.exchange.queue_proxy import DOUBTFUL, Claim, claim_in_http2, own_failure
from activator.proxy.exchange.request_body import NO_BODY, HeldBody
from activator.proxy.exchange.retry import Failure
from activator.proxy.http2 import grpc
from activator.proxy.http2.errors import ErrorCode
from activator.proxy.http2.fields import RequestFields, ResponseFields, about
from activator.proxy.http2.hpack import line, name_prefix, string
from activator.proxy.http2.section import block_of, reply_block, without_context
from activator.proxy.message import replies
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.problem import negotiated
from activator.proxy.message.request import Request
from activator.proxy.message.version import HTTP_2
from activator.proxy.pods.http1 import MAX_INTERIM
from throttler.pod import PodTracker

if TYPE_CHECKING:
    from activator.proxy.client.http2 import Http2Downstream
    from activator.proxy.http2.stream import Stream
    from activator.proxy.pods.http2 import Http2Upstream
    from activator.proxy.pods.http2_pool import Http2Pool

_CONTINUE: Final = line(b":status", b"100")
#: A member of an enum is looked up by a function of its class.
_NO_ERROR: Final = int(ErrorCode.NO_ERROR)


class _Held(HeldBody):
    """What has been read of a request's body.

    Kept whatever the method as long as it is small: a pod may say that it has not looked at the
    request (RFC 9113 section 8.7).
    """

    __slots__ = ()

    def on_sent(self) -> None:
        """See HeldBody."""
        if self.size > self._limit:
            self.forget()


class Http2Exchange(Exchange):
    """One request and its answer.

    Attributes:
        patience: seconds that the client waits, see Exchange.
        to_head: the request is a HEAD.
    """

    __slots__ = (
        "_broken_by",
        "_fields",
        "_interim",
        "_refused",
        "_stream",
        "_trailers",
        "_uncredited",
        "_unsized",
        "_withheld",
        "patience",
        "to_head",
    )

    downstream: Http2Downstream  # type: ignore[mutable-override] # nobody else sets it
    _held_body: ClassVar[type[HeldBody]] = _Held
    upstream: Stream | None  # type: ignore[mutable-override] # nobody else sets it

    def __init__(
        self, downstream: Http2Downstream, stream: Stream, read: tuple[Request, RequestFields]
    ) -> None:
        request, fields = read
        super().__init__(downstream, request)
        if request.has_body:
            stream.missing = request.length
        self.patience = grpc.timeout(fields.fields) if b"grpc-timeout" in fields.fields else inf
        self.to_head = request.method == b"HEAD"
        self._broken_by: int = _NO_ERROR
        self._fields = fields
        self._interim = 0
        # By whom last, how many answers that had given by then, and how often in a row.
        self._refused: tuple[Http2Pool | None, int, int] = _NEVER_REFUSED
        self._stream = stream
        self._trailers: bytes | None = None if request.has_body else b""
        self._uncredited = 0
        self._unsized = False
        # What may be queue-proxy's own answer, until all of it is here: its head and what followed.
        self._withheld: tuple[ResponseFields, list[bytes]] | None = None

    @staticmethod
    def read(fields: RequestFields, *, ended: bool) -> tuple[Request, RequestFields]:
        """Return a request as all parts of us know it.

        Arguments:
            ended: whether nothing follows on its stream.

        Raises:
            FramingError: then something should (RFC 9113 section 8.1.1).
        """
        if ended and fields.bodiless is not None:
            return fields.bodiless, fields
        by_name = fields.fields
        head = fields.method, fields.path, HTTP_2, fields.authority, by_name, None
        if not ended:
            expects = by_name.get(b"expect", b"").lower() == b"100-continue"
            return Request(
                *head,
                has_body=True,
                length=fields.length,
                expects_continue=expects,
                section=fields.block,
            ), fields
        if fields.length > 0:
            raise about(FramingError("not as long as announced"), by_name)
        fields.bodiless = Request(*head, section=fields.block)
        return fields.bodiless, fields

    # -- getting a pod --------------------------------------------------------------------------

    def begin(self) -> None:
        """See Exchange; probes are answered at once."""
        reply = probe_reply(self.request, self._proxy.unhealthy)
        if reply is not None:
            self.done = True
            self._send_reply(negotiated(reply, self.request.lines))
            return
        super().begin()

    def _body_of(self, reply: replies.Reply) -> bytes:
        """See Exchange: gRPC is told all in the head."""
        return b"" if self.to_head or grpc.is_grpc(self._fields.fields) else reply.body

    def _write_head(self) -> int:
        """See Exchange."""
        return len(self._fields.block)

    def _connect(self, now: float) -> None:
        """See Exchange."""
        pool = self._proxy.pools.http2_of(self._begin_attempt())
        upstream = pool.take()
        if upstream is None:
            self._arm(self.ticket.deadline)
            pool.dial(self)
        else:
            self._send(upstream, now)

    def on_connected(self, upstream: Http2Upstream) -> None:
        """There is a connection."""
        if not self.done:
            self._send(upstream, self._proxy.driver.clock())

    # -- sending --------------------------------------------------------------------------------

    def _send(self, upstream: Http2Upstream, now: float) -> None:
        self._is_sent(now)
        body = self._body
        ended = body is NO_BODY and not self._trailers
        stream = upstream.open(self, self._head(upstream.pool), ended=ended)
        self.upstream = stream
        if ended:
            return
        stream.on_sent = self._on_request_sent
        if body.pieces or self._trailers is not None:
            pieces = body.pieces
            body.on_sent()
            stream.send(b"".join(pieces), self._trailers)

    def _head(self, pool: Http2Pool) -> bytes:
        """Return the header block that the pod gets."""
        fields = self._fields
        front, rest = pool.host_blocks()
        if not fields.forwarded:
            fields.forwarded = self._forwarded()
        block = fields.block
        if self.trace is not None:
            request, context = self.request, self.trace.sending(pool.pool.origin)
            block = line(b":method", request.method) + line(b":path", request.target)
            block += without_context(fields.fields) + block_of(context)
        head = b"".join((front, block, rest, fields.forwarded))
        return head + _EXPECT if self.request.expects_continue else head

    def _forwarded(self) -> bytes:
        """Return the fields that say who has asked, and for which host."""
        fields, client = self._fields.fields, self.downstream.client
        host = fields.get(b"k-original-host") or self.request.host
        before = fields.get(b"x-forwarded-for")
        client = before + b", " + client if before else client
        return b"".join((_ORIGINAL_HOST, string(host), _FORWARDED_FOR, string(client)))

    def on_request_data(self, payload: bytes, trailers: bytes | None) -> None:
        """Take what the client sent; ``trailers`` is None as long as more is to come."""
        body = self._body
        if trailers is not None:
            body.complete = True
            self._trailers = trailers
            if self._limits is not None:
                self._limits.continued()
        if self.done:
            return
        self._uncredited += len(payload)
        if payload and (self.upstream is None or (body.replayable and not self.answering)):
            body.keep(payload)
            if self.begun:
                body.charge(self.ticket, len(payload), sent=self.upstream is not None)
        if self.upstream is not None:
            self.upstream.send(payload, trailers)

    def _on_request_sent(self, size: int) -> None:
        size = min(size, self._uncredited)
        self._uncredited -= size
        self._stream.credit(size)

    # -- the answer -----------------------------------------------------------------------------

    def on_interim(self, response: ResponseFields) -> None:
        """An interim answer came.

        Raises:
            FramingError: one too many; the stream is to be ended.
        """
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise FramingError("too many interim answers", 502)
        if response.status == 100:
            if self.request.expects_continue:
                self._continue()
            return
        self._answer_began(self._proxy.driver.clock())
        # It is only advice, and waits for no window: what nobody reads is not piled up.
        if not self.downstream.full:
            self.downstream.write_headers(self._stream, response.block, ended=False)

    def on_response(self, response: ResponseFields, ended: bool) -> None:
        """The final head came; ``ended``: and nothing follows."""
        pod = self.ticket.pod
        assert pod is not None
        if pod.strikes or response.status in DOUBTFUL:
            claim = self._claim(response)
            if claim is not None and not ended:
                self._withheld = response, []
                return
            if not self._stands(response.status, own_failure(claim, ()), ()):
                return
        self._respond(response, pod, ended=ended)

    def _claim(self, response: ResponseFields) -> Claim | None:
        return claim_in_http2(
            response.status, response.length, response.fields, bodiless=self.to_head
        )

    def _withhold(self, payload: bytes, trailers: bytes | None) -> None:
        """Wait for the rest of what may be queue-proxy's own answer: 512 bytes at most."""
        assert self._withheld is not None
        response, pieces = self._withheld
        pieces.append(payload)
        if trailers is None:
            return
        self._withheld = None
        if self._stands(response.status, own_failure(self._claim(response), pieces), pieces):
            pod = self.ticket.pod
            assert pod is not None
            self._respond(response, pod, ended=False)
            self.on_payload(b"".join(pieces), trailers)

    def _respond(self, response: ResponseFields, pod: PodTracker, *, ended: bool) -> None:
        """Begin the answer with what the pod says."""
        now = self._proxy.driver.clock()
        self._begin_answer(response.status, response.length, pod, now)
        self._unsized = response.length < 0
        block = response.block
        if b"date" not in response.fields:
            block += _DATE + string(self._proxy.date())
        if self.notes:
            block += block_of(self.notes)
        upstream = self.upstream
        if upstream is not None and not ended:
            self._stream.on_sent = upstream.credit
        self.downstream.write_headers(self._stream, block, ended=ended)
        if ended:
            self._finish(now)

    def on_payload(self, payload: bytes, trailers: bytes | None) -> None:
        """More of the answer came; ``trailers`` with its end."""
        if self._withheld is not None:
            self._withhold(payload, trailers)
            return
        if self._unsized:
            self._response_size += len(payload)
        if self._limits is not None:
            self.touch()
        if trailers is not None:
            # The slot is free at once; what its client has not taken waits with its stream.
            self._stream.on_sent = None
        self._stream.send(payload, trailers)
        if trailers is not None and not self.done:
            self._finish(self._proxy.driver.clock())

    def _let_go(self) -> None:
        """See Exchange: what is left of the request is of no more use."""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            upstream.on_sent = None
            if not upstream.closed:
                self._upstream_of(upstream).abandon(upstream, _NO_ERROR)

    def _finish(self, now: float) -> None:
        self._let_go()
        self._end("served", self._status, now)
        self._done()

    def on_reset(self, code: int, *, answered: bool) -> None:
        """The pod has ended the stream."""
        self.upstream = self._withheld = None
        if self.done:
            return
        error = f"the pod reset the stream: {_name(code)}"
        if answered:
            self._broken_by = code
        if code == ErrorCode.REFUSED_STREAM and not answered:
            self.on_refused(error)
        else:
            self._lost(Failure.ANSWER_LOST, error)

    def on_refused(self, error: str) -> None:
        """The pod has not looked at the request, or takes none at all."""
        self.upstream = self._withheld = None
        if self.done:
            return
        pod = self.ticket.pod
        assert pod is not None
        pool = self._proxy.pools.http2_of(pod)
        before, answers, refusals = self._refused
        goes_on = pool is before and pool.answers > answers
        refusals = 1 if goes_on else refusals + 1
        self._refused = pool, pool.answers, refusals
        self._lost(retry.refused(refusals, on_trial=pod.on_trial), error)

    def on_lost(self, error: str, *, answered: bool, reused: bool) -> None:
        """The connection to the pod is gone, or what came on it is malformed."""
        self.upstream = self._withheld = None
        if not self.done:
            self._lost(retry.lost(answered=answered, reused=reused), error)

    def on_other_protocol(self) -> None:
        """The pod is there, and does not speak HTTP/2: it will not the next time either."""
        self.upstream = None
        if not self.done:
            self._reply_failed("the pod does not speak HTTP/2")

    # -- for the exchange of every version ------------------------------------------------------

    def _may_repeat(self, failure: Failure) -> bool:
        """See Exchange."""
        if failure is Failure.REFUSED:
            return self._body.replayable
        if failure is Failure.REFUSED_STILL:
            pod = self.ticket.pod
            assert pod is not None
            # Behind the ClusterIP nobody is left alone for it: bounded by number, not by time.
            return self._body.replayable and not pod.is_service
        return super()._may_repeat(failure)

    def _limit(self, *, idle: bool) -> str:
        """See Exchange."""
        if not idle and self.ticket.deadline >= self.ticket.arrived + self.patience:
            return f"grpc-timeout {self.patience:g}"
        return super()._limit(idle=idle)

    def _drop_upstream(self) -> None:
        """See Exchange."""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            self._upstream_of(upstream).abandon(upstream)

    @staticmethod
    def _upstream_of(stream: Stream) -> Http2Upstream:
        from activator.proxy.pods.http2 import Http2Upstream

        assert isinstance(stream.connection, Http2Upstream)
        return stream.connection

    def _send_reply(self, reply: replies.Reply) -> None:
        """See Exchange."""
        fields = self._fields.fields
        date = self._proxy.date()
        body = self._body_of(reply)
        if grpc.is_grpc(fields):
            lines = reply.fields + reply.reason_lines()
            block = (
                line(b":status", b"%d" % reply.status)
                + line(b"date", date)
                + line(b"content-type", grpc.CONTENT_TYPE)
                + line(b"grpc-status", b"%d" % grpc.status_of(reply.status))
                + line(b"grpc-message", grpc.message(reply.why or reply.body.decode().strip()))
                + block_of(lines, without=(b"content-type",))
            )
        else:
            block = reply_block(reply, date)
        self.downstream.write_headers(self._stream, block, ended=not body)
        if body:
            self._stream.send(body, b"")
        self._done()

    def _done(self) -> None:
        stream = self._stream
        if not stream.closed:  # it takes its answer later, perhaps when it has sent all
            stream.credit(self._uncredited)
            self._uncredited = 0
        self.downstream.exchange_done(stream)

    def _send_continue(self) -> None:
        """See Exchange."""
        self.downstream.write_headers(self._stream, _CONTINUE, ended=False)

    def _abort(self, outcome: str) -> None:
        """See Exchange. Of what was not the pod's own word gRPC is told by trailers of ours."""
        if not self._broken_by and grpc.is_grpc(self._fields.fields):
            self._drop_upstream()
            self._end(outcome, self._status)
            self._stream.send(b"", grpc.broken_off(outcome))
            self._done()
        else:
            super()._abort(outcome)

    def _break_off(self) -> None:
        """See Exchange: as the pod did it, where it did."""
        self.downstream.end(self._stream, self._broken_by or ErrorCode.INTERNAL_ERROR)
        self._done()

    def _arm(self, when: float) -> None:
        """See Exchange."""
        self.downstream.arm(when)

    @property
    def _client_is_full(self) -> bool:
        """See Exchange."""
        return bool(self._stream.unsent)


_NEVER_REFUSED: Final = (None, 0, 0)
_DATE: Final = name_prefix(b"date")
_EXPECT: Final = line(b"expect", b"100-continue")
_ORIGINAL_HOST: Final = name_prefix(b"k-original-host")
_FORWARDED_FOR: Final = name_prefix(b"x-forwarded-for")


def _name(code: int) -> str:
    return ErrorCode(code).name if code <= max(ErrorCode) else str(code)

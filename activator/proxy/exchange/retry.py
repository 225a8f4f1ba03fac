"""Decides whether a request is sent again, and to which pod: one table with a row for each failure.

A request that a pod may have seen is sent again only if its method is idempotent (RFC 9110 section
9.2.2). A pod may close an idle connection just as the activator uses it (RFC 9112 section 9.3.1).
Such a failure is not the pod's fault. ``Attempts`` follows the table for one request, and reports
its pod. Knative's counterpart: Go's transport (shouldRetryRequest), and the dialer of
knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, final

from activator.driver import Driver
from activator.knative.queue_proxy import (
    DOUBTFUL,
    Fate,
    QueueProxyClaim,
    claim_in_http1,
    claim_in_http2,
    complaint,
    fate_of,
)
from activator.proxy.exchange.sides import DONE, RESPONSE_BEGUN, Progress
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import ErrorCode, name_of_code
from activator.proxy.message import own_responses
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.request import IDEMPOTENT, Request
from activator.proxy.message.response import Response
from throttler.pod import PodTracker

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange, RequestBody
    from activator.proxy.exchange.model_list import ListKeeper

#: How often one request is sent again after a pod may have seen it. Attempts that no application
#: processed do not count; only the deadline limits these.
MAX_REPEATS = 3
#: A pod that refuses one request more often than this is ejected, if it sent no response in
#: between. Few, since each retry follows at once. One is too few: the GOAWAY of a pod that drains
#: may also reach the connection of the retry.
MAX_REFUSALS = 3
#: Pods that a request may try whose certificate is not valid, or that speak no TLS.
MAX_HANDSHAKES: Final = 3
_REFUSED_STREAM: Final = int(ErrorCode.REFUSED_STREAM)
#: An overloaded pod resets a stream with this code. The client gets the error, as with a 503.
_CALM: Final = int(ErrorCode.ENHANCE_YOUR_CALM)


class Failure(Enum):
    """How an attempt failed.

    NO_CONNECTION: connecting failed. No pod has a byte of the request, whatever its method.
    REUSED_LOST: an idle connection that was reused ended before the first byte of a response.
    NEW_LOST: a connection that was opened for this request did. A request that causes this twice
    may itself crash pods, so the second failure does not count against its pod.
    REFUSED: the pod did not process an HTTP/2 stream (RFC 9113 section 8.7), so any method may be
    sent again. A pod that ends does this, and is not to blame.
    REFUSED_STILL: the pod keeps refusing and responds to no request. Treated as UNTOUCHED.
    UNTOUCHED: queue-proxy reports that its application got nothing of the request
    (``knative.queue_proxy``).
    APPLICATION_LOST: queue-proxy reports that its application dropped the request without a
    response. Like NEW_LOST, but behind queue-proxy; several in a row eject the pod.
    STREAM_LOST: the pod reset the stream before its response. Like APPLICATION_LOST, since the
    connection shows that the pod is there.
    RESPONSE_LOST: the response had begun, or the pod demands fewer requests. Never sent again.
    """

    NO_CONNECTION = "no-connection"
    REUSED_LOST = "reused-lost"
    NEW_LOST = "new-lost"
    REFUSED = "refused"
    REFUSED_STILL = "refused-still"
    UNTOUCHED = "untouched"
    APPLICATION_LOST = "application-lost"
    STREAM_LOST = "stream-lost"
    RESPONSE_LOST = "response-lost"


class Then(Enum):
    """The next step for the request.

    PASS_ON: the client gets an error response. SAME_POD: the same pod gets the request again, on a
    new connection. REQUEUE: the request returns to the front of the queue.
    """

    PASS_ON = "pass-on"
    SAME_POD = "same-pod"
    REQUEUE = "requeue"


class Blame(Enum):
    """What the driver learns about the pod.

    NONE: nothing. UNREACHABLE: the pod must pass a probe first. RESPONSE: a bad response, which may
    eject the pod.
    """

    NONE = "none"
    UNREACHABLE = "unreachable"
    RESPONSE = "response"


class Consequences(NamedTuple):
    """The consequences of a failure, for the request and for the pod.

    Attributes:
        if_repeatable: for a request that may be sent again, see ``is_repeatable``.
        otherwise: for any other request.
        blame: for the pod, at the first failure of a request.
        again: for the pod, at a later failure of the same request.
    """

    if_repeatable: Then
    otherwise: Then
    blame: Blame
    again: Blame


_PASS_ON, _SAME_POD, _REQUEUE = Then.PASS_ON, Then.SAME_POD, Then.REQUEUE
_NONE, _UNREACHABLE, _RESPONSE = Blame.NONE, Blame.UNREACHABLE, Blame.RESPONSE
#: The rule for each failure.
RULES: dict[Failure, Consequences] = {
    Failure.NO_CONNECTION: Consequences(_REQUEUE, _REQUEUE, _UNREACHABLE, _UNREACHABLE),
    Failure.REUSED_LOST: Consequences(_SAME_POD, _PASS_ON, _NONE, _NONE),
    Failure.NEW_LOST: Consequences(_REQUEUE, _PASS_ON, _UNREACHABLE, _NONE),
    Failure.REFUSED: Consequences(_REQUEUE, _PASS_ON, _NONE, _NONE),
    Failure.REFUSED_STILL: Consequences(_REQUEUE, _PASS_ON, _RESPONSE, _RESPONSE),
    Failure.UNTOUCHED: Consequences(_REQUEUE, _PASS_ON, _RESPONSE, _RESPONSE),
    Failure.APPLICATION_LOST: Consequences(_REQUEUE, _PASS_ON, _RESPONSE, _NONE),
    Failure.STREAM_LOST: Consequences(_REQUEUE, _PASS_ON, _RESPONSE, _NONE),
    Failure.RESPONSE_LOST: Consequences(_PASS_ON, _PASS_ON, _RESPONSE, _RESPONSE),
}


#: Failures after which a pod may have seen the request. They count towards MAX_REPEATS.
SEEN = frozenset(
    (Failure.REUSED_LOST, Failure.NEW_LOST, Failure.APPLICATION_LOST, Failure.STREAM_LOST)
)


#: Failures which show that no application in the pod serves requests.
UNTOUCHING = frozenset((Failure.UNTOUCHED, Failure.REFUSED_STILL))


def judge(failure: Failure, *, repeatable: bool, repeats: int) -> tuple[Then, Blame]:
    """Return the consequences of a failed attempt, for the request and for the pod.

    Arguments:
        failure: how the attempt failed.
        repeatable: see ``is_repeatable``.
        repeats: earlier failures of this request that count (``SEEN``).
    """
    rule = RULES[failure]
    if failure in SEEN and repeats >= MAX_REPEATS:
        repeatable = False
    then = rule.if_repeatable if repeatable else rule.otherwise
    return then, rule.again if repeats else rule.blame


def lost(progress: Progress, *, reused: bool) -> Failure:
    """Return the failure for the end of a connection with a request on it.

    Arguments:
        progress: how far the response had come.
        reused: whether the connection had served another request before.
    """
    if progress is not Progress.SILENT:
        return Failure.RESPONSE_LOST
    return Failure.REUSED_LOST if reused else Failure.NEW_LOST


def refused(refusals: int, *, half_open: bool) -> Failure:
    """Return the failure for a request that a pod did not process.

    Arguments:
        refusals: consecutive refusals of this request, without a response of the pod in between.
        half_open: whether the pod was ejected, and has sent no good response since.
    """
    return Failure.REFUSED_STILL if half_open or refusals > MAX_REFUSALS else Failure.REFUSED


def is_repeatable(
    request: Request, body: RequestBody, failure: Failure, *, is_service: bool = False
) -> bool:
    """Return whether a request can be sent to a pod again.

    Its body must be buffered from the start. If the application may have received the request, its
    method must be idempotent, and it must not change the protocol.

    Arguments:
        request: the client's request.
        body: its body.
        failure: how the attempt failed.
        is_service: whether the pod stands for the ClusterIP. It is never ejected, so it gets no
            retries that only the deadline limits.
    """
    if failure is Failure.REFUSED or failure is Failure.UNTOUCHED:
        return body.replayable
    if failure is Failure.REFUSED_STILL:
        return body.replayable and not is_service
    return request.method in IDEMPOTENT and body.replayable and not request.upgrade


def claim_of(response: Response | ResponseFields, *, bodiless: bool) -> QueueProxyClaim | None:
    """Return the part of a response that may be queue-proxy's own; None if it cannot be.

    Arguments:
        response: the head.
        bodiless: whether the request was HEAD.
    """
    status, length = response.status, response.length
    if isinstance(response, ResponseFields):
        return claim_in_http2(status, length, response.fields, bodiless=bodiless)
    return claim_in_http1(status, length, response.block, bodiless=response.body is None)


def own_failure(claim: QueueProxyClaim | None, payload: Sequence[bytes]) -> Failure | None:
    """Return the failure that queue-proxy reports in its own words; None if it reports none.

    Arguments:
        claim: see ``claim_of``.
        payload: the whole body.
    """
    fate = fate_of(claim, payload)
    if fate is None:
        return None
    return Failure.UNTOUCHED if fate is Fate.UNTOUCHED else Failure.APPLICATION_LOST


@dataclass(slots=True)
class WithheldResponse:
    """A response that waits until it is complete.

    It may be queue-proxy's own, of at most 512 bytes. Or it is an error in place of the event
    stream that its client has begun to get.

    Attributes:
        response: the head.
        pieces: the payload so far.
        ends_stream: whether it ends the client's event stream.
    """

    response: Response | ResponseFields
    pieces: list[bytes]
    ends_stream: bool = False


@final
class Attempts:
    """The attempts of one request.

    Attributes:
        made: how often the request was assigned to a pod.
        admits: whether it is an admission request, which no pod gets.
        fresh: whether the next attempt must not use an idle HTTP/1 connection.
        secure: whether its pods get it over TLS, because it arrived so, see ``interceptor``.
        broken_by: the HTTP/2 error code with which a pod broke off its response; 0 without one.
        withheld: the doubtful response that is not complete; None without one.
        keeper: keeps the list of models in the response; None for other requests.
    """

    __slots__ = (
        "_crossed",
        "_driver",
        "_refused",
        "_repeats",
        "admits",
        "broken_by",
        "fresh",
        "keeper",
        "made",
        "secure",
        "withheld",
    )

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._repeats = 0  # failures after which a pod may have seen the request
        self._crossed: PodTracker | None = None  # the last pod that did not understand a version
        # The pod that refused last, its number of responses then, and its consecutive refusals.
        self._refused: tuple[PodTracker | None, int, int] = (None, 0, 0)
        self.made = 1
        self.admits = False
        self.fresh = self.secure = False
        self.broken_by = 0
        self.withheld: WithheldResponse | None = None
        self.keeper: ListKeeper | None = None

    # -- a response that may eject its pod ---------------------------------------------------------

    def passes(
        self,
        exchange: Exchange,
        response: Response | ResponseFields,
        payload: list[bytes],
        complete: bool,
    ) -> bool:
        """Judge a pod by its response.

        A response that may be queue-proxy's own waits until it is complete.

        Arguments:
            exchange: the exchange of the request.
            response: the head of the response.
            payload: its payload so far.
            complete: whether the response is complete.

        Returns:
            Whether the client gets the response now. If not, the response waits, or the request
            is sent again.
        """
        claim = None
        if exchange.entry.throttler.revision.behind_queue_proxy:
            claim = claim_of(response, bodiless=exchange.to_head)
        if claim is not None and not complete:
            self.withheld = WithheldResponse(response, payload)
            return False
        pod = exchange.pod()
        failure = own_failure(claim, payload)
        if failure is Failure.UNTOUCHED and pod.is_service:
            # The ClusterIP is never ejected, so the number of retries must be limited.
            failure = Failure.APPLICATION_LOST
        if failure is None or self._judged(exchange, pod, failure)[0] is Then.PASS_ON:
            if response.status not in DOUBTFUL:
                self._driver.responded_well(pod)
                return True
            text = complaint(response.status, payload if failure else None)
            self._driver.responded_badly(pod, text, untouched=failure is Failure.UNTOUCHED)
            return True
        exchange.pod_side = None
        self.failed(exchange, failure, complaint(response.status, payload), failure.value)
        return False

    # -- a failed attempt --------------------------------------------------------------------------

    def reset(self, exchange: Exchange, code: int, progress: Progress) -> None:
        """Handle a stream reset by a pod; see ``Requester.on_reset``."""
        error = f"the pod reset the stream: {name_of_code(code)}"
        began = progress is not Progress.SILENT
        if began:
            self.broken_by = code
        elif code == _REFUSED_STREAM:
            self.refused(exchange, error)
            return
        is_final = began or code == _CALM
        self.failed(exchange, Failure.RESPONSE_LOST if is_final else Failure.STREAM_LOST, error)

    def refused(self, exchange: Exchange, error: str) -> None:
        """Handle a request that a pod did not process.

        Arguments:
            exchange: the exchange of the request.
            error: the cause, for people.
        """
        pod = exchange.pod()
        pools = exchange.services.pools
        pool = pools.secured(pod) if self.secure else pools.of(pod)
        responses = pool.capacity.responses
        before, given, refusals = self._refused
        refusals = 1 if pod is before and responses > given else refusals + 1
        self._refused = pod, responses, refusals
        self.failed(exchange, refused(refusals, half_open=pod.ejection.half_open), error)

    def misunderstood(self, exchange: Exchange, error: str) -> None:
        """Send a request in the other version of HTTP, because its pod does not speak this one.

        Once at most for each pod, since it may understand neither. gRPC needs HTTP/2, and a change
        of the protocol HTTP/1.
        """
        pod, body = exchange.pod(), exchange.body
        if exchange.request.upgrade:
            why = f"{pod.address}: the pod speaks only HTTP/2, which has no Upgrade"
            exchange.stop(own_responses.no_upgrade(why), "refused")
            return
        if self._crossed is pod or not body.replayable or is_grpc(exchange.request.fields):
            self._pass_on(exchange, error)
            return
        self._crossed = pod
        self.made -= 1
        exchange.connect(pod, self._driver.clock())

    def failed(
        self, exchange: Exchange, failure: Failure, error: str, cause: str = "connection-lost"
    ) -> None:
        """Handle a failed attempt by ``RULES``.

        Arguments:
            exchange: the exchange of the request.
            failure: how the attempt failed.
            error: the cause, for people.
            cause: one of ``counters.CAUSES``, for a requeue.
        """
        if exchange.trace is not None:
            exchange.trace.failed(error)
        if exchange.state in RESPONSE_BEGUN:
            self._pass_on(exchange, error)
            return
        if self.secure and cause == "tls-failed":
            # The pod passes its probes, which are plain. It is usable for other requests.
            if self.made < MAX_HANDSHAKES:
                exchange.requeue(cause)
            else:
                self._pass_on(exchange, error)
            return
        then = self._blame(exchange, exchange.pod(), failure, error)
        if exchange.state is DONE:
            return
        if then is Then.PASS_ON:
            self._pass_on(exchange, error)
        elif then is Then.SAME_POD:
            self.fresh = True
            # One metric counts retries and requeues; its cause is the documented one.
            exchange.entry.counters.requeued("connection-closed")
            exchange.connect(exchange.pod(), self._driver.clock())
        else:
            exchange.requeue(cause)

    def _judged(self, exchange: Exchange, pod: PodTracker, failure: Failure) -> tuple[Then, Blame]:
        """Return the consequences of a failed attempt, for the request and for the pod."""
        request, body = exchange.request, exchange.body
        repeatable = is_repeatable(request, body, failure, is_service=pod.is_service)
        return judge(failure, repeatable=repeatable, repeats=self._repeats)

    def _blame(self, exchange: Exchange, pod: PodTracker, failure: Failure, error: str) -> Then:
        """Report the failure of a pod to the driver; return the step for the request."""
        then, blame = self._judged(exchange, pod, failure)
        seen = failure in SEEN
        self._repeats += seen
        if blame is Blame.UNREACHABLE:
            self._driver.connect_failed(pod, error, sent=seen)
        elif blame is Blame.RESPONSE:
            self._driver.responded_badly(pod, error, untouched=failure in UNTOUCHING)
        return then

    @staticmethod
    def _pass_on(exchange: Exchange, error: str) -> None:
        response = own_responses.upstream_failed(f"{exchange.pod().address}: {error}")
        exchange.stop(response, "upstream-failed")

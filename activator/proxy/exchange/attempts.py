"""Handles failed attempts of one request by the table in ``retry``, and reports its pod.

An exchange makes this record at the first doubtful response or failure. So a request that is served
at once costs nothing here. The record acts on its exchange in three ways: send again, requeue,
stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from activator.driver import Driver
from activator.knative.queue_proxy import DOUBTFUL, complaint
from activator.proxy.exchange import error_responses, retry
from activator.proxy.exchange.observers import Trace
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.exchange.retry import Blame, Failure, Then, claim_of, own_failure
from activator.proxy.exchange.states import DONE, RESPONSE_BEGUN, State
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.http2.frames import ErrorCode, name_of_code
from activator.proxy.message.grpc import is_grpc
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.records.entries import Entry
from throttler.pod import PodTracker
from throttler.ticket import Ticket

_REFUSED_STREAM: Final = int(ErrorCode.REFUSED_STREAM)
#: An overloaded pod resets a stream with this code. The client gets the error, as with a 503.
_CALM: Final = int(ErrorCode.ENHANCE_YOUR_CALM)


class Retrying(Protocol):
    """The part of an exchange that its attempts use."""

    state: State
    request: Request
    body: RequestBody
    entry: Entry
    ticket: Ticket
    trace: Trace | None
    to_head: bool

    def send_again(self) -> None:
        """Send the request again to the pod whose slot it has."""

    def requeue(self, cause: str) -> None:
        """Put the request at the front of the queue.

        Arguments:
            cause: one of ``counters.CAUSES``.
        """

    def stop(self, response: OwnResponse, ended: str) -> None:
        """End the request with an error response, or break off a response that has begun.

        Arguments:
            response: the error response.
            ended: one of ``counters.OUTCOMES``.
        """

    def detach(self) -> None:
        """Release the pod's side, because its response is complete."""


@final
class WithheldResponse:
    """A response that waits until it is complete.

    It may be queue-proxy's own, of at most 512 bytes. Or it is an error in place of the event
    stream that its client has begun to get.

    Attributes:
        response: the head.
        pieces: the payload so far.
        ends_stream: whether it ends the client's event stream.
    """

    __slots__ = ("ends_stream", "pieces", "response")

    def __init__(
        self,
        response: Response | ResponseFields,
        pieces: list[bytes],
        *,
        ends_stream: bool = False,
    ) -> None:
        self.response = response
        self.pieces = pieces
        self.ends_stream = ends_stream


@final
class Attempts:
    """The attempts of one request.

    Attributes:
        made: how often the request was assigned to a pod.
        admits: whether it is an admission request, which no pod gets.
        fresh: whether the next attempt must not use an idle HTTP/1 connection.
        broken_by: the HTTP/2 error code with which a pod broke off its response; 0 without one.
        withheld: the doubtful response that is not complete; None without one.
    """

    __slots__ = (
        "_crossed",
        "_driver",
        "_refused",
        "_repeats",
        "admits",
        "broken_by",
        "fresh",
        "made",
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
        self.fresh = False
        self.broken_by = 0
        self.withheld: WithheldResponse | None = None

    # -- a response that may eject its pod ---------------------------------------------------------

    def passes(
        self,
        exchange: Retrying,
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
        pod = pod_of(exchange.ticket)
        failure = own_failure(claim, payload)
        if failure is Failure.UNTOUCHED and pod.is_service:
            # The ClusterIP is never ejected, so the number of retries must be limited.
            failure = Failure.APPLICATION_LOST
        if failure is None or not self._may_go_again(exchange, pod, failure):
            self._judge(pod, response.status, failure, payload)
            return True
        exchange.detach()
        self.failed(exchange, failure, complaint(response.status, payload), failure.value)
        return False

    def _judge(
        self, pod: PodTracker, status: int, failure: Failure | None, body: Sequence[bytes]
    ) -> None:
        """Report a response that the client gets as good or bad for its pod."""
        if status not in DOUBTFUL:
            self._driver.responded_well(pod)
            return
        text = complaint(status, body if failure else None)
        self._driver.responded_badly(pod, text, untouched=failure is Failure.UNTOUCHED)

    # -- a failed attempt --------------------------------------------------------------------------

    def reset(self, exchange: Retrying, code: int, began: bool, responses: int) -> None:
        """Handle a stream reset by a pod; see ``Requester.on_reset`` and ``refused``."""
        error = f"the pod reset the stream: {name_of_code(code)}"
        if began:
            self.broken_by = code
        elif code == _REFUSED_STREAM:
            self.refused(exchange, responses, error)
            return
        is_final = began or code == _CALM
        self.failed(exchange, Failure.RESPONSE_LOST if is_final else Failure.STREAM_LOST, error)

    def refused(self, exchange: Retrying, responses: int, error: str) -> None:
        """Handle a request that a pod did not process.

        Arguments:
            exchange: the exchange of the request.
            responses: how many responses the pod has sent so far.
            error: the cause, for people.
        """
        pod = pod_of(exchange.ticket)
        before, given, refusals = self._refused
        refusals = 1 if pod is before and responses > given else refusals + 1
        self._refused = pod, responses, refusals
        self.failed(exchange, retry.refused(refusals, half_open=pod.ejection.half_open), error)

    def misunderstood(self, exchange: Retrying, error: str) -> None:
        """Send a request in the other version of HTTP, because its pod does not speak this one.

        Once at most for each pod, since it may understand neither. gRPC needs HTTP/2, and a change
        of the protocol HTTP/1.
        """
        pod, body = pod_of(exchange.ticket), exchange.body
        if exchange.request.upgrade:
            exchange.stop(error_responses.no_upgrade(pod), "refused")
            return
        if self._crossed is pod or not body.replayable or is_grpc(exchange.request.fields):
            self._pass_on(exchange, error)
            return
        self._crossed = pod
        self.made -= 1
        exchange.send_again()

    def failed(
        self, exchange: Retrying, failure: Failure, error: str, cause: str = "connection-lost"
    ) -> None:
        """Handle a failed attempt by the rules of ``retry``.

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
        then = self._blame(exchange, pod_of(exchange.ticket), failure, error)
        if exchange.state is DONE:
            return
        if then is Then.PASS_ON:
            self._pass_on(exchange, error)
        elif then is Then.SAME_POD:
            self.fresh = True
            exchange.entry.counters.requeued("connection-closed")
            exchange.send_again()
        else:
            exchange.requeue(cause)

    def _blame(self, exchange: Retrying, pod: PodTracker, failure: Failure, error: str) -> Then:
        """Report the failure of a pod to the driver; return the step for the request."""
        seen = failure in retry.SEEN
        repeatable = _may_repeat(exchange, pod, failure)
        then, blame = retry.judge(failure, repeatable=repeatable, repeats=self._repeats)
        self._repeats += seen
        if blame is Blame.UNREACHABLE:
            self._driver.connect_failed(pod, error, sent=seen)
        elif blame is Blame.RESPONSE:
            self._driver.responded_badly(pod, error, untouched=failure in retry.UNTOUCHING)
        return then

    def _may_go_again(self, exchange: Retrying, pod: PodTracker, failure: Failure) -> bool:
        return retry.again(failure, _may_repeat(exchange, pod, failure), self._repeats)

    @staticmethod
    def _pass_on(exchange: Retrying, error: str) -> None:
        response = error_responses.failed(pod_of(exchange.ticket), error)
        exchange.stop(response, "upstream-failed")


def pod_of(ticket: Ticket) -> PodTracker:
    """Return the pod to which a request is assigned."""
    assert ticket.pod is not None
    return ticket.pod


def _may_repeat(exchange: Retrying, pod: PodTracker, failure: Failure) -> bool:
    """Return whether a request can be sent again after a failure."""
    if failure is Failure.REFUSED:
        return exchange.body.replayable
    if failure is Failure.REFUSED_STILL:
        # The ClusterIP is never ejected, so it gets no retries that only the deadline limits.
        return exchange.body.replayable and not pod.is_service
    return retry.may_repeat(exchange.request, exchange.body, failure)

"""Decides whether a request is sent again, and to which pod: one table with a row for each failure.

Pure. A request that a pod may have seen is sent again only if its method is idempotent (RFC 9110
section 9.2.2). A pod may close an idle connection just as the activator uses it (RFC 9112 section
9.3.1). Such a failure is not the pod's fault. Knative's counterpart: Go's transport
(shouldRetryRequest), and the dialer of knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from activator.knative.queue_proxy import Claim, Fate, claim_in_http1, claim_in_http2, fate_of
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.request import IDEMPOTENT, Request
from activator.proxy.message.response import Response

#: How often one request is sent again after a pod may have seen it. Attempts that no application
#: processed do not count; only the deadline limits these.
MAX_REPEATS = 3
#: A pod that refuses one request more often than this is ejected, if it sent no response in
#: between. Few, since each retry follows at once. One is too few: the GOAWAY of a pod that drains
#: may also reach the connection of the retry.
MAX_REFUSALS = 3


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


class Rule(NamedTuple):
    """The consequences of a failure.

    Attributes:
        repeatable: for a request that may be sent again, see ``may_repeat``.
        other: for any other request.
        blame: for the pod, at the first failure of a request.
        again: for the pod, at a later failure of the same request.
    """

    repeatable: Then
    other: Then
    blame: Blame
    again: Blame


#: The rule for each failure.
RULES: dict[Failure, Rule] = {
    Failure.NO_CONNECTION: Rule(
        Then.REQUEUE, Then.REQUEUE, blame=Blame.UNREACHABLE, again=Blame.UNREACHABLE
    ),
    Failure.REUSED_LOST: Rule(Then.SAME_POD, Then.PASS_ON, blame=Blame.NONE, again=Blame.NONE),
    Failure.NEW_LOST: Rule(Then.REQUEUE, Then.PASS_ON, blame=Blame.UNREACHABLE, again=Blame.NONE),
    Failure.REFUSED: Rule(Then.REQUEUE, Then.PASS_ON, blame=Blame.NONE, again=Blame.NONE),
    Failure.REFUSED_STILL: Rule(
        Then.REQUEUE, Then.PASS_ON, blame=Blame.RESPONSE, again=Blame.RESPONSE
    ),
    Failure.UNTOUCHED: Rule(Then.REQUEUE, Then.PASS_ON, blame=Blame.RESPONSE, again=Blame.RESPONSE),
    Failure.APPLICATION_LOST: Rule(
        Then.REQUEUE, Then.PASS_ON, blame=Blame.RESPONSE, again=Blame.NONE
    ),
    Failure.STREAM_LOST: Rule(Then.REQUEUE, Then.PASS_ON, blame=Blame.RESPONSE, again=Blame.NONE),
    Failure.RESPONSE_LOST: Rule(
        Then.PASS_ON, Then.PASS_ON, blame=Blame.RESPONSE, again=Blame.RESPONSE
    ),
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
        repeatable: see ``may_repeat``.
        repeats: earlier failures of this request that count (``SEEN``).
    """
    rule = RULES[failure]
    if failure in SEEN and repeats >= MAX_REPEATS:
        repeatable = False
    return rule.repeatable if repeatable else rule.other, rule.again if repeats else rule.blame


def again(failure: Failure, repeatable: bool, repeats: int) -> bool:
    """Return whether the request is sent again; arguments as for ``judge``."""
    return judge(failure, repeatable=repeatable, repeats=repeats)[0] is not Then.PASS_ON


def lost(*, began: bool, reused: bool) -> Failure:
    """Return the failure for the end of a connection with a request on it.

    Arguments:
        began: whether any byte of a response had arrived.
        reused: whether the connection had served another request before.
    """
    if began:
        return Failure.RESPONSE_LOST
    return Failure.REUSED_LOST if reused else Failure.NEW_LOST


def refused(refusals: int, *, half_open: bool) -> Failure:
    """Return the failure for a request that a pod did not process.

    Arguments:
        refusals: consecutive refusals of this request, without a response of the pod in between.
        half_open: whether the pod was ejected, and has sent no good response since.
    """
    return Failure.REFUSED_STILL if half_open or refusals > MAX_REFUSALS else Failure.REFUSED


def may_repeat(request: Request, body: RequestBody, failure: Failure) -> bool:
    """Return whether a request that a pod may have seen can be sent to a pod again.

    Its body must be buffered from the start. If the application may have received the request, its
    method must be idempotent, and it must not change the protocol.

    Arguments:
        request: the client's request.
        body: its body.
        failure: how the attempt failed.
    """
    if failure is Failure.UNTOUCHED:
        return body.replayable
    return request.method in IDEMPOTENT and body.replayable and not request.upgrade


def may_be_lost(request: Request) -> bool:
    """Return whether a request may use an idle connection without a check that it is open.

    It may if its method allows a retry, and no body or change of protocol can prevent it.
    """
    return request.method in IDEMPOTENT and not request.has_body and not request.upgrade


def claim_of(response: Response | ResponseFields, *, bodiless: bool) -> Claim | None:
    """Return the part of a response that may be queue-proxy's own; None if it cannot be.

    Arguments:
        response: the head.
        bodiless: whether the request was HEAD.
    """
    status, length = response.status, response.length
    if isinstance(response, ResponseFields):
        return claim_in_http2(status, length, response.fields, bodiless=bodiless)
    return claim_in_http1(status, length, response.block, bodiless=response.body is None)


def own_failure(claim: Claim | None, payload: Sequence[bytes]) -> Failure | None:
    """Return the failure that queue-proxy reports in its own words; None if it reports none.

    Arguments:
        claim: see ``claim_of``.
        payload: the whole body.
    """
    fate = fate_of(claim, payload)
    if fate is None:
        return None
    return Failure.UNTOUCHED if fate is Fate.UNTOUCHED else Failure.APPLICATION_LOST

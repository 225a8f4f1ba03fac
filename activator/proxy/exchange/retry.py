"""When a request is sent again, and where: one table over what became of an attempt.

Pure: what was met goes in, what to do comes out. RFC 9110 section 9.2.2: what a pod may have seen
is sent again only where a second time has no second effect. RFC 9112 section 9.3.1: a connection
that was kept may end as it is used, which says nothing against the pod. Knative's counterpart:
Go's transport (shouldRetryRequest), and the dialer of knative.dev/pkg/network/transports.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from activator.knative.queue_proxy import Claim, Fate, claim_in_http1, claim_in_http2, own_words
from activator.proxy.exchange.request_body import RequestBody
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.request import IDEMPOTENT, Request
from activator.proxy.message.response import Response

#: How often one request is sent again after a pod may have seen it. What queue-proxy gives back
#: untouched does not count, nor what a pod has not looked at: there the deadline is the bound.
MAX_REPEATS = 3
#: Consecutive refusals of one request, without a response of the pod between them, that eject the
#: pod. Few, since each retry goes out at once. One is too few: the GOAWAY of a pod that drains may
#: also reach the connection of the retry.
MAX_REFUSALS = 3


class Failure(Enum):
    """What became of an attempt to have a request answered."""

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
    """What follows for the request."""

    PASS_ON = "pass-on"
    SAME_POD = "same-pod"
    REQUEUE = "requeue"


class Blame(Enum):
    """What the attempt says of the pod."""

    NONE = "none"
    UNREACHABLE = "unreachable"
    RESPONSE = "response"


class Rule(NamedTuple):
    """What follows from a failure: for a request that may be repeated, for any other, for the pod.

    Attributes:
        repeatable: what follows where ``may_repeat``; other: where not.
        blame: of the pod at the first failure; again: at a later one of the same request.
    """

    repeatable: Then
    other: Then
    blame: Blame
    again: Blame


#: NO_CONNECTION: refused or not answered in time: no pod has a byte of it, of whatever method.
#: REUSED_LOST, NEW_LOST: the connection, kept from before or opened for this request, ended after
#: the request was sent and before the first byte of a response. A request that causes NEW_LOST
#: twice may itself crash pods, so the second one does not count against its pod.
#: REFUSED: the pod says of a stream of HTTP/2 that it has not looked at it (RFC 9113 section 8.7),
#: so that any method may be sent again; a pod that ends does so, and is not to blame.
#: REFUSED_STILL: the pod keeps refusing and responds to no request. Treated as UNTOUCHED.
#: UNTOUCHED: queue-proxy says that its application had nothing of it (knative.queue_proxy).
#: APPLICATION_LOST: queue-proxy reports that its application dropped the request without a
#: response. Like NEW_LOST, but behind queue-proxy; several in a row eject the pod.
#: STREAM_LOST: the pod reset the stream before its response. Like APPLICATION_LOST: the connection
#: shows that the pod is there.
#: RESPONSE_LOST: the response had begun, or the pod asks for less: never sent again.
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

#: Failures after which a pod may have seen the request; these count as repeats.
SEEN = frozenset(
    (Failure.REUSED_LOST, Failure.NEW_LOST, Failure.APPLICATION_LOST, Failure.STREAM_LOST)
)

#: Failures that say of the pod that nothing behind it is there for requests.
UNTOUCHING = frozenset((Failure.UNTOUCHED, Failure.REFUSED_STILL))


def judge(failure: Failure, *, repeatable: bool, repeats: int) -> tuple[Then, Blame]:
    """Return what follows from a failed attempt, for the request and of the pod.

    Arguments:
        repeatable: see ``may_repeat``.
        repeats: failures of this request before, of those that count (``SEEN``).
    """
    rule = RULES[failure]
    if failure in SEEN and repeats >= MAX_REPEATS:
        repeatable = False
    return rule.repeatable if repeatable else rule.other, rule.again if repeats else rule.blame


def again(failure: Failure, repeatable: bool, repeats: int) -> bool:
    """Whether the request is sent again; see ``judge``."""
    return judge(failure, repeatable=repeatable, repeats=repeats)[0] is not Then.PASS_ON


def lost(*, answered: bool, reused: bool) -> Failure:
    """Return which failure the end of a connection with a request on it is.

    Arguments:
        answered: whether a byte of an answer had come; reused: whether it was kept from before.
    """
    if answered:
        return Failure.RESPONSE_LOST
    return Failure.REUSED_LOST if reused else Failure.NEW_LOST


def refused(refusals: int, *, half_open: bool) -> Failure:
    """Return which failure it is that a pod has not looked at a request.

    Arguments:
        refusals: how often the request has met that, with no answer of the pod in between.
        half_open: the pod was ejected, and has not responded well since.
    """
    return Failure.REFUSED_STILL if half_open or refusals > MAX_REFUSALS else Failure.REFUSED


def may_repeat(request: Request, body: RequestBody, failure: Failure) -> bool:
    """Whether a request that a pod may have seen can be sent to a pod again: only a method that
    has no second effect, and only with all that came of its body still held.

    A request to change the protocol is sent again only if no application has received it.
    """
    if request.upgrade and failure is not Failure.UNTOUCHED:
        return False
    return request.method in IDEMPOTENT and body.replayable


def may_be_lost(request: Request) -> bool:
    """Return whether a request may use an idle connection without a check that it is open.

    It may if it can certainly be sent again.
    """
    return request.method in IDEMPOTENT and not request.has_body and not request.upgrade


def claim_of(response: Response | ResponseFields, *, bodiless: bool) -> Claim | None:
    """Return what of a response may be queue-proxy's own; None where it is not.

    Arguments:
        bodiless: whether it is to a HEAD.
    """
    status, length = response.status, response.length
    if isinstance(response, ResponseFields):
        return claim_in_http2(status, length, response.fields, bodiless=bodiless)
    return claim_in_http1(status, length, response.block, bodiless=response.body is None)


def own_failure(claim: Claim | None, payload: Sequence[bytes]) -> Failure | None:
    """Return the failure that queue-proxy reports by its own words; None if it reports none.

    Arguments:
        payload: all of the body.
    """
    fate = own_words(claim, payload)
    if fate is None:
        return None
    return Failure.UNTOUCHED if fate is Fate.UNTOUCHED else Failure.APPLICATION_LOST

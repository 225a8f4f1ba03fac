"""What queue-proxy answers by itself, without its application: known by its words alone.

Pure. Source: Knative cmd/queue and pkg/queue/handler.go: all are written by Go's http.Error, with
the text of the error: what Go's transport met on its way to 127.0.0.1, or the breaker's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from activator.proxy.response import Response
from activator.proxy.retry import Failure

#: What may mean that the application is not there: only these are looked at.
DOUBTFUL = frozenset((502, 503))
#: Bytes of an answer's body; those of queue-proxy's have about 60.
MAX_BODY = 512
_HERE = rb"(127\.0\.0\.1|\[::1\]):\d{1,5}"
#: ``dial tcp 127.0.0.1:8080: connect: connection refused``: no other error of its transport says
#: that the application has nothing of the request.
_NOT_DIALED = re.compile(rb"dial tcp %b: [^\r\n]+\n" % _HERE)
#: ``EOF``, ``read tcp 127.0.0.1:4321->127.0.0.1:8080: read: connection reset by peer``: the
#: application may have had it.
_DROPPED = re.compile(
    rb"(EOF|(read|write) tcp %b->%b: (read|write): (connection reset by peer|broken pipe))\n"
    % (_HERE, _HERE)
)
_QUEUE_FULL = b"pending request queue full\n"
#: What http.Error says of its text.
_NOSNIFF = b"\r\nX-Content-Type-Options: nosniff"
_PLAIN = b"\r\nContent-Type: text/plain; charset=utf-8"


def may_be_own(response: Response) -> bool:
    """Whether an answer has the status, the fields and a length of queue-proxy's own."""
    return (
        response.status in DOUBTFUL
        and 0 < response.length <= MAX_BODY
        and _NOSNIFF in response.block
        and _PLAIN in response.block
    )


def own_failure(response: Response, payload: Sequence[bytes]) -> Failure | None:
    """Return what became of a request, where it is queue-proxy that says so; else None.

    An answer to HEAD has its fields and its length alone, and these may be the application's: what
    they claim is bounded by number, and to ask again does no harm.

    Arguments:
        payload: all of the body.
    """
    if not may_be_own(response):
        return None
    if response.body is None:
        other = response.status == 503 and response.length != len(_QUEUE_FULL)
        return None if other else Failure.APPLICATION_LOST
    body = b"".join(payload)
    if response.status == 503:
        return Failure.UNTOUCHED if body == _QUEUE_FULL else None
    if _NOT_DIALED.fullmatch(body):
        return Failure.UNTOUCHED
    return Failure.APPLICATION_LOST if _DROPPED.fullmatch(body) else None


def complaint(response: Response, body: Sequence[bytes] | None) -> str:
    """Return what was answered, for people.

    Arguments:
        body: what queue-proxy says; None of an application's answer, whose words are its own.
            Empty in an answer to HEAD.
    """
    text = f"answered {response.status}"
    return text if not body else f"{text}: {b''.join(body).decode('latin-1').strip()}"

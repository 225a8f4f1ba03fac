"""Recognizes responses that queue-proxy makes itself, without its application, by their words.

Pure: statuses, fields and bodies are arguments. Go's http.Error writes all of these responses. The
body is an error of Go's transport, which connects to 127.0.0.1, or of queue-proxy's breaker.
Source: Knative cmd/queue and pkg/queue/handler.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from activator.knative.words import QUEUE_FULL

#: Statuses of responses that queue-proxy may have made itself.
DOUBTFUL: Final = frozenset((502, 503))
#: Most bytes of such a body. queue-proxy's bodies usually have 60 bytes, and at most 220.
MAX_BODY = 512
_HERE = rb"(127\.0\.0\.1|\[::1\]):\d{1,5}"
#: ``dial tcp 127.0.0.1:8080: connect: connection refused``: the only error of the transport after
#: which the application has no part of the request.
_NOT_DIALED = re.compile(rb"dial tcp %b: [^\r\n]+\n" % _HERE)
#: Errors of the transport on a connection that the application has closed. The transport itself may
#: have closed it for that reason, while it still sent.
_CUT = (
    rb"((read|write|splice): (connection reset by peer|broken pipe)"
    rb"|use of closed network connection)"
)
_BETWEEN = rb"tcp %b->%b: " % (_HERE, _HERE)
#: Errors after which the application may have had the request. Examples: ``EOF``, ``read tcp
#: 127.0.0.1:4321->127.0.0.1:8080: read: connection reset by peer``, and for a request with a body
#: ``readfrom tcp A->B: write tcp A->B: write: broken pipe``. Source: Go's net/http/transport.go and
#: net/tcpsock.go.
_DROPPED = re.compile(
    rb"(EOF|net/http: cannot rewind body after connection loss"
    rb"|(net/http: HTTP/1\.x transport connection broken: )?"
    rb"((readfrom %b)?(read|write) %b%b|readfrom %b%b))\n"
    % (_BETWEEN, _BETWEEN, _CUT, _BETWEEN, _CUT)
)
_QUEUE_FULL: Final = QUEUE_FULL.encode() + b"\n"
#: The fields of http.Error for its text, in HTTP/1 and in HTTP/2.
_NOSNIFF = b"\r\nX-Content-Type-Options: nosniff"
_PLAIN = b"\r\nContent-Type: text/plain; charset=utf-8"
_GO = {b"x-content-type-options": b"nosniff", b"content-type": b"text/plain; charset=utf-8"}


class Fate(Enum):
    """The state of a request for which queue-proxy made the response itself.

    UNTOUCHED: the application has no part of it. LOST: the application may have had it.
    """

    UNTOUCHED = "untouched"
    LOST = "lost"


class QueueProxyClaim(NamedTuple):
    """A response that has a status, the fields and a length of queue-proxy's own.

    Attributes:
        length: bytes of its body, by Content-Length.
        bodiless: whether it is a response to HEAD.
    """

    status: int
    length: int
    bodiless: bool


def claim_in_http1(
    status: int, length: int, block: bytes, *, bodiless: bool
) -> QueueProxyClaim | None:
    """Return the claim of an HTTP/1 response; None if queue-proxy did not make the response.

    Arguments:
        length: Content-Length; -1 without one.
        block: the field lines, each after its CRLF.
        bodiless: whether it is a response to HEAD.
    """
    if not (_NOSNIFF in block and _PLAIN in block):
        return None
    return _claim(status, length, bodiless)


def claim_in_http2(
    status: int, length: int, fields: Mapping[bytes, bytes], *, bodiless: bool
) -> QueueProxyClaim | None:
    """Return the claim of an HTTP/2 response; None if queue-proxy did not make the response.

    Arguments:
        length: Content-Length; -1 without one.
        fields: values by names in lower case.
        bodiless: whether it is a response to HEAD.
    """
    if any(fields.get(name) != value for name, value in _GO.items()):
        return None
    return _claim(status, length, bodiless)


def _claim(status: int, length: int, bodiless: bool) -> QueueProxyClaim | None:
    if status not in DOUBTFUL or not 0 < length <= MAX_BODY:
        return None
    return QueueProxyClaim(status, length, bodiless)


def fate_of(claim: QueueProxyClaim | None, payload: Sequence[bytes]) -> Fate | None:
    """Return the state of a request; None if queue-proxy did not make the response.

    A response to HEAD has only fields and a length, which may be the application's. A wrong result
    does little harm: HEAD may be retried, and retries are limited.

    Arguments:
        claim: of the response.
        payload: the whole body, in pieces.
    """
    if claim is None:
        return None
    if claim.bodiless:
        other = claim.status == 503 and claim.length != len(_QUEUE_FULL)
        return None if other else Fate.LOST
    body = b"".join(payload)
    if claim.status == 503:
        return Fate.UNTOUCHED if body == _QUEUE_FULL else None
    if _NOT_DIALED.fullmatch(body):
        return Fate.UNTOUCHED
    return Fate.LOST if _DROPPED.fullmatch(body) else None


def complaint(status: int, body: Sequence[bytes] | None) -> str:
    """Return a description of an error response, for people.

    Arguments:
        body: of a response that queue-proxy made, empty for HEAD. None for a response of the
            application, whose body may be confidential.
    """
    text = f"responded {status}"
    return text if not body else f"{text}: {b''.join(body).decode('latin-1').strip()}"

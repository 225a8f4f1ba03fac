"""Responses that queue-proxy gives itself, without its application: recognized by their words.

Pure. Knows no side of an exchange: statuses, fields and bodies are arguments. Source: Knative
cmd/queue and pkg/queue/handler.go. Go's http.Error writes all of them, with the text of the error:
that of Go's transport on its way to 127.0.0.1, or the breaker's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from activator.knative.response_texts import QUEUE_FULL

#: What may mean that the application is not there: only these are looked at.
DOUBTFUL: Final = frozenset((502, 503))
#: Bytes of an answer's body; queue-proxy's own have 60 as a rule, and 220 at most.
MAX_BODY = 512
_HERE = rb"(127\.0\.0\.1|\[::1\]):\d{1,5}"
#: ``dial tcp 127.0.0.1:8080: connect: connection refused``: no other error of its transport says
#: that the application has nothing of the request.
_NOT_DIALED = re.compile(rb"dial tcp %b: [^\r\n]+\n" % _HERE)
#: What its transport says of a connection that the application has ended, or that it ended itself
#: for that reason while it still sent.
_CUT = (
    rb"((read|write|splice): (connection reset by peer|broken pipe)"
    rb"|use of closed network connection)"
)
_BETWEEN = rb"tcp %b->%b: " % (_HERE, _HERE)
#: ``EOF``, ``read tcp 127.0.0.1:4321->127.0.0.1:8080: read: connection reset by peer``; with a body
#: also ``readfrom tcp A->B: write tcp A->B: write: broken pipe``: the application may have had it.
#: Go's words for what surrounds them: net/http/transport.go, net/tcpsock.go.
_DROPPED = re.compile(
    rb"(EOF|net/http: cannot rewind body after connection loss"
    rb"|(net/http: HTTP/1\.x transport connection broken: )?"
    rb"((readfrom %b)?(read|write) %b%b|readfrom %b%b))\n"
    % (_BETWEEN, _BETWEEN, _CUT, _BETWEEN, _CUT)
)
_QUEUE_FULL: Final = QUEUE_FULL.encode() + b"\n"
#: What http.Error says of its text.
_NOSNIFF = b"\r\nX-Content-Type-Options: nosniff"
_PLAIN = b"\r\nContent-Type: text/plain; charset=utf-8"
#: The same as fields of HTTP/2.
_GO = {b"x-content-type-options": b"nosniff", b"content-type": b"text/plain; charset=utf-8"}


class Fate(Enum):
    """What became of a request, by queue-proxy's own words.

    UNTOUCHED: its application has nothing of it. LOST: its application may have had it.
    """

    UNTOUCHED = "untouched"
    LOST = "lost"


class Claim(NamedTuple):
    """An answer that has the status, the fields and a length of queue-proxy's own.

    Attributes:
        bodiless: it is to a HEAD.
    """

    status: int
    length: int
    bodiless: bool


def claim_in_http1(status: int, length: int, block: bytes, *, bodiless: bool) -> Claim | None:
    """Return what of a response in HTTP/1 may be queue-proxy's own; None where it is not.

    Arguments:
        length: Content-Length, -1 if it is not said; block: the fields, each behind its CRLF.
        bodiless: whether it is to a HEAD.
    """
    if not (_NOSNIFF in block and _PLAIN in block):
        return None
    return _claim(status, length, bodiless)


def claim_in_http2(
    status: int, length: int, fields: Mapping[bytes, bytes], *, bodiless: bool
) -> Claim | None:
    """Return the same of an answer in HTTP/2.

    Arguments:
        length: Content-Length, -1 if it is not said; fields: by their names in small letters.
        bodiless: whether it is to a HEAD.
    """
    if any(fields.get(name) != value for name, value in _GO.items()):
        return None
    return _claim(status, length, bodiless)


def _claim(status: int, length: int, bodiless: bool) -> Claim | None:
    if status not in DOUBTFUL or not 0 < length <= MAX_BODY:
        return None
    return Claim(status, length, bodiless)


def own_words(claim: Claim | None, payload: Sequence[bytes]) -> Fate | None:
    """Return what became of a request, where it is queue-proxy that says so; else None.

    An answer to HEAD has its fields and its length alone, and these may be the application's: what
    they claim is bounded by number, and to ask again does no harm.

    Arguments:
        payload: all of the body.
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
    """Return what was answered, for people.

    Arguments:
        body: what queue-proxy says; None of an application's answer, whose words are its own.
            Empty in an answer to HEAD.
    """
    text = f"responded {status}"
    return text if not body else f"{text}: {b''.join(body).decode('latin-1').strip()}"

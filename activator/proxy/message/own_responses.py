"""The activator's own responses, byte for byte as Knative's.

``knative.response_texts`` has the texts; Go's net/http Error is the source of the fields. Only the
field ``Activator-Reason`` is new.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from activator.knative import response_texts
from activator.knative.control_fields import NETWORK_HASH_START
from activator.knative.probes import AUTOSCALER_BODY
from activator.proxy.message.version import HTTP_1_0, Version
from throttler.errors import RevisionNotFound, WaitTooLong
from throttler.reason import Reason

#: Bytes of a request's or a pod's text that an answer repeats.
_ECHO: Final = 200

PLAIN: Final = b"\r\nContent-Type: text/plain; charset=utf-8"
_NOSNIFF: Final = PLAIN + b"\r\nX-Content-Type-Options: nosniff"

_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}


@dataclass(frozen=True, slots=True)
class OwnResponse:
    """An answer of our own.

    Attributes:
        status: its code.
        fields: header fields, each preceded by its CRLF.
        body: what follows.
        reason: why; None of an answer to a probe, where there is nothing to explain. Goes out as
            Activator-Reason.
        detail: more about it, for people; may be what a pod or a client wrote.
        retry_after: seconds after which to ask again (RFC 9110 section 10.2.3); None says nothing.
    """

    status: int
    fields: bytes = b""
    body: bytes = b""
    reason: Reason | None = None
    detail: str = ""
    retry_after: int | None = None

    @property
    def why(self) -> str:
        """The reason, and behind ``; `` its detail, in one short printable line; may be empty."""
        if self.reason is None:
            return ""
        detail = printable(self.detail)
        return f"{self.reason.value}; {detail}" if detail else self.reason.value

    def render(self, *, date: bytes, head_only: bool, keep_alive: bool, version: Version) -> bytes:
        """Return the answer as it goes out.

        Arguments:
            date: the present date for the Date field.
            head_only: whether the request was HEAD.
            keep_alive: whether the connection stays; version: the client's.
        """
        connection = b""
        if not keep_alive:
            connection = b"\r\nConnection: close"
        elif version is HTTP_1_0:
            connection = b"\r\nConnection: keep-alive"
        return b"%b%b%b\r\nDate: %b\r\nContent-Length: %d%b\r\n\r\n%b" % (
            _STATUS_LINES[self.status],
            self.fields,
            self.reason_lines(),
            date,
            len(self.body),
            connection,
            b"" if head_only else self.body,
        )

    def reason_lines(self) -> bytes:
        """Return the field lines that say why, and when to ask again."""
        lines = b"" if self.retry_after is None else b"\r\nRetry-After: %d" % self.retry_after
        return lines + b"\r\nActivator-Reason: " + self.why.encode() if self.reason else lines


def _error(
    status: int,
    text: str,
    reason: Reason | None = None,
    detail: str = "",
    retry_after: int | None = None,
) -> OwnResponse:
    """What Go's http.Error writes: the text with a line feed."""
    return OwnResponse(status, _NOSNIFF, text.encode() + b"\n", reason, detail, retry_after)


def printable(text: str) -> str:
    """Errors of pods and names of requests end up here: one line, printable, bounded."""
    text = text[:_ECHO]
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


HEALTHY: Final = OwnResponse(200)
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
ACTIVATOR_PROBE: Final = OwnResponse(200, PLAIN, AUTOSCALER_BODY)
MISSING_HASH: Final = _error(400, response_texts.MISSING_HASH)


_HASH: Final = b"\r\n" + NETWORK_HASH_START
_TIMED_OUT: Final = response_texts.TIMED_OUT.encode()


def unhealthy(why: str) -> OwnResponse:
    """The answer to a kubelet's probe while we are not ready."""
    return _error(500, why)


def network_probe(hash_value: bytes) -> OwnResponse:
    """The answer to an ingress's probe: its configuration hash."""
    return OwnResponse(200, _HASH + hash_value) if hash_value else MISSING_HASH


def unexpected_probe(value: bytes) -> OwnResponse:
    """Return the response to an unknown value of K-Network-Probe."""
    return _error(400, response_texts.unexpected_probe(value))


def not_found(error: RevisionNotFound) -> OwnResponse:
    """No such revision, or none that the request names in full."""
    text = response_texts.not_found(error.name)
    return _error(
        404, text, Reason.UNKNOWN_REVISION, "" if error.namespace else response_texts.NAME_IT
    )


def queue_full(bound: str, retry_after: int | None = None) -> OwnResponse:
    """No more requests may wait; ``bound`` as in throttler.errors.RequestQueueFull."""
    return _error(503, response_texts.QUEUE_FULL, Reason.QUEUE_FULL, bound, retry_after)


def shed(error: WaitTooLong, retry_after: int | None = None) -> OwnResponse:
    """It would wait in vain."""
    detail = f"{error.expected:.1f} s expected, {error.limit:.1f} s left"
    return _error(503, str(error), Reason.WAIT_TOO_LONG, detail, retry_after)


def too_many_connections(retry_after: int | None = None) -> OwnResponse:
    """No more connections of clients may be open."""
    return _plain(503, "too many connections", Reason.QUEUE_FULL, retry_after)


def too_many_heads(retry_after: int | None = None) -> OwnResponse:
    """No more of request heads that are not at their end may be kept."""
    return _plain(503, "too many unfinished request heads", Reason.QUEUE_FULL, retry_after)


def timed_out(reason: Reason, detail: str, retry_after: int | None = None) -> OwnResponse:
    """The deadline passed; 25 bytes, no line feed (Knative: pkg/http/handler/timeout.go)."""
    return OwnResponse(504, PLAIN, _TIMED_OUT, reason, detail, retry_after)


def upstream_failed(text: str) -> OwnResponse:
    """The pod failed with the request in its hands."""
    return _error(502, text, Reason.UPSTREAM_FAILED, text)


def draining(detail: str) -> OwnResponse:
    """We are going down and could not serve this request in time; another activator can."""
    return _error(503, "draining", Reason.DRAINING, detail, retry_after=0)


def refused(status: int, text: str) -> OwnResponse:
    """The request was malformed or too large; the connection closes behind it."""
    response = _plain(status, text, Reason.BAD_REQUEST)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        allow = b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE"
        return replace(response, fields=response.fields + allow)
    return response


def _plain(status: int, text: str, reason: Reason, retry_after: int | None = None) -> OwnResponse:
    """What Go's server writes of itself: the status, its phrase, and what is wrong."""
    body = f"{status} {HTTPStatus(status).phrase}: {text}".encode("ascii", "replace")
    return OwnResponse(status, PLAIN, body, reason, text, retry_after)

"""Builds the activator's own responses, byte for byte as Knative's.

``knative.words`` has the texts. http.Error in Go's net/http writes the same fields. Only
the field ``Activator-Reason`` is new.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from activator.keda import words as keda_words
from activator.knative import words
from activator.knative.words import AUTOSCALER_BODY, NETWORK_HASH_START
from activator.proxy.message.fields import HTTP_1_0, HttpVersion
from throttler.errors import FlowFull, RevisionNotFound, WaitTooLong
from throttler.model import RevisionKind
from throttler.reason import Reason

#: Characters of a text of a client or a pod that a response repeats.
_MAX_DETAIL: Final = 200

PLAIN: Final = b"\r\nContent-Type: text/plain; charset=utf-8"
JSON: Final = b"\r\nContent-Type: application/json"
_NOSNIFF: Final = PLAIN + b"\r\nX-Content-Type-Options: nosniff"

_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}


@dataclass(frozen=True, slots=True)
class OwnResponse:
    """A response that the activator makes itself.

    Attributes:
        status: the status code.
        fields: header fields, each preceded by its CRLF.
        body: the whole body.
        reason: the word of Activator-Reason; None for a response to a probe.
        detail: an explanation for people. It may repeat a text of a pod or a client.
        retry_after: the seconds of Retry-After (RFC 9110 section 10.2.3); None for no such field.
    """

    status: int
    fields: bytes = b""
    body: bytes = b""
    reason: Reason | None = None
    detail: str = ""
    retry_after: int | None = None

    @property
    def why(self) -> str:
        """The value of Activator-Reason: ``reason`` or ``reason; detail``; empty without a reason.

        One printable line.
        """
        if self.reason is None:
            return ""
        detail = printable(self.detail)
        return f"{self.reason.value}; {detail}" if detail else self.reason.value

    @property
    def has_length(self) -> bool:
        """Whether it has the field Content-Length.

        204 must not, and of 304 it would be the length of another body (RFC 9110 section 8.6).
        """
        return self.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

    def render(
        self, *, date: bytes, head_only: bool, keep_alive: bool, version: HttpVersion
    ) -> bytes:
        """Return the response in HTTP/1.

        Arguments:
            date: the value of the Date field.
            head_only: whether the request was HEAD, so that the body is left out.
            keep_alive: whether the client's connection stays open.
            version: the HTTP version of the client.
        """
        connection = b""
        if not keep_alive:
            connection = b"\r\nConnection: close"
        elif version is HTTP_1_0:
            connection = b"\r\nConnection: keep-alive"
        return b"%b%b%b\r\nDate: %b%b%b\r\n\r\n%b" % (
            _STATUS_LINES.get(self.status) or b"HTTP/1.1 %d " % self.status,
            self.fields,
            self.reason_lines(),
            date,
            b"\r\nContent-Length: %d" % len(self.body) if self.has_length else b"",
            connection,
            b"" if head_only else self.body,
        )

    def reason_lines(self) -> bytes:
        """Return Retry-After and Activator-Reason as lines, each preceded by its CRLF."""
        lines = b"" if self.retry_after is None else b"\r\nRetry-After: %d" % self.retry_after
        return lines + b"\r\nActivator-Reason: " + self.why.encode() if self.reason else lines


def _error(
    status: int,
    text: str,
    reason: Reason | None = None,
    detail: str = "",
    retry_after: int | None = None,
) -> OwnResponse:
    """Return a response as Go's http.Error writes it: the text with a line feed."""
    return OwnResponse(status, _NOSNIFF, text.encode() + b"\n", reason, detail, retry_after)


def printable(text: str) -> str:
    """Return a text of a client or a pod as one printable line of at most 200 characters."""
    text = text[:_MAX_DETAIL]
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


HEALTHY: Final = OwnResponse(200)
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
ACTIVATOR_PROBE: Final = OwnResponse(200, PLAIN, AUTOSCALER_BODY)
MISSING_HASH: Final = _error(400, words.MISSING_HASH)


_HASH: Final = b"\r\n" + NETWORK_HASH_START
_SERVICE_FORM: Final = "the header Activator-Service has the form NAMESPACE/NAME"
#: The advice for a request whose host names no Service.
_NAME_SERVICE: Final = "name the host in activator.dev/hosts, or send Activator-Service"
_TIMED_OUT: Final = words.TIMED_OUT.encode()


def unhealthy(why: str) -> OwnResponse:
    """Return the response to a kubelet's probe while the activator is not ready.

    Arguments:
        why: the cause, for people.
    """
    return _error(500, why)


def health(why: str) -> OwnResponse:
    """Return the response to a probe that the interceptor of the KEDA HTTP add-on would get.

    Arguments:
        why: why the activator is not ready; empty if it is.
    """
    text = keda_words.UNAVAILABLE if why else keda_words.OK
    return OwnResponse(503 if why else 200, PLAIN, text)


def network_probe(hash_value: bytes) -> OwnResponse:
    """Return the response to an ingress's probe: it repeats the hash of the configuration."""
    return OwnResponse(200, _HASH + hash_value) if hash_value else MISSING_HASH


def unexpected_probe(value: bytes) -> OwnResponse:
    """Return the response to an unknown value of K-Network-Probe."""
    return _error(400, words.unexpected_probe(value))


def not_found(error: RevisionNotFound) -> OwnResponse:
    """Return the response to a request for an unknown revision, or one without its full name."""
    if error.kind is RevisionKind.HTTP_ROUTE:
        detail = f'no rule of a route object fits the host "{error.host}", the path and the fields'
        return of_add_on(_error(404, "", Reason.UNKNOWN_REVISION, detail))
    if error.kind is RevisionKind.SERVICE:
        if error.host is not None:
            text = f'no annotated Service has the host "{error.host}"'
            return _error(404, printable(text), Reason.UNKNOWN_REVISION, _NAME_SERVICE)
        if not error.name:
            return _error(404, _SERVICE_FORM, Reason.UNKNOWN_REVISION, "")
        text = f'the activator knows no annotated Service "{error.namespace}/{error.name}"'
        return _error(404, printable(text), Reason.UNKNOWN_REVISION, "")
    if error.host is not None:
        text = f'no Revision and no annotated Service has the host "{error.host}"'
        return _error(404, printable(text), Reason.UNKNOWN_REVISION, words.NAME_IT)
    text = words.not_found(error.name)
    return _error(404, text, Reason.UNKNOWN_REVISION, "" if error.namespace else words.NAME_IT)


def of_add_on(response: OwnResponse) -> OwnResponse:
    """Return an error response with the text of the KEDA HTTP add-on, if it has one."""
    body = response.body
    if response.reason is Reason.QUEUE_FULL:
        body = keda_words.TOO_MANY
    elif response.status in keda_words.PHRASES:
        body = HTTPStatus(response.status).phrase.encode() + b"\n"
    fields = response.fields if _NOSNIFF in response.fields else _NOSNIFF
    return replace(response, fields=fields, body=body)


def queue_full(bound: str, retry_after: int | None = None) -> OwnResponse:
    """Return the response to a request for which the queue has no space.

    Arguments:
        bound: the limit, as in throttler.errors.RequestQueueFull.
        retry_after: seconds, as in ``OwnResponse``.
    """
    return _error(503, words.QUEUE_FULL, Reason.QUEUE_FULL, bound, retry_after)


def tenant_full(error: FlowFull, retry_after: int | None = None) -> OwnResponse:
    """Return the response to a request whose flow has its part of the queue."""
    detail = f"{error.waiting} queued"
    return _error(503, str(error), Reason.TENANT_FULL, detail, retry_after)


def shed(error: WaitTooLong, retry_after: int | None = None) -> OwnResponse:
    """Return the response to a request that would expire in the queue."""
    detail = f"{error.expected:.1f} s expected, {error.left:.1f} s left"
    return _error(503, str(error), Reason.WAIT_TOO_LONG, detail, retry_after)


def too_many_connections(retry_after: int | None = None) -> OwnResponse:
    """Return the response to a client beyond the limit of open connections."""
    return _plain(503, "too many connections", Reason.QUEUE_FULL, retry_after)


def too_many_heads(retry_after: int | None = None) -> OwnResponse:
    """Return the response to a request head beyond the limit of heads in progress."""
    return _plain(503, "too many in-progress request heads", Reason.QUEUE_FULL, retry_after)


def timed_out(reason: Reason, detail: str, retry_after: int | None = None) -> OwnResponse:
    """Return the response to a request that expired.

    The body has 25 bytes and no line feed (Knative: pkg/http/handler/timeout.go).
    """
    return OwnResponse(504, PLAIN, _TIMED_OUT, reason, detail, retry_after)


def asleep(status: int, retry_after: int) -> OwnResponse:
    """Return the response to a request that may not wake its revision; 200 and 204 have no body.

    Arguments:
        status: 200, 204 or 503.
        retry_after: seconds, for 503.
    """
    if status != HTTPStatus.SERVICE_UNAVAILABLE:
        return OwnResponse(status, reason=Reason.ASLEEP)
    return _error(status, "the service is asleep", Reason.ASLEEP, "", retry_after)


def denied(status: int, lines: bytes, body: bytes) -> OwnResponse:
    """Return the response to a request that the authorization server denies.

    Arguments:
        status: of the server's response: 3xx, 401 or 403.
        lines: its fields as lines, each preceded by its CRLF.
        body: its body; without one, 401 and 403 get a text.
    """
    if body or status < HTTPStatus.BAD_REQUEST:
        return OwnResponse(status, lines, body, Reason.DENIED)
    response = _error(status, HTTPStatus(status).phrase.lower(), Reason.DENIED)
    return replace(response, fields=response.fields + lines)


def not_authorized(why: str, retry_after: int) -> OwnResponse:
    """Return the response to a request about which the authorization server has not decided.

    Arguments:
        why: the cause, for people. It names no address, since clients get it.
        retry_after: seconds.
    """
    return _error(503, "no decision about authorization", Reason.NOT_AUTHORIZED, why, retry_after)


def model_list(body: bytes, age: int | None = None) -> OwnResponse:
    """Return a list of models, while the service is asleep.

    Arguments:
        body: JSON.
        age: seconds since a pod sent it (RFC 9111 section 5.1); None: it is of the annotation.
    """
    fields = b"%b\r\nCache-Control: no-store" % JSON
    if age is None:
        return OwnResponse(200, fields, body, Reason.ASLEEP, "the models of the annotation")
    return OwnResponse(
        200, b"%b\r\nAge: %d" % (fields, age), body, Reason.ASLEEP, "a kept response of a pod"
    )


def wait_refused(why: Reason, retry_after: int) -> OwnResponse:
    """Return the response to a request that would have to wait, where none may.

    Arguments:
        why: why it would have to wait.
        retry_after: seconds, as in ``OwnResponse``.
    """
    text = "no pod is free now; retry later"
    return _error(503, text, Reason.WAIT_REFUSED, why.value, retry_after)


def upstream_failed(text: str) -> OwnResponse:
    """Return the response to a request that its pod failed; ``text`` names the error."""
    return _error(502, text, Reason.UPSTREAM_FAILED, text)


def no_event_stream(text: str, error: bytes) -> OwnResponse:
    """Return the response to a request whose pod sent no event stream after an early head.

    Arguments:
        text: names the pod and its response.
        error: the pod's error in OpenAI's form; empty if it has none.
    """
    response = _error(502, text, Reason.NO_EVENT_STREAM, text)
    return replace(response, body=error) if error else response


def no_upgrade(text: str) -> OwnResponse:
    """Return the response to a request for another protocol that its pod cannot get."""
    return _error(501, text, Reason.NO_UPGRADE, text)


def draining(detail: str) -> OwnResponse:
    """Return the response to a request that the drain ends; another activator can serve it."""
    return _error(503, "draining", Reason.DRAINING, detail, retry_after=0)


def refused(status: int, text: str) -> OwnResponse:
    """Return the response to a malformed, too large or unsupported request.

    The caller closes the connection after it, or resets the stream.
    """
    response = _plain(status, text, Reason.BAD_REQUEST)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        allow = b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE"
        return replace(response, fields=response.fields + allow)
    return response


def _plain(status: int, text: str, reason: Reason, retry_after: int | None = None) -> OwnResponse:
    """Return a response as Go's server writes it: status, phrase and error in one line."""
    body = f"{status} {HTTPStatus(status).phrase}: {text}".encode("ascii", "replace")
    return OwnResponse(status, PLAIN, body, reason, text, retry_after)

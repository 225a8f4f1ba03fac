"""The answers that are the activator's own, byte for byte as Knative's.

Source: Knative pkg/activator/handler (healthz, probe, context, activation), pkg/http/handler
(timeout), V/networking/pkg/http/probe; Go's net/http Error for the fields. Only header
``Activator-Reason`` is new.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from http import HTTPStatus

from throttler.errors import RevisionNotFound
from throttler.reason import Reason

#: Bytes of a request's text that an answer repeats.
_ECHO = 200

_PLAIN = b"\r\nContent-Type: text/plain; charset=utf-8"
_NOSNIFF = _PLAIN + b"\r\nX-Content-Type-Options: nosniff"

_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of our own.

    Attributes:
        status: its code.
        fields: header fields, each preceded by its CRLF.
        body: what follows.
        reason: why, in one printable line: a word, and behind ``; `` its detail; empty where
            there is nothing to explain. Goes out as Activator-Reason.
    """

    status: int
    fields: bytes = b""
    body: bytes = b""
    reason: str = ""

    def render(self, *, date: bytes, head_only: bool, keep_alive: bool, minor: int) -> bytes:
        """Return the answer as it goes out.

        Arguments:
            date: the present date for the Date field.
            head_only: whether the request was HEAD.
            keep_alive: whether the connection stays; minor: the client's HTTP/1 version.
        """
        connection = b""
        if not keep_alive:
            connection = b"\r\nConnection: close"
        elif minor == 0:
            connection = b"\r\nConnection: keep-alive"
        why = b"\r\nActivator-Reason: " + self.reason.encode() if self.reason else b""
        return b"%b%b%b\r\nDate: %b\r\nContent-Length: %d%b\r\n\r\n%b" % (
            _STATUS_LINES[self.status],
            self.fields,
            why,
            date,
            len(self.body),
            connection,
            b"" if head_only else self.body,
        )


def _error(status: int, text: str, reason: str = "") -> Reply:
    """What Go's http.Error writes: the text with a line feed."""
    return Reply(status, _NOSNIFF, text.encode() + b"\n", _printable(reason))


def _printable(reason: str) -> str:
    """Errors of pods and names of requests end up here: one line, printable, bounded."""
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in reason[:_ECHO])


HEALTHY = Reply(200)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ACTIVATOR_PROBE = Reply(200, _PLAIN, b"activator")
MISSING_HASH = _error(400, 'a probe request must contain a non-empty "K-Network-Hash" header')


def unhealthy(why: str) -> Reply:
    """The answer to a kubelet's probe while we are not ready."""
    return _error(500, why)


def network_probe(hash_value: bytes) -> Reply:
    """The answer to an ingress's probe: its configuration hash."""
    return Reply(200, b"\r\nK-Network-Hash: " + hash_value) if hash_value else MISSING_HASH


def unexpected_probe(value: bytes) -> Reply:
    """The answer to a K-Network-Probe that is none of ours: escaped as HTML, quoted as Go does."""
    text = html.escape(value[:_ECHO].decode("utf-8", "surrogateescape"))
    text = text.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return _error(400, f'unexpected probe header value: "{"".join(map(_quoted, text))}"')


def _quoted(char: str) -> str:
    """One character as Go's %q writes it; quotes are escaped as HTML before."""
    if char == "\\":
        return "\\\\"
    if char == "\t":
        return "\\t"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) & 0xFF:02x}"  # a byte that is no UTF-8
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"


def not_found(error: RevisionNotFound) -> Reply:
    """No such revision, or none that the request names in full."""
    reason = Reason.UNKNOWN_REVISION.value
    if not error.named:
        reason += "; give Knative-Serving-Namespace and Knative-Serving-Revision, "
        reason += "or a host NAME.NAMESPACE.svc.DOMAIN"
    return _error(404, f"Error getting active endpoint: {error}", reason)


def queue_full(bound: str) -> Reply:
    """No more requests may wait."""
    return _error(503, "pending request queue full", f"{Reason.QUEUE_FULL.value}; {bound}")


def timed_out(reason: str) -> Reply:
    """The deadline passed; 25 bytes, no line feed (Knative: pkg/http/handler/timeout.go)."""
    return Reply(504, _PLAIN, b"activator request timeout", _printable(reason))


def upstream_failed(text: str) -> Reply:
    """The pod failed with the request in its hands."""
    return _error(502, text, f"{Reason.UPSTREAM_FAILED.value}; {text}")


def draining(detail: str) -> Reply:
    """We are going down and could not serve this request in time."""
    fields = _NOSNIFF + b"\r\nRetry-After: 0"
    return Reply(503, fields, b"draining\n", f"{Reason.DRAINING.value}; {detail}")


def refused(status: int, reason: str) -> Reply:
    """The request was malformed or too large; the connection closes behind it."""
    phrase = HTTPStatus(status).phrase
    fields = _PLAIN
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        fields += b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE"
    body = f"{status} {phrase}: {reason}".encode("ascii", "replace")
    return Reply(status, fields, body, _printable(f"{Reason.BAD_REQUEST.value}; {reason}"))

"""Bodies of the activator's own responses, in Knative's words.

Texts only; ``proxy.message.own_responses`` adds status, fields and line end. Source:
Knative pkg/activator/handler (probe, context, activation), pkg/http/handler (timeout) and
knative.dev/networking pkg/http/probe.
"""

from __future__ import annotations

import html
from typing import Final

#: Most bytes of a probe's value that a response repeats.
_ECHO: Final = 200

QUEUE_FULL: Final = "pending request queue full"
TIMED_OUT: Final = "activator request timeout"
MISSING_HASH: Final = 'a probe request must contain a non-empty "K-Network-Hash" header'
#: The advice for a request that names no revision, in the detail of Activator-Reason. It is not
#: Knative's.
NAME_IT: Final = (
    "give Knative-Serving-Namespace and Knative-Serving-Revision, Activator-Service, "
    "or a host of a Service, such as NAME.NAMESPACE.svc.DOMAIN"
)


def not_found(name: str) -> str:
    """Return the text of a 404 for a revision of this name."""
    return f'Error getting active endpoint: revision.serving.knative.dev "{name}" not found'


def unexpected_probe(value: bytes) -> str:
    """Return the text for an unknown value of K-Network-Probe: escaped as HTML, quoted as by Go."""
    text = html.escape(value[:_ECHO].decode("utf-8", "surrogateescape"))
    text = text.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return f'unexpected probe header value: "{"".join(map(_quoted, text))}"'


def _quoted(char: str) -> str:
    """Return one character as Go's %q writes it; quotes are escaped as HTML before."""
    if char == "\\":
        return "\\\\"
    if char == "\t":
        return "\\t"
    if 0xDC80 <= ord(char) <= 0xDCFF:
        return f"\\x{ord(char) & 0xFF:02x}"  # a byte that is no UTF-8
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}"

"""Decides by the Accept field which media types a client prefers (RFC 9110 section 12.5.1).

The activator reads the field only for its own responses, so a request that a pod serves costs
nothing here. Knative has no counterpart: its activator always responds with text.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

#: Limits of the parser: bytes of one Accept field, and number of Accept fields. Browsers and
#: libraries send a fraction of this.
_MAX_FIELD_BYTES: Final = 1024
_MAX_FIELDS: Final = 4

_ACCEPT: Final = re.compile(rb"\r\n[Aa](?i:ccept):([^\r\n]*)")
_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_QUALITY: Final = re.compile(rb"q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)
#: Media ranges that match the activator's two forms of a response, the most specific first.
_JSON: Final = (b"application/problem+json", b"application/json")
_HTML: Final = (b"text/html", b"application/xhtml+xml")
_TEXT: Final = (b"text/plain", b"text/*", b"*/*")
_EVENT_STREAM: Final = b"text/event-stream"


def prefers_json(block: bytes) -> bool:
    """Return whether the client names JSON, accepts it, and does not prefer text.

    ``*/*`` does not name JSON: a client that sends only that gets text, as from Knative. A
    malformed member is ignored.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = _qualities(block)
    json = next((qualities[name] for name in _JSON if name in qualities), 0.0)
    text = next((qualities[name] for name in _TEXT if name in qualities), 0.0)
    return json > 0 and json >= text


def prefers_html(block: bytes) -> bool:
    """Return whether the client names HTML, accepts it, and prefers no other type that it names.

    Wildcards name no type: a client that sends only ``*/*`` is no browser.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = {name: q for name, q in _qualities(block).items() if not name.endswith(b"*")}
    html = max(qualities.get(name, 0.0) for name in _HTML)
    return html > 0 and html >= max(qualities.values())


def names_no_form(block: bytes) -> bool:
    """Return whether the client names neither JSON nor text, so that its request may decide.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = _qualities(block)
    return not any(name in qualities for name in (*_JSON, *_HTML, *_TEXT[:-1]))


def prefers_event_stream(block: bytes) -> bool:
    """Return whether the client names ``text/event-stream``, and prefers it to all types it names.

    A client that names JSON as well leaves the choice to the server, as clients of MCP do.
    Wildcards name no type.

    Arguments:
        block: the request's header fields, each preceded by its CRLF.
    """
    qualities = _qualities(block)
    stream = qualities.pop(_EVENT_STREAM, 0.0)
    return stream > max((q for name, q in qualities.items() if not name.endswith(b"*")), default=0)


def _qualities(block: bytes) -> dict[bytes, float]:
    """Return the quality of each media range, 0 to 1."""
    qualities: dict[bytes, float] = {}
    for found in islice(_ACCEPT.finditer(block), _MAX_FIELDS):
        for member in _QUOTED.sub(b"", found[1][:_MAX_FIELD_BYTES]).split(b","):
            name, *parameters = (part.strip(b" \t") for part in member.lower().split(b";"))
            qualities[name] = max(qualities.get(name, 0.0), _quality(parameters))
    return qualities


def _quality(parameters: list[bytes]) -> float:
    for parameter in parameters:
        if parameter[:1] == b"q" and parameter[1:].lstrip(b" \t")[:1] == b"=":
            quality = _QUALITY.fullmatch(parameter)
            return float(quality[1]) if quality else 0.0
    return 1.0

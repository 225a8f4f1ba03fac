"""Whether a client would rather have JSON than text: its Accept field (RFC 9110 section 12.5.1).

Bytes in, a word out. Looked at only for answers of our own, so requests that pods answer pay
nothing for it. Knative has no counterpart: its answers are text for everybody.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

#: Bytes of each field, and fields, that are looked at: what browsers and libraries send fits
#: several times over.
_LONGEST: Final = 1024
_MOST: Final = 4

_ACCEPT: Final = re.compile(rb"\r\n[Aa](?i:ccept):([^\r\n]*)")
_QUOTED: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_QUALITY: Final = re.compile(rb"q[ \t]*=[ \t]*(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)
#: What we have, by the names that count, the most specific first.
_JSON: Final = (b"application/problem+json", b"application/json")
_TEXT: Final = (b"text/plain", b"text/*", b"*/*")


def prefers_json(block: bytes) -> bool:
    """Return whether JSON is named, is acceptable, and is liked no less than text.

    ``*/*`` names nothing: who says no more gets text, as from Knative. What is malformed counts as
    not said.

    Arguments:
        block: header fields, each preceded by its CRLF.
    """
    liked = _qualities(block)
    json = next((liked[name] for name in _JSON if name in liked), 0.0)
    text = next((liked[name] for name in _TEXT if name in liked), 0.0)
    return json > 0 and json >= text


def _qualities(block: bytes) -> dict[bytes, float]:
    """Return how much each media range is liked, 0 to 1."""
    liked: dict[bytes, float] = {}
    for found in islice(_ACCEPT.finditer(block), _MOST):
        for member in _QUOTED.sub(b"", found[1][:_LONGEST]).split(b","):
            name, *parameters = (part.strip(b" \t") for part in member.lower().split(b";"))
            liked[name] = max(liked.get(name, 0.0), _quality(parameters))
    return liked


def _quality(parameters: list[bytes]) -> float:
    for parameter in parameters:
        if parameter[:1] == b"q" and parameter[1:].lstrip(b" \t")[:1] == b"=":
            quality = _QUALITY.fullmatch(parameter)
            return float(quality[1]) if quality else 0.0
    return 1.0

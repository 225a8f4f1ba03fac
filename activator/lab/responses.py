"""A response of a sample pod as a value: status, headers, body, and when to send them.

:mod:`.queue_proxy` and :mod:`.application` make responses, and the pod's connections send them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class PodResponse:
    """The response to one request.

    Attributes:
        delay: seconds to wait before the first byte.
        pieces: further pieces of the body, sent chunked, ``interval`` seconds apart.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0
    pieces: tuple[bytes, ...] = ()
    interval: float = 0.0


def text(status: int, body: str, delay: float = 0.0) -> PodResponse:
    """Return a plain text response that is sent after ``delay`` seconds."""
    return PodResponse(status, body.encode(), delay=delay)


def as_json(value: object) -> PodResponse:
    """Return ``value`` as indented JSON with a line feed at the end, for terminals."""
    return PodResponse(200, json.dumps(value, indent=1).encode() + b"\n", JSON)

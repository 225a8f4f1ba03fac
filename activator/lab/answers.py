"""One answer of a sample pod, as a value: what to send, and when.

Decides nothing and sends nothing; :mod:`.queue_proxy` and :mod:`.application` make answers and
the pod's connections carry them out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to one request.

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


def text(status: int, body: str, delay: float = 0.0) -> Answer:
    """A plain text answer after ``delay`` seconds."""
    return Answer(status, body.encode(), delay=delay)


def as_json(value: object) -> Answer:
    """``value`` as indented JSON, ending in a line feed so that it reads well under curl."""
    return Answer(200, json.dumps(value, indent=1).encode() + b"\n", JSON)

"""What queue-proxy answers by itself, without its application: known by its words alone.

Pure. Source: Knative cmd/queue and pkg/queue/handler.go: both answers are written by Go's
http.Error, with the text of the error: that of a dial to 127.0.0.1, or the breaker's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from activator.proxy.response import Response

#: What may mean that the application is not there: only these are looked at.
DOUBTFUL = frozenset((502, 503))
#: Bytes of an answer's body; those of queue-proxy's have about 60.
MAX_BODY = 512
#: ``dial tcp 127.0.0.1:8080: connect: connection refused``: no other error of its transport says
#: that the application has nothing of the request.
_NOT_DIALED = re.compile(rb"dial tcp (127\.0\.0\.1|\[::1\]):\d{1,5}: [^\r\n]+\n")
_QUEUE_FULL = b"pending request queue full\n"
#: What http.Error says of its text.
_NOSNIFF = b"\r\nX-Content-Type-Options: nosniff"
_PLAIN = b"\r\nContent-Type: text/plain; charset=utf-8"


def is_untouched(response: Response, payload: Sequence[bytes]) -> bool:
    """Return whether queue-proxy says that its application has nothing of the request.

    Arguments:
        payload: all of the body.
    """
    if not 0 < response.length <= MAX_BODY or response.chunked:
        return False
    if _NOSNIFF not in response.block or _PLAIN not in response.block:
        return False
    body = b"".join(payload)
    if response.status == 502:
        return _NOT_DIALED.fullmatch(body) is not None
    return response.status == 503 and body == _QUEUE_FULL


def complaint(response: Response, body: Sequence[bytes] | None) -> str:
    """Return what was answered, for people.

    Arguments:
        body: what queue-proxy says; None of an application's answer, whose words are its own.
    """
    text = f"answered {response.status}"
    return text if body is None else f"{text}: {b''.join(body).decode('latin-1').strip()}"

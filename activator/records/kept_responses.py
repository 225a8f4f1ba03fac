"""Keeps responses of a revision's pods, for requests that must not start a pod.

Bounded in bytes: the oldest response leaves first. Knows no HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Bytes of all bodies of one revision.
MOST_BYTES: Final = 64 << 10
#: Responses of one revision, since small ones cost more than their bodies.
MOST_RESPONSES: Final = 64


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """The body of a pod's response.

    Attributes:
        body: the whole body.
        since: when it arrived, seconds.
    """

    body: bytes
    since: float


class KeptResponses:
    """The kept responses of one revision, by a key for the requests that may get them."""

    __slots__ = ("_responses", "size")

    def __init__(self) -> None:
        self._responses: dict[bytes, KeptResponse] = {}
        self.size = 0

    def put(self, key: bytes, response: KeptResponse) -> None:
        """Keep a response instead of an older one; one that is too large is not kept.

        Arguments:
            key: of the requests that may get it.
            response: the response.
        """
        self._remove(key)
        if len(response.body) > MOST_BYTES:
            return
        while self.size + len(response.body) > MOST_BYTES or len(self._responses) >= MOST_RESPONSES:
            self._remove(next(iter(self._responses)))
        self._responses[key] = response
        self.size += len(response.body)

    def get(self, key: bytes) -> KeptResponse | None:
        """Return the response for a key; None without one."""
        return self._responses.get(key)

    def _remove(self, key: bytes) -> None:
        removed = self._responses.pop(key, None)
        if removed is not None:
            self.size -= len(removed.body)

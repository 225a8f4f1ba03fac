"""How many streams of HTTP/2 one pod takes, by its settings and by its refusals. Pure."""

from __future__ import annotations

from math import inf
from typing import Final, final

#: Streams at a time until the pod has sent its settings (Go: the same).
FIRST_STREAMS: Final = 100
#: Seconds without a new connection after one that accepted no stream, doubling with each in a row
#: up to the most. Requests for the pod meanwhile return to the queue.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0


@final
class Capacity:
    """How many streams one pod takes on a connection.

    Attributes:
        most: by its settings.
        refusal_limit: by its refusals: what a connection had left when it refused one more, and one
            more at each response. Without this bound each response would cost every waiting
            request one more refusal. A pod that refuses all requests sets no bound.
        answers: how many responses it has given.
        closed_until: when the next connection may be opened, seconds, monotonic.
    """

    __slots__ = ("_pause", "closed_until", "max_streams", "refusal_limit", "responses")

    def __init__(self) -> None:
        self.max_streams = FIRST_STREAMS
        self.refusal_limit = inf
        self.responses = 0
        self.closed_until = -inf
        self._pause = FIRST_PAUSE

    def announced(self, streams: int) -> None:
        """Record how many streams the pod takes on a connection.

        A pod that takes none now may take as many as before later: only a new connection tells.
        """
        self.max_streams = streams or FIRST_STREAMS

    def accepted_none(self, now: float) -> None:
        """Record a new connection on which the pod accepts no stream."""
        self.closed_until = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def accepted_some(self) -> None:
        """Record a new connection on which the pod accepts streams."""
        self._pause = FIRST_PAUSE

    def refused(self, left: int) -> None:
        """Record that a pod has refused a stream on a connection that has so many others."""
        self.refusal_limit = min(self.refusal_limit, left) or inf

"""Counts how many HTTP/2 streams one pod accepts, by its settings and its refusals. Pure."""

from __future__ import annotations

from math import inf
from typing import Final, final

#: Most streams at a time until the pod has sent its settings (Go: the same).
FIRST_STREAMS: Final = 100
#: Seconds until the next connection after one that accepted no stream. They double with each such
#: connection in a row, up to the longest pause. Requests for the pod meanwhile return to the queue.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0


@final
class Capacity:
    """How many streams one pod accepts on a connection.

    Attributes:
        max_streams: the limit in its settings.
        refusal_limit: the limit that follows from its refusals. A refusal sets it to the number of
            streams left on the connection, and each later response adds one. Without it, each
            response would cost every queued request one more refusal. It is infinite if the pod
            refuses all requests.
        responses: number of responses from the pod.
        closed_until: time before which no connection may be opened, seconds, monotonic.
    """

    __slots__ = ("_pause", "closed_until", "max_streams", "refusal_limit", "responses")

    def __init__(self) -> None:
        self.max_streams = FIRST_STREAMS
        self.refusal_limit = inf
        self.responses = 0
        self.closed_until = -inf
        self._pause = FIRST_PAUSE

    def announced(self, streams: int) -> None:
        """Record the limit of streams in a pod's settings.

        A pod that accepts none now may accept some later. Only a new connection shows that.
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
        """Record that a pod refused a stream on a connection with ``left`` other streams."""
        self.refusal_limit = min(self.refusal_limit, left) or inf

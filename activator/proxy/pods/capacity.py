"""How many streams of HTTP/2 one pod takes, by its settings and by its refusals. Pure."""

from __future__ import annotations

from math import inf
from typing import Final, final

#: Streams at a time until the pod has sent its settings (Go: the same).
FIRST_STREAMS: Final = 100


@final
class Capacity:
    """How many streams one pod takes on a connection.

    Attributes:
        most: by its settings.
        bearable: by its refusals: what a connection had left when it refused one more, and one
            more at each response. Without this bound each response would cost every waiting
            request one more refusal. A pod that refuses all requests sets no bound.
        answers: how many responses it has given.
    """

    __slots__ = ("answers", "bearable", "most")

    def __init__(self) -> None:
        self.most = FIRST_STREAMS
        self.bearable = inf
        self.answers = 0

    def announced(self, streams: int) -> None:
        """Record how many streams the pod takes on a connection.

        A pod that takes none now may take as many as before later: only a new connection tells.
        """
        self.most = streams or FIRST_STREAMS

    def refused(self, left: int) -> None:
        """Record that a pod has refused a stream on a connection that has so many others."""
        self.bearable = min(self.bearable, left) or inf

"""A pod: a queue-proxy with a limit, and an application that works on so many requests at once."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, final

from throttler.model import Endpoint

if TYPE_CHECKING:
    from benchmarks.simulation.requests import Request

#: queue-proxy queues so many times its limit, and refuses further requests.
QUEUE_FACTOR: Final = 10


class PodPhase(Enum):
    """STARTING refuses connections. SERVING and DRAINING take requests. GONE refuses them."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    GONE = "gone"


STARTING: Final = PodPhase.STARTING
SERVING: Final = PodPhase.SERVING
DRAINING: Final = PodPhase.DRAINING
GONE: Final = PodPhase.GONE


@final
class Pod:
    """One pod.

    Arguments:
        number: makes its address.
        limit: requests that its application works on at once; 0 for no limit.

    Attributes:
        phase: see PodPhase.
        running: the requests that the application works on.
        queue: requests at queue-proxy, over the limit.
        in_reach: whether it serves, and each activator has had the time to know it.
    """

    __slots__ = ("address", "endpoint", "in_reach", "limit", "phase", "queue", "running")

    def __init__(self, number: int, limit: int) -> None:
        address = f"10.{100 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}:8012"
        self.endpoint = Endpoint(address, str(number))
        self.address = address
        self.limit = limit or 1 << 30
        self.phase = STARTING
        self.running: set[Request] = set()
        self.queue: deque[Request] = deque()
        self.in_reach = False

    @property
    def has_free_slot(self) -> bool:
        """Whether its application would begin one more request at once."""
        return len(self.running) < self.limit

    @property
    def is_full(self) -> bool:
        """Whether queue-proxy refuses one more request."""
        return len(self.queue) >= QUEUE_FACTOR * self.limit

    @property
    def takes_requests(self) -> bool:
        """Whether it accepts connections."""
        return self.phase is SERVING or self.phase is DRAINING

    @property
    def in_flight(self) -> int:
        """Number of requests at the pod."""
        return len(self.running) + len(self.queue)

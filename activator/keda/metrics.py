"""The add-on's metrics: triggers, names and targets, and the counts of requests of interceptors.

Pure. Sources: KEDA HTTP add-on, scaler/handlers.go, scaler/naming.go, pkg/queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Annotated, Final, NamedTuple, final

import msgspec

from activator.keda.objects import ROUTE, SCALED_OBJECT, RouteObject

ROUTE_TRIGGER: Final = "interceptorRoute"
#: The key of a trigger's metadata that names a route object, and the kind of that object.
TRIGGERS: Final = {ROUTE_TRIGGER: ROUTE, "httpScaledObject": SCALED_OBJECT}
#: The key of the trigger that scales the interceptors themselves; its value is the target.
OWN_TRIGGER: Final = "interceptorTargetPendingRequests"

#: Namespace and name of a route object.
RouteName = tuple[str, str]


class RouteMetric(NamedTuple):
    """One metric of a trigger.

    Attributes:
        name: as KEDA has it.
        target: per pod.
        is_rate: whether its value is requests per second, not concurrent requests.
        is_whole: whether the add-on has it as integers.
    """

    name: str
    target: float
    is_rate: bool = False
    is_whole: bool = True


def metrics_of(name: RouteName, route: RouteObject) -> Iterator[RouteMetric]:
    """Yield the metrics of a route object; an HTTPScaledObject has exactly one."""
    is_whole = route.kind == SCALED_OBJECT
    for is_rate, target in (
        (False, route.concurrency),
        (True, None if route.rate is None else route.rate.target),
    ):
        if target is not None:
            word = "rate" if is_rate else "concurrency"
            text = object_metric(name) if is_whole else f"http_{name[1]}_{word}"
            yield RouteMetric(text, target, is_rate, is_whole)


def object_metric(name: RouteName) -> str:
    """Return the name of the metric of an HTTPScaledObject, or of a ScaledObject."""
    return f"http-{name[0]}_002F{name[1]}"


_Amount = Annotated[float, msgspec.Meta(ge=0, lt=2**63)]
_NAMES: Final = {"concurrency": "Concurrency", "requests": "RequestCount", "rate": "RPS"}


class QueueCount(msgspec.Struct, frozen=True, rename=_NAMES):
    """What one interceptor counts for one route object.

    Attributes:
        concurrency: requests in flight or queued.
        requests: all since its start; None for an interceptor before 0.14.
        rate: requests per second, as an interceptor before 0.14 has it.
    """

    concurrency: _Amount = 0.0
    requests: _Amount | None = None
    rate: _Amount = 0.0


_QUEUE: Final = msgspec.json.Decoder(dict[str, QueueCount])


def parse_queue(body: bytes) -> Mapping[RouteName, QueueCount]:
    """Return the counts in a response of an interceptor to ``GET /queue``.

    Raises:
        ValueError: it is no such response.
    """
    try:
        found = _QUEUE.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    counts = {}
    for key, count in found.items():
        namespace, _, name = key.partition("/")
        if not name:
            raise ValueError(f"expected NAMESPACE/NAME, got {key!r}")
        counts[namespace, name] = count
    return counts


@final
class RateWindow:
    """The requests of one route object in the buckets of a window.

    After a window without a request it is new. The add-on's counterpart: pkg/queue/bucketing.go.

    Arguments:
        window, granularity: seconds of the window, and of a bucket.
    """

    def __init__(self, window: float, granularity: float) -> None:
        self.form = window, granularity
        self._most = ceil(window / granularity)
        self._buckets = deque[list[float]]()  # each with its number and its requests
        self._first = 0

    def record(self, requests: float, now: float) -> None:
        """Add requests; ``now`` is in seconds, and never less than in an earlier call."""
        at = self._advance(now)
        if not self._buckets:
            self._first = at
        if not self._buckets or self._buckets[-1][0] != at:
            self._buckets.append([at, 0])
        self._buckets[-1][1] += requests

    def mean(self, now: float, *, until_last: bool = False) -> float:
        """Return the requests per bucket since the first request.

        Arguments:
            now: seconds.
            until_last: whether the last request ends the time, as in the add-on; else ``now`` does.
        """
        at = self._advance(now)
        if not self._buckets:
            return 0.0
        last = int(self._buckets[-1][0]) if until_last else at
        total = sum(requests for _, requests in self._buckets)
        return round(total / min(last - self._first + 1, self._most), 6)

    def _advance(self, now: float) -> int:
        at = int(now / self.form[1])
        while self._buckets and self._buckets[0][0] <= at - self._most:
            self._buckets.popleft()
        return at

"""Keeps the route objects of the KEDA HTTP add-on and their loads, and reads their metrics.

The loads of an interceptor come in one of two ways. An activator pushes them over its connection.
Any other interceptor is polled (``polling``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import Final, NamedTuple, final

from activator.keda.metrics import (
    OWN_TRIGGER,
    TRIGGERS,
    QueueCount,
    RateWindow,
    RouteMetric,
    RouteName,
    growth,
    metrics_of,
    object_metric,
)
from activator.keda.objects import PARSERS, RouteObject
from activator.objects.fields import ObjectKey, ip_of, root
from activator.plain.slices import SERVICE_LABEL
from activator.scale.cluster.watch import KindView
from activator.scale.reports.load import LOST_COUNTS, MOST_UNKNOWN, Loads, Report, ServiceLoad

#: The name of all interceptors together, which no object can have.
_ALL: Final = "", ""


class TriggerError(Exception):
    """A trigger cannot be read; ``code`` is the name of the gRPC status."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class RouteReading(NamedTuple):
    """What a trigger reads now.

    Attributes:
        name: of the object, for ``Routes.requested``.
        active: whether the workload must have a pod.
        values: of each metric.
    """

    name: RouteName
    active: bool
    values: tuple[tuple[RouteMetric, float], ...]


@dataclass(slots=True)
class PolledInterceptor:
    """An interceptor that does not push.

    Attributes:
        counts: its last ones; they count until it is no longer ready.
        at: when they came; -inf before the first.
        error: why the last poll failed; empty if it did not.
    """

    counts: Mapping[RouteName, QueueCount]
    at: float = -inf
    error: str = ""


@final
class Routes:
    """The route objects, and the counts of each interceptor.

    Arguments:
        loads: knows which activators are connected.
        service: the Service of the interceptors' admin port; None to poll none.
        clock: seconds, monotonic.

    Attributes:
        views: take the objects of the cluster, by kind.
        polled: the interceptors that do not push, by address.
    """

    def __init__(
        self, loads: Loads, service: tuple[str, str] | None, clock: Callable[[], float]
    ) -> None:
        self._loads = loads
        self._clock = clock
        self._known: dict[ObjectKey, tuple[RouteObject, RateWindow | None]] = {}
        self._pushed: dict[RouteName, ServiceLoad] = {}
        self._waiting: dict[RouteName, asyncio.Event] = {}
        self._interceptors = _InterceptorView(service)
        self.polled: dict[str, PolledInterceptor] = {}
        self.views: dict[str, KindView] = dict.fromkeys(PARSERS, self)
        if service is not None:
            self.views["EndpointSlice"] = self._interceptors

    # -- objects -----------------------------------------------------------------------------------

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed object.

        Raises:
            ManifestError: a field is wrong; nothing has changed.
        """
        route, window = PARSERS[key.kind](obj), None
        if route.rate is not None:
            before = self._known.get(key)
            is_same = before is not None and before[0].rate == route.rate
            window = before[1] if before is not None and is_same else RateWindow(*route.rate[1:])
        self._known[key] = route, window

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted object; an unknown one is no error."""
        self._known.pop(key, None)
        name = key.namespace, key.name
        if not any(self._of(name)):
            self._pushed.pop(name, None)
        self._notify(name)

    def _of(self, name: RouteName) -> Iterable[tuple[RouteObject, RateWindow | None]]:
        """Yield the objects of a name; the two kinds may share it."""
        for kind in PARSERS:
            if (known := self._known.get(ObjectKey(kind, *name))) is not None:
                yield known

    # -- loads -------------------------------------------------------------------------------------

    def push(self, activator: str, reports: Iterable[Report]) -> None:
        """Record what an activator reports over its connection."""
        now = self._clock()
        for report in reports:
            name = report.service
            # An object may come after its load, but senders could invent names without end.
            if name not in self._pushed and (
                len(self._pushed) < MOST_UNKNOWN or any(self._of(name))
            ):
                self._pushed[name] = ServiceLoad()
            load = self._pushed.get(name)
            if load is not None and load.record(activator, report, now):
                self._count(name, report.requests, now)

    def poll(self, address: str, counts: Mapping[RouteName, QueueCount]) -> None:
        """Record what an interceptor counts.

        A new interceptor, or a new object, has no rate before the second time: when its requests
        came is not known.
        """
        polled = self.polled.get(address)
        if polled is None:
            return  # it pushes by now, or is gone
        now, before = self._clock(), polled.counts
        polled.counts, polled.at, polled.error = counts, now, ""
        for name, count in counts.items():
            fresh = 0.0
            if count.requests is not None and name in before:
                fresh = growth(count.requests, before[name].requests or 0.0)
            if fresh or count.concurrency or count.rate:
                self._count(name, fresh, now)

    def addresses(self) -> Iterable[str]:
        """Return the interceptors to poll, and drop the counts of all others.

        An activator that pushes is not polled, so that no request counts twice.
        """
        _, silent = self._interceptors.by_way(self._loads)
        self.polled = {each: self.polled.get(each) or PolledInterceptor({}) for each in silent}
        return silent

    def has_counts(self) -> bool:
        """Return whether an interceptor is known; if none is, a load of 0 would be a guess."""
        oldest = self._clock() - LOST_COUNTS
        if any(each.at >= oldest for each in self.polled.values()):
            return True
        pushing, silent = self._interceptors.by_way(self._loads)
        return self._loads.activators > 0 and bool(pushing or not silent)

    # -- what KEDA reads ---------------------------------------------------------------------------

    def read(self, namespace: str, scaled_object: str, trigger: Mapping[str, str]) -> RouteReading:
        """Return what a trigger reads.

        An object is active while it has requests, whatever its metric: the first requests after
        the start of an interceptor are in no rate.

        Raises:
            TriggerError: the object does not exist, or the trigger is wrong.
        """
        now = self._clock()
        if OWN_TRIGGER in trigger:
            return self._read_all((namespace, scaled_object), trigger[OWN_TRIGGER], now)
        kind, name = next(
            (kind, (namespace, trigger[key])) for key, kind in TRIGGERS.items() if key in trigger
        )
        known = self._known.get(ObjectKey(kind, *name))
        if known is None:
            raise TriggerError(
                "NOT_FOUND",
                f"ScaledObject {namespace}/{scaled_object}: {kind} {'/'.join(name)} does not "
                f"exist, or its fields have never been valid",
            )
        route, window = known
        concurrency = self._concurrency(name, now)
        values = tuple(
            (each, ceil(value) if each.is_whole else value)
            for each in metrics_of(name, route)
            for value in [self._rate(name, window, now) if each.is_rate else concurrency]
        )
        return RouteReading(name, concurrency > 0 or any(value for _, value in values), values)

    def _read_all(self, scaled_object: RouteName, target: str, now: float) -> RouteReading:
        """Return what the trigger of the interceptors themselves reads."""
        if not (target.isascii() and target.isdigit() and 0 < int(target[:19]) < 2**63):
            raise TriggerError(
                "INVALID_ARGUMENT",
                f"ScaledObject {'/'.join(scaled_object)}: {OWN_TRIGGER}: expected an integer from "
                f"1, got {target[:300]!r}",
            )
        names = {*self._pushed, *(name for each in self.polled.values() for name in each.counts)}
        total = ceil(sum(self._concurrency(name, now) for name in names))
        metric = RouteMetric(object_metric(scaled_object), float(target))
        return RouteReading(_ALL, total > 0, ((metric, total),))

    def requested(self, name: RouteName) -> asyncio.Event:
        """Return what is set as soon as an object has a further request, or is gone."""
        return self._waiting.setdefault(name, asyncio.Event())

    def release(self) -> None:
        """End all waits: this process no longer decides."""
        for name in list(self._waiting):
            self._notify(name)

    def _concurrency(self, name: RouteName, now: float) -> float:
        """Return the requests in flight or queued, over all interceptors."""
        total = sum(each.concurrency for each in self._polled_counts(name))
        if (load := self._pushed.get(name)) is None:
            return total
        # A lost activator is polled instead, from the next turn on.
        return total + load.current(now, {} if self.polled else self._loads.lost)

    def _rate(self, name: RouteName, window: RateWindow | None, now: float) -> float:
        """Return the requests per second; an interceptor before 0.14 has them itself."""
        own = sum(each.rate for each in self._polled_counts(name) if each.requests is None)
        return own + (window.mean(now) if window is not None else 0.0)

    def _polled_counts(self, name: RouteName) -> Iterable[QueueCount]:
        return (each.counts[name] for each in self.polled.values() if name in each.counts)

    def _count(self, name: RouteName, requests: float, now: float) -> None:
        """Record that an object has requests, and how many are new."""
        for _, window in self._of(name):
            if requests and window is not None:
                window.record(requests, now)
        self._notify(name)
        self._notify(_ALL)

    def _notify(self, name: RouteName) -> None:
        if (event := self._waiting.pop(name, None)) is not None:
            event.set()


class _InterceptorView:
    """The ready interceptors, by the EndpointSlices of their Service."""

    def __init__(self, service: tuple[str, str] | None) -> None:
        self._service = service
        self._slices: dict[ObjectKey, Mapping[str, str]] = {}

    def put(self, key: ObjectKey, obj: object) -> None:
        slice_ = root(obj, "EndpointSlice")
        service = slice_["metadata"]["labels"].at(SERVICE_LABEL).value
        if (key.namespace, service) != self._service:
            self.remove(key)
            return
        self._slices[key] = {
            each["targetRef"]["name"].text() or ip: ip
            for each in slice_["endpoints"].items()
            if each["conditions"]["ready"].value is not False
            for ip in [ip_of(address) for address in each["addresses"].items()][:1]
        }

    def remove(self, key: ObjectKey) -> None:
        self._slices.pop(key, None)

    def by_way(self, loads: Loads) -> tuple[frozenset[str], frozenset[str]]:
        """Return the addresses of the interceptors that push, and of the others; one of each pod.

        The address of a connection may be that of a proxy, so the name of the pod counts as well.
        """
        known = {text for each in loads.reporting() for text in (each.name, each.address)}
        pods = {pod: ip for each in self._slices.values() for pod, ip in each.items()}
        pushing = frozenset(ip for pod, ip in pods.items() if {pod, ip} & known)
        return pushing, frozenset(pods.values()) - pushing

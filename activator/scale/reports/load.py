"""Keeps the load of each workload, as the activators report it over their connections.

Pure: the time is an argument. An activator reports a service every second while it has requests,
once more with zeros, and then no longer (``activator.autoscaler.concurrency``).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from sys import intern
from typing import Final, NamedTuple, final

from activator.kpa.decision import STABLE

#: Seconds for which a report counts. An activator reports every second; one missing report must
#: not look like the end of all requests.
REPORT_COUNTS: Final = 2.5
#: Seconds for which the last report of a lost connection counts: the requests may still be there,
#: and the activator connects again.
LOST_COUNTS: Final = 30.0
#: Seconds for which the load of an unknown Service stays.
UNKNOWN_STAYS: Final = 60.0
#: Unknown Services with a load, at most. A Service may come after its load, but senders could
#: invent names without end. A load that is left out comes again with the next report.
MOST_UNKNOWN: Final = 1000
#: Activators of one Service, at most.
MOST_ACTIVATORS: Final = 1000
#: Characters of the name of a Service, of a namespace and of a pod, at most.
MOST_CHARACTERS: Final = 253
#: Seconds in which reports of one activator are about the same requests: it sends the reports of
#: 1.5 s at once when it connects to a new leader. Half of the time between two reports.
BURST: Final = 0.5

#: Concurrent or new requests of one Service at one activator, at most: a hundred full queues.
#: The sums of a window stay far below 64 bits.
_MOST_LOAD: Final = 1e6
#: One object for all: thousands of Services have these times.
_NEVER: Final = float("-inf")
#: Seconds of the panic window: 10 % of the stable one (Knative: panic-window-percentage).
PANIC: Final = 6
#: Loads are summed as integers of this unit, so that no error adds up. Knative rounds alike.
_UNIT: Final = 1_000_000
#: 32 bits for each second: enough for a load of 4,000, and an eighth of a list of integers.
_EMPTY: Final = array("I", (0,) * STABLE)


@lru_cache(maxsize=16)
def _second(now: float) -> int:
    """Return a time, rounded down: one object for the windows of all Services."""
    return int(now)


class ServiceName(NamedTuple):
    """A Service."""

    namespace: str
    name: str


class Report(NamedTuple):
    """The load of one Service at one activator over the last second.

    Attributes:
        concurrency: mean number of requests in flight or queued.
        requests: how many arrived.
    """

    service: ServiceName
    concurrency: float
    requests: float

    @classmethod
    def of(cls, service: ServiceName, concurrency: float, requests: float) -> Report:
        """Return a report; a load that is no positive number below a million counts as 0."""
        return cls(service, _amount(concurrency), _amount(requests))


def _amount(value: float) -> float:
    return value if 0 < value < _MOST_LOAD else 0.0


class ReportingActivator(NamedTuple):
    """One activator that reports, or did; times are of the caller's clock.

    Attributes:
        name: of its pod; empty before its first report.
        address: of its connection; empty if that is lost.
        connected: when it connected; None if the connection is lost.
        reported: when its last report came; None before the first.
        lost: when its connection was lost; None while it is connected.
    """

    name: str
    address: str
    connected: float | None
    reported: float | None
    lost: float | None


@final
class LoadWindow:
    """The load of one workload over the last minute, summed over all activators.

    Knative's counterpart: pkg/autoscaler/aggregation/bucketing.go. Unlike there, a second without a
    report counts as a second without load: activators stop to report an idle service.

    A new window is empty: averages are over the seconds since the first load. A window that has
    been empty for ``STABLE`` seconds is new again.
    """

    __slots__ = ("_buckets", "_first", "_last", "_total")

    def __init__(self) -> None:
        self._buckets = _EMPTY[:]
        self._first = self._last = 0
        self._total = 0

    def record(self, second: int, load: float, instead_of: float = 0.0) -> None:
        """Add a load to one second, or replace one.

        Arguments:
            second: the time, rounded down. A second before the window is ignored.
            load: mean concurrent requests during that second, as one activator reports it.
            instead_of: an earlier load of the same second, which is at most as large.
        """
        amount = round(load * _UNIT) - round(instead_of * _UNIT)
        if amount <= 0 or second <= self._last - STABLE:
            return
        self._advance(second)
        if not self._total or second < self._first:
            self._first = second
        try:
            self._buckets[second % STABLE] += amount
        except OverflowError:
            self._buckets = array("Q", self._buckets)
            self._buckets[second % STABLE] += amount
        self._total += amount

    def averages(self, second: int) -> tuple[float, float]:
        """Return the mean load of the stable window, and of the panic window.

        Arguments:
            second: the last second that counts; not before a second of an earlier call.
        """
        self._advance(second)
        if not self._total:
            return 0.0, 0.0
        age = second - self._first + 1
        buckets, at = self._buckets, second % STABLE
        if at >= PANIC - 1:
            latest = sum(buckets[at - PANIC + 1 : at + 1])
        else:
            latest = sum(buckets[: at + 1]) + sum(buckets[at - PANIC + 1 :])
        return (self._total / (_UNIT * min(age, STABLE)), latest / (_UNIT * min(age, PANIC)))

    def peak(self, second: int, seconds: int) -> float:
        """Return the largest load of the last seconds, as the mean of two seconds in a row.

        One second alone may have two reports of the same activator, and the next one none.

        Arguments:
            second: as for ``averages``.
            seconds: how many count; at most ``STABLE``.
        """
        self._advance(second)
        if not self._total:
            return 0.0
        loads = [self._buckets[each % STABLE] for each in range(second - seconds + 1, second + 1)]
        return max(map(sum, pairwise(loads)), default=0) / (2 * _UNIT)

    def _advance(self, second: int) -> None:
        """Empty the buckets of the seconds that have passed."""
        passed, self._last = second - self._last, max(second, self._last)
        if passed <= 0 or not self._total:
            return
        buckets = self._buckets
        for each in range(second - min(passed, STABLE) + 1, second + 1):
            at = each % STABLE
            self._total -= buckets[at]
            buckets[at] = 0


class _Latest:
    """The last two reports of one activator about one Service.

    Attributes:
        activator: the name of its pod.
        at, value: of the last report.
        before: of the one before it; 0 if that was long before.
        counted_at, counted: what the window has of the last reports, and since when.
    """

    __slots__ = ("activator", "at", "before", "counted", "counted_at", "value")

    def __init__(self, activator: str) -> None:
        self.activator = activator
        self.at = self.value = self.before = self.counted = 0.0
        self.counted_at = _NEVER


@final
class ServiceLoad:
    """The load of one Service over all activators.

    Attributes:
        window: the load of the last minute.
        arrivals: the requests of the last minute; None before the first.
        last_busy: when a report last had a request; -inf before the first.
    """

    __slots__ = ("_latest", "arrivals", "last_busy", "window")

    def __init__(self) -> None:
        self.window = LoadWindow()
        self.arrivals: LoadWindow | None = None
        self.last_busy = _NEVER
        self._latest: tuple[_Latest, ...] = ()  # few activators; a dict would take 200 bytes more

    def record(self, activator: str, report: Report, now: float) -> bool:
        """Record one report; return whether it has any request.

        The larger of an activator's last two reports counts as its present load: the first report
        after an announcement leaves the announced request out, and short requests end between
        two reports.
        """
        for latest in self._latest:
            if latest.activator == activator:
                break
        else:
            latest = _Latest(activator)
            self._latest = (*self._latest[1 - MOST_ACTIVATORS :], latest)
        latest.before = latest.value if now - latest.at <= REPORT_COUNTS else 0.0
        latest.value, latest.at = report.concurrency, now
        before = latest.counted
        if now - latest.counted_at >= BURST:
            latest.counted_at, before, latest.counted = now, 0.0, 0.0
        latest.counted = max(latest.counted, report.concurrency)
        self.window.record(_second(latest.counted_at), latest.counted, before)
        if report.requests > 0:
            self.arrivals = self.arrivals or LoadWindow()
            self.arrivals.record(_second(now), report.requests)
        if report.concurrency <= 0 and report.requests <= 0:
            return False
        self.last_busy = now
        return True

    def by_activator(self) -> Mapping[str, float]:
        """Return the last report of each activator, by its name."""
        return {latest.activator: latest.value for latest in self._latest}

    def current(self, now: float, lost: Mapping[str, float]) -> float:
        """Return the requests that are in flight or queued now, over all activators.

        Arguments:
            lost: the time at which an activator's connection was lost; connected ones are absent.
        """
        total, has_expired = 0.0, False
        for latest in self._latest:
            counts = REPORT_COUNTS if latest.activator not in lost else LOST_COUNTS
            if now - latest.at <= counts:
                total += max(latest.value, latest.before)
            elif now - latest.at > LOST_COUNTS:
                has_expired = True
        if has_expired:
            self._latest = tuple(each for each in self._latest if now - each.at <= LOST_COUNTS)
        return total


class Measure(NamedTuple):
    """A load: requests in flight or queued now, the means of both windows, and the last request.

    Attributes:
        rate, panic_rate: requests per second of both windows.
    """

    current: float
    stable: float
    panic: float
    last_busy: float
    rate: float = 0.0
    panic_rate: float = 0.0


NO_LOAD: Final = Measure(0.0, 0.0, 0.0, float("-inf"))


class Loads:
    """The loads of all Services, and the connections that report them.

    A connection is known by a number; the activator's name comes with its first report.

    Arguments:
        knows: returns whether a Service exists, and opts in.
    """

    def __init__(self, knows: Callable[[ServiceName], bool] = lambda name: True) -> None:
        self._knows = knows
        self._loads: dict[ServiceName, ServiceLoad] = {}
        # Services that were unknown when their load came; all are in ``_loads``.
        self._unknown: set[ServiceName] = set()
        self._connections: dict[int, ReportingActivator] = {}
        self._lost: dict[str, float] = {}

    @property
    def activators(self) -> int:
        """How many activators are connected."""
        return len(self._connections)

    @property
    def lost(self) -> Mapping[str, float]:
        """When connections were lost, by the name of the activator; old losses may be missing."""
        return self._lost

    def reporting(self) -> list[ReportingActivator]:
        """Return the connected activators, then the lost ones; each sorted by name."""
        lost = [ReportingActivator(name, "", None, None, at) for name, at in self._lost.items()]
        connected = self._connections.values()
        return sorted(connected, key=lambda one: (one.name, one.address)) + sorted(lost)

    def connected(self, connection: int, now: float = 0.0, address: str = "") -> None:
        """Record a new connection of an activator.

        Arguments:
            now: seconds, monotonic.
            address: of the activator, for people.
        """
        self._connections[connection] = ReportingActivator("", address, now, None, None)

    def disconnected(self, connection: int, now: float) -> None:
        """Record the end of a connection."""
        activator = self._connections.pop(connection).name
        self._lost = {name: at for name, at in self._lost.items() if now - at <= LOST_COUNTS}
        if activator and all(activator != each.name for each in self._connections.values()):
            self._lost[activator] = now

    def is_known(self, now: float) -> bool:
        """Return whether the load is known: activators are connected, and none was just lost.

        While it is not, the caller must not lower the replicas of any workload.
        """
        return bool(self._connections) and all(now - at > LOST_COUNTS for at in self._lost.values())

    def record(
        self, connection: int, activator: str, reports: Iterable[Report], now: float
    ) -> list[ServiceName]:
        """Record the reports of one frame.

        Arguments:
            connection: the one that the frame came over.
            activator: the name of its pod. The first name of a connection counts.
            now: seconds, monotonic.

        Returns:
            The Services of the frame that have requests.
        """
        known = self._connections[connection]
        activator = known.name or activator[:MOST_CHARACTERS]
        self._connections[connection] = known._replace(name=activator, reported=now)
        self._lost.pop(activator, None)
        busy = []
        for report in reports:
            load = self._loads.get(report.service) or self._new(report.service)
            if load is not None and load.record(activator, report, now):
                busy.append(report.service)
        return busy

    def _new(self, service: ServiceName) -> ServiceLoad | None:
        """Return a load for a Service that has none; None for one unknown Service too many."""
        if not self._knows(service):
            is_long = max(map(len, service)) > MOST_CHARACTERS
            if is_long or len(self._unknown) >= MOST_UNKNOWN:
                return None
            self._unknown.add(service)
        else:
            service = ServiceName(*map(intern, service))  # as the objects of the cluster have it
        load = self._loads[service] = ServiceLoad()
        return load

    def measured(self, name: ServiceName, now: float) -> Measure:
        """Return the load of a Service now, and in the windows of the autoscaler."""
        load = self.of(name)
        if load is None:
            return NO_LOAD
        current = load.current(now, self._lost)
        rates = load.arrivals.averages(_second(now)) if load.arrivals is not None else ()
        return Measure(current, *load.window.averages(_second(now)), load.last_busy, *rates)

    def of(self, service: ServiceName) -> ServiceLoad | None:
        """Return the load of a Service; None if none was reported."""
        return self._loads.get(service)

    def current(self, service: ServiceName, now: float) -> float:
        """Return how many requests a Service has in flight or queued now."""
        load = self._loads.get(service)
        return 0.0 if load is None else load.current(now, self._lost)

    def peak(self, service: ServiceName, now: float, seconds: int) -> float:
        """Return the largest number of requests in flight or queued within the last seconds."""
        load = self._loads.get(service)
        if load is None:
            return 0.0
        return max(load.current(now, self._lost), load.window.peak(_second(now), seconds))

    def remove(self, service: ServiceName) -> None:
        """Remove a deleted Service."""
        self._loads.pop(service, None)
        self._unknown.discard(service)

    def prune(self, now: float) -> None:
        """Remove the loads of Services that do not exist; a Service may come after its load."""
        for name, load in list(self._loads.items()):
            if self._knows(name):
                self._unknown.discard(name)
            elif now - load.last_busy > UNKNOWN_STAYS:
                self.remove(name)

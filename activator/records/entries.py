"""Keeps the records of each requested revision, and finds them by a request's header fields.

The keys are the bytes of the fields, so that no request needs decoding. Only existing revisions get
an entry, so invented names take no memory. The module reads no clock, and knows neither metric
names nor HTTP, except a status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, final

from activator.plain.route_table import RouteKey, RouteTable, claim_of, keys_of, without_port
from activator.records.counters import RevisionCounters
from throttler.errors import RevisionNotFound
from throttler.model import AppProtocol, RevisionID, RevisionKind, ServiceRoute
from throttler.reason import Reason
from throttler.request_policies import WaitMode
from throttler.revision import RevisionThrottler
from throttler.throttler import Throttler

if TYPE_CHECKING:
    from activator.records.cold_starts import ColdStart, ColdStarts
    from activator.runtime import Request, RevisionLoad


# The clients that keep a revision awake: the User-Agents of requests that arrive alone.
#
# Such a request is the only load at its arrival. Without it, the revision would sleep sooner. A
# revision in use has so many requests that its sample is soon complete, and further requests cost
# one comparison each. Knative has no counterpart.

#: Seconds of one sample. Each request of clients with one request a minute counts.
SAMPLE_WINDOW: Final = 300.0
#: Most requests in one sample. A revision with more of them is in use.
MOST_SAMPLED: Final = 300
#: Most names in one sample; requests of further clients only count.
MOST_NAMES: Final = 16
#: Seconds without samples after a request that did not arrive alone.
SAMPLE_PAUSE: Final = 1.0
#: A client keeps a revision awake from so many requests on, and with about one a minute. The
#: stable window of Knative's autoscaler is a minute.
_FEWEST_REQUESTS: Final = 3
_FEWEST_A_MINUTE: Final = 0.9
#: Seconds after its last request for which a client counts.
_RECENT: Final = 120.0
_LONGEST_NAME: Final = 40
#: Robots add their name to the User-Agent of a browser, as in ``(compatible; UptimeRobot/2.0; …)``.
_COMPATIBLE: Final = re.compile(rb"compatible;[ +]*([^/;,() +]+)")
_PRODUCT: Final = re.compile(rb"[^/;,() ]+")


class Agents:
    """The sample of one revision.

    Attributes:
        sample_from: requests are sampled from this time on, seconds.
    """

    __slots__ = ("_before", "_count", "_last", "_now", "_since", "_was_busy", "sample_from")

    def __init__(self) -> None:
        self.sample_from = -inf
        self._since = -inf  # the begin of the present window
        self._count = 0  # requests in it
        self._now: dict[str, int] = {}  # and by name
        self._before: dict[str, int] = {}  # of the window before
        self._was_busy = False  # and whether it was full
        self._last: dict[str, float] = {}  # the last request of each name

    def pause(self, now: float) -> None:
        """Sample no request for a moment, since other requests are in flight or queued."""
        self.sample_from = now + SAMPLE_PAUSE

    def record(self, user_agent: bytes, now: float) -> None:
        """Count a request that arrived while no other one was in flight or queued.

        Arguments:
            user_agent: its User-Agent; empty without one.
            now: seconds.
        """
        self._roll(now)
        self._count += 1
        if self._count >= MOST_SAMPLED:
            self.sample_from = self._since + SAMPLE_WINDOW
        name = client_name(user_agent)
        if name in self._now or len(self._now) < MOST_NAMES:
            self._now[name] = self._now.get(name, 0) + 1
            self._last[name] = now

    def keep_awake(self, now: float) -> list[tuple[str, int]]:
        """Return the clients that keep the revision awake, with their requests a minute.

        Arguments:
            now: seconds.

        Returns:
            The clients with the most requests first; none if the revision is in use.
        """
        self._roll(now)
        if self._was_busy or self._count >= MOST_SAMPLED:
            return []
        passed = now - self._since
        rates = {
            name: self._rate(name, passed)
            for name, last in self._last.items()
            if now - last <= _RECENT
            and self._now.get(name, 0) + self._before.get(name, 0) >= _FEWEST_REQUESTS
        }
        named = [(name, round(rate)) for name, rate in rates.items() if rate >= _FEWEST_A_MINUTE]
        return sorted(named, key=lambda each: (-each[1], each[0]))

    def _rate(self, name: str, passed: float) -> float:
        """Return the requests a minute over the last window; at first since its begin.

        Arguments:
            name: of the client.
            passed: seconds since the begin of the present window.
        """
        count = float(self._now.get(name, 0))
        if not self._before:
            return count / max(passed / 60, 1.0)
        count += self._before.get(name, 0) * (1 - passed / SAMPLE_WINDOW)
        return count / (SAMPLE_WINDOW / 60)

    def _roll(self, now: float) -> None:
        """Begin a new window if the present one is over."""
        if now < self._since + SAMPLE_WINDOW:
            return
        follows = now < self._since + 2 * SAMPLE_WINDOW
        self._before = self._now if follows else {}
        self._was_busy = follows and self._count >= MOST_SAMPLED
        self._since = self._since + SAMPLE_WINDOW if follows else now
        self._count = 0
        self._now = {}
        self._last = {name: last for name, last in self._last.items() if name in self._before}


#: The sample of a revision without requests.
NO_AGENTS: Final = Agents()


def client_name(user_agent: bytes) -> str:
    """Return the name of a client for people: the product without its version.

    Arguments:
        user_agent: as the client sent it.
    """
    found = _COMPATIBLE.search(user_agent[:512])
    if found is not None:
        name = found[1]
    elif user_agent.startswith(b"Mozilla/"):
        return "a browser"
    else:
        first = _PRODUCT.match(user_agent)
        if first is None:
            return "no User-Agent"
        name = first[0]
    text = name[:_LONGEST_NAME].decode("latin-1")
    return "".join(each if each.isprintable() and each.isascii() else "?" for each in text)


# Failed requests, kept responses, and the lease of clients that will be back.

#: Seconds between two events of one revision: thousands of requests may fail together.
PACE: Final = 1.0


class Failed(NamedTuple):
    """One failed request.

    Attributes:
        at: its end on the driver's clock.
        status: of the error response; the pod's status if its response broke off; 0 for a
            connection of TCP.
        reason: why it failed.
        detail: more about the reason, for people: printable and short; may be empty.
    """

    at: float
    status: int
    reason: Reason
    detail: str


class Failures:
    """The failed requests of one revision; the number of reasons bounds the memory.

    The byte path records a failure with an error response, or when a pod's response breaks off. So
    served requests cost nothing.

    Attributes:
        last: the last one; None before the first.
        by_reason: the number of failed requests by reason.
    """

    __slots__ = ("_reported_at", "_unreported", "by_reason", "last")

    def __init__(self) -> None:
        self.last: Failed | None = None
        self.by_reason: dict[Reason, int] = {}
        self._reported_at = float("-inf")
        self._unreported = 0

    def record(self, failed: Failed) -> int:
        """Record a failed request.

        Returns:
            The number of failed requests since the last event, with this one; the caller publishes
            an event about them. 0 if the last event is younger than ``PACE``.
        """
        self.last = failed
        self.by_reason[failed.reason] = self.by_reason.get(failed.reason, 0) + 1
        self._unreported += 1
        if failed.at - self._reported_at < PACE:
            return 0
        count, self._unreported, self._reported_at = self._unreported, 0, failed.at
        return count


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
    """Responses of a revision's pods, for requests that must not start a pod.

    Each has a key for the requests that may get it. The oldest response leaves first.
    """

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


#: A ``creationTimestamp`` after all others.
_LAST: Final = "~"
#: Seconds by which a lease must grow until that is worth another probe of the pods.
_NEWS: Final = 1.0


@final
class WakeLease:
    """Keeps the demand for a revision alive while its clients are expected back.

    A client with a waiting page, or one that was refused with Retry-After, has no request in the
    meantime. So the lease counts as one concurrent request in the load of its revision, for all
    such clients together. A timer calls it (process.timers.Timed).

    Arguments:
        load: the load of the revision.

    Attributes:
        armed: see Timed.
        until: when the lease ends, seconds; minus infinity while there is none.
    """

    __slots__ = ("_cold_start", "_cold_starts", "_load", "armed", "until")

    def __init__(self, load: RevisionLoad) -> None:
        self._load = load
        self._cold_starts: ColdStarts | None = None
        self._cold_start: ColdStart | None = None
        self.armed = inf
        self.until = -inf

    def keep(self, until: float, now: float) -> bool:
        """Begin the lease, or prolong it; the caller then arms a timer for ``until``.

        Arguments:
            until: when the clients should be back, seconds.
            now: seconds.

        Returns:
            Whether it began, or grew by more than a second.
        """
        before = self.until
        if before == -inf:
            self._load.demand_began(now)
        self.until = max(before, until)
        return until > before + _NEWS

    def hold(self, cold_starts: ColdStarts, cold_start: ColdStart, outcome: str) -> None:
        """Continue a cold start while the lease lasts; it has begun before.

        Arguments:
            cold_starts: the cold starts of all revisions.
            cold_start: the one of this revision.
            outcome: see ColdStarts.lease.
        """
        self._cold_starts, self._cold_start = cold_starts, cold_start
        cold_starts.lease(cold_start, outcome)

    def on_time(self, now: float) -> float:
        """End the lease if its time is over; see Timed."""
        if now < self.until:
            return self.until
        if self.until > -inf:
            self.until = -inf
            self._load.request_ended(now)
            if self._cold_starts is not None and self._cold_start is not None:
                self._cold_starts.lease_ended(self._cold_start, now)
            self._cold_starts = self._cold_start = None
        return inf

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the lease ends; 0 without one."""
        return max(self.until - now, 0.0)


class Entry:
    """The records of one revision, which a request finds with one lookup."""

    __slots__ = ("agents", "counters", "failures", "kept", "lease", "load", "throttler")

    def __init__(
        self, throttler: RevisionThrottler, counters: RevisionCounters, load: RevisionLoad
    ):
        self.throttler = throttler
        self.counters = counters
        self.failures = Failures()
        self.agents = Agents()
        self.load = load
        self.kept: KeptResponses | None = None
        self.lease = WakeLease(load)


def queued_by_mode(throttler: RevisionThrottler, entry: Entry | None) -> dict[str, int]:
    """Return the queued requests of a revision by mode, in the order of WaitMode.

    Arguments:
        entry: the records of the revision; None before its first request.
    """
    counts = dict.fromkeys((mode.value for mode in WaitMode), 0)
    if entry is not None:
        counts |= entry.counters.waiting
    counts["hold"] = max(throttler.queued.waiting - sum(counts.values()), 0)
    return counts


class Entries:
    """The entries of all revisions.

    Arguments:
        load_for: returns the load record of a revision.
        cluster_domain: the suffix of hosts that name a revision.
        table: the rules of plain Services and of route objects; None if there are none.
        unknown: the kind in the error for an unknown host; REVISION if a host may name a Revision.
    """

    def __init__(
        self,
        throttler: Throttler,
        load_for: Callable[[RevisionID], RevisionLoad],
        cluster_domain: str = "cluster.local",
        table: RouteTable[RevisionID] | None = None,
        unknown: RevisionKind = RevisionKind.REVISION,
    ) -> None:
        self._throttler = throttler
        self._load_for = load_for
        self._cluster_domain = cluster_domain
        self._table = table
        self._unknown = unknown
        self._routes: dict[RevisionID, ServiceRoute] = {}
        self._entries: dict[RevisionID, Entry] = {}
        # The same entries by the bytes that name them in requests.
        self._by_name: dict[tuple[bytes, bytes], Entry] = {}
        self._by_service: dict[bytes, Entry] = {}
        self._by_host: dict[bytes, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def kept_hosts(self) -> int:
        """The number of hosts that name an entry without a search."""
        return len(self._by_host)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def find(self, namespace: bytes, name: bytes) -> Entry:
        """Return the entry of a revision; makes it on the first request.

        Raises:
            RevisionNotFound: no revision has that name.
        """
        entry = self._by_name.get((namespace, name))
        if entry is None:
            entry = self.of(RevisionID(namespace.decode("latin-1"), name.decode("latin-1")))
            self._by_name[namespace, name] = entry
        return entry

    def find_service(self, full_name: bytes) -> Entry:
        """Return the entry of a plain Service; makes it on the first request.

        Arguments:
            full_name: ``namespace/name``.

        Raises:
            RevisionNotFound: no such Service opts in, or its protocol is TCP.
        """
        entry = self._by_service.get(full_name)
        if entry is None:
            namespace, _, name = full_name.decode("latin-1").partition("/")
            entry = self.of(RevisionID(namespace, name, RevisionKind.SERVICE))
            if entry.throttler.revision.protocol is AppProtocol.TCP:
                raise RevisionNotFound(name, namespace, RevisionKind.SERVICE)
            self._by_service[full_name] = entry
        return entry

    def of(self, revision: RevisionID) -> Entry:
        """Return the entry of a revision, whatever its kind; makes it on the first request.

        Raises:
            RevisionNotFound: there is no such revision.
        """
        entry = self._entries.get(revision)
        if entry is None:
            throttler = self._throttler.find(*revision)
            counted_as = throttler.revision.id
            if counted_as.kind is RevisionKind.FALLBACK:  # its requests are load of their object
                counted_as = counted_as._replace(kind=RevisionKind.HTTP_ROUTE)
            load = self._load_for(counted_as)
            entry = self._entries[revision] = Entry(throttler, RevisionCounters(), load)
        return entry

    def find_host(self, host: bytes, name: bytes = b"", request: Request | None = None) -> Entry:
        """Return the entry of the revision that a request names by its host.

        Arguments:
            host: of the request.
            name: the revision's name in the error, if the host names no revision.
            request: its path and its fields count where rules ask for them; None for neither.

        Raises:
            RevisionNotFound: the request names no revision, or one that does not exist.
        """
        entry = self._by_host.get(host)
        return self._search_host(host, name, request) if entry is None else entry

    def _search_host(self, host: bytes, name: bytes, request: Request | None) -> Entry:
        """Return the entry of a revision: one of Knative's first, then what a rule names."""
        # Host names ignore case, and may end with the root's dot (RFC 9110 section 4.2.3).
        known_as = without_port(host.decode("latin-1").lower()).rstrip(".")
        revision = revision_from_host(known_as, self._cluster_domain)
        service = None
        if self._table is not None and request is not None:
            service = self._table.find(known_as, request.target, request.values)
        elif self._table is not None:
            service = self._table.find(known_as, b"/", dict)
        if service is None and self._unknown is not RevisionKind.REVISION:
            raise RevisionNotFound("", kind=self._unknown, host=known_as)
        if revision is None and service is None:
            # With Revisions alone, the client can mean no Service: the text is Knative's.
            knative = self._table is None or (not self._routes and self._throttler.has_revisions)
            of_either = None if name or knative else known_as
            raise RevisionNotFound(name.decode("latin-1"), host=of_either)
        if service is None or (revision is not None and self._exists(revision)):
            assert revision is not None
            entry = self.of(revision)
            # One host for each revision: spellings with ports, cases and dots take no memory.
            exact = f"{revision.name}.{revision.namespace}.svc.{self._cluster_domain}"
        else:
            exact = known_as if self._table is not None and self._table.is_exact(known_as) else ""
            entry = self.of(service)
        if host == exact.encode("latin-1", "replace"):
            self._by_host[host] = entry
        return entry

    def _exists(self, revision: RevisionID) -> bool:
        """Return whether a Revision exists, with or without an entry."""
        try:
            self._throttler.find(*revision)
        except RevisionNotFound:
            return False
        return True

    def set_route(self, revision: RevisionID, route: ServiceRoute) -> None:
        """Replace the rules of a plain Service or a route object; an empty route removes them."""
        table, before = self._table, self._routes.pop(revision, ServiceRoute())
        if route.is_tcp:
            self._routes[revision] = route
            self._by_service.pop(str(revision).encode("latin-1", "replace"), None)
        if table is None or before.rules == route.rules == ():
            return
        table.remove(claim_of(revision, before.created))
        if route.rules:
            self._routes[revision] = route
            table.put(claim_of(revision, route.created), route.rules, revision)
        self._by_host.clear()

    def give_way(self, revision: RevisionID) -> None:
        """Let all others win against the rules of a revision; ``set_route`` undoes that."""
        self.set_route(revision, self.route_of(revision)._replace(created=_LAST))

    def route_of(self, revision: RevisionID) -> ServiceRoute:
        """Return the route of a plain Service or a route object; an empty one for any other."""
        return self._routes.get(revision, ServiceRoute())

    def owners_of(self, revision: RevisionID) -> Mapping[RouteKey, RevisionID]:
        """Return what gets the requests of each rule of a revision: it, or an older object."""
        keys = keys_of(self.route_of(revision).rules)
        return {key: self._table.winner(key) or revision for key in keys} if self._table else {}

    def known(self, revision: RevisionID) -> Entry | None:
        """Return the entry of an existing revision that has had a request; else None."""
        return self._entries.get(revision)

    def remove(self, revision: RevisionID) -> bool:
        """Remove the entry of a deleted revision; return whether it had one."""
        entry = self._entries.pop(revision, None)
        if entry is None:
            return False
        if revision.kind is RevisionKind.SERVICE:
            self._by_service.pop(str(revision).encode("latin-1", "replace"), None)
        elif revision.kind is RevisionKind.REVISION:
            self._by_name.pop(_key(revision), None)
        for host in [host for host, known in self._by_host.items() if known is entry]:
            del self._by_host[host]
        return True


def revision_from_host(host: str, cluster_domain: str) -> RevisionID | None:
    """Return the revision that ``NAME.NAMESPACE.svc.CLUSTER_DOMAIN[:PORT]`` names, else None.

    Source: Knative pkg/activator/handler/context_handler.go.
    """
    parts = host.split(".", 3)
    if len(parts) != 4 or parts[2] != "svc" or parts[3].partition(":")[0] != cluster_domain:
        return None
    return RevisionID(namespace=parts[1], name=parts[0])


def _key(revision: RevisionID) -> tuple[bytes, bytes]:
    """Return the name as header fields have it. A name that no field can have gets no entry."""
    return (
        revision.namespace.encode("latin-1", "replace"),
        revision.name.encode("latin-1", "replace"),
    )
